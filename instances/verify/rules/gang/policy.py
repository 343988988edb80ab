"""Rules and terms of the policy `gang`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang import timeline
from placewright.instances.verify.rules.gang.collectives import bottleneck
from placewright.instances.verify.rules.gang.free_hosts import stranded
from placewright.instances.verify.rules.gang.limits import sums
from placewright.instances.verify.rules.gang.places import RULES_OF_MAINTENANCE
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.reasons import (
    RULES_OF_REASONS,
    RULES_OF_WAITING_REASONS,
)
from placewright.instances.verify.rules.gang.reservations import RULES_OF_RESERVATIONS
from placewright.instances.verify.rules.gang.terms import (
    PLACEMENT_TERMS,
    contention,
    entitled,
    freed,
    gpu_links,
    leftover,
    progress,
    remaining,
)

POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "value": value,
        "progress": progress,
        "entitled": entitled,
        "remaining": remaining,
        "freed": freed,
        "leftover": leftover,
        "bottleneck": bottleneck,
        "contention": contention,
        "gpu_links": gpu_links,
        "stranded": stranded,
        "share": sums,
    },
    rules=(
        *RULES_OF_REASONS,
        *RULES_OF_RESERVATIONS,
        *RULES_OF_MAINTENANCE,
        *RULES_OF_WAITING_REASONS,
    ),
    forms={timeline.KIND: timeline.form},
    classes=class_terms,
)
