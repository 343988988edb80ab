"""Rules and terms of the policy `gang`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang import (
    maintenance,
    reasons,
    reservation_section,
    reservations,
    waiting_reasons,
)
from placewright.instances.verify.rules.gang.collectives import bottleneck
from placewright.instances.verify.rules.gang.contention import contention
from placewright.instances.verify.rules.gang.fragmentation import stranded
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.shares import sums
from placewright.instances.verify.rules.gang.terms import (
    PLACEMENT_TERMS,
    entitled,
    freed,
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
        "stranded": stranded,
        "share": sums,
    },
    rules=(
        *reasons.RULES,
        *reservations.RULES,
        *maintenance.RULES,
        *waiting_reasons.RULES,
    ),
    forms={reservation_section.KIND: reservation_section.form},
    classes=class_terms,
)
