"""Rules and terms of the policies `geo` and `replicas`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.geo import sections
from placewright.instances.verify.rules.geo.copies import RULES_OF_COPIES
from placewright.instances.verify.rules.geo.flows import RULES_OF_FLOWS
from placewright.instances.verify.rules.geo.homes import RULES_OF_HOMES
from placewright.instances.verify.rules.geo.jobs import RULES_OF_REGIONS_OF_JOBS
from placewright.instances.verify.rules.geo.reads import RULES_OF_READS
from placewright.instances.verify.rules.geo.sections import RULES_OF_SECTIONS_OF_REGIONS
from placewright.instances.verify.rules.geo.terms import (
    copies_made,
    egress_cost,
    gpu_cost,
    hottest,
    imbalance,
    overload,
    reads_of_homes,
    reads_of_runs,
)

GEO = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "value": value,
        "remote_reads": reads_of_runs,
        "egress_cost": egress_cost,
        "gpu_cost": gpu_cost,
    },
    rules=(
        *RULES_OF_SECTIONS_OF_REGIONS,
        *RULES_OF_REGIONS_OF_JOBS,
        *RULES_OF_READS,
        *RULES_OF_COPIES,
        *RULES_OF_FLOWS,
        *RULES_OF_REASONS,
    ),
    forms=sections.FORMS,
    read=sections.with_data,
    classes=class_terms,
)
REPLICAS = PolicyRules(
    terms={
        "overload": overload,
        "remote_reads": reads_of_homes,
        "copies": copies_made,
        "imbalance": imbalance,
        "hottest": hottest,
    },
    rules=(*RULES_OF_SECTIONS_OF_REGIONS, *RULES_OF_HOMES, *RULES_OF_COPIES, *RULES_OF_FLOWS),
    forms={kind: sections.FORMS[kind] for kind in ("replicas", "flows")},
    read=sections.with_data,
)
