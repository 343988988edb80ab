"""Rules and terms of the policy `interleaving`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang import reasons
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.interleaving import conflicts, groups, turns
from placewright.instances.verify.rules.interleaving.facts import KIND, with_groups
from placewright.instances.verify.rules.interleaving.throughput import (
    class_terms,
    efficiency,
    throughput,
    weighted_throughput,
)

POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "throughput": throughput,
        "weighted_throughput": weighted_throughput,
        "efficiency": efficiency,
    },
    rules=(*conflicts.RULES, *groups.RULES, *turns.RULES, *reasons.RULES),
    forms={KIND: groups.form},
    read=with_groups,
    classes=class_terms,
)
