"""Rules and terms of the policy `gang`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang import (
    reservation_section,
)
from placewright.instances.verify.rules.gang.collectives import bottleneck
from placewright.instances.verify.rules.gang.contention import contention
from placewright.instances.verify.rules.gang.fragmentation import stranded
from placewright.instances.verify.rules.gang.maintenance import RULES_OF_MAINTENANCE
from placewright.instances.verify.rules.gang.priority import class_terms, value
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.reservations import RULES_OF_RESERVATIONS
from placewright.instances.verify.rules.gang.shares import sums
from placewright.instances.verify.rules.gang.terms import (
    PLACEMENT_TERMS,
    entitled,
    freed,
    leftover,
    progress,
    remaining,
)
from placewright.instances.verify.rules.gang.waiting_reasons import RULES_OF_WAITING_REASONS

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
        *RULES_OF_REASONS,
        *RULES_OF_RESERVATIONS,
        *RULES_OF_MAINTENANCE,
        *RULES_OF_WAITING_REASONS,
    ),
    forms={reservation_section.KIND: reservation_section.form},
    classes=class_terms,
)
