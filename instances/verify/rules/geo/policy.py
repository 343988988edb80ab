"""Rules and terms of the policies `geo` and `replicas`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang import reasons
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.geo import copies, flows, homes, jobs, reads, sections
from placewright.instances.verify.rules.geo.terms import (
    copies as copied,
)
from placewright.instances.verify.rules.geo.terms import (
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
        *sections.RULES,
        *jobs.RULES,
        *reads.RULES,
        *copies.RULES,
        *flows.RULES,
        *reasons.RULES,
    ),
    forms=sections.FORMS,
    read=sections.with_data,
    classes=class_terms,
)
REPLICAS = PolicyRules(
    terms={
        "overload": overload,
        "remote_reads": reads_of_homes,
        "copies": copied,
        "imbalance": imbalance,
        "hottest": hottest,
    },
    rules=(*sections.RULES, *homes.RULES, *copies.RULES, *flows.RULES),
    forms={kind: sections.FORMS[kind] for kind in ("replicas", "flows")},
    read=sections.with_data,
)
