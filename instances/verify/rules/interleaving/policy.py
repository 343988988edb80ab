"""Rules and terms of the policy `interleaving`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS
from placewright.instances.verify.rules.interleaving.conflicts import RULES_OF_CONFLICTS
from placewright.instances.verify.rules.interleaving.facts import KIND, with_groups
from placewright.instances.verify.rules.interleaving.groups import RULES_OF_GROUPS, form
from placewright.instances.verify.rules.interleaving.throughput import (
    class_terms,
    efficiency,
    throughput,
    weighted_throughput,
)
from placewright.instances.verify.rules.interleaving.turns import RULES_OF_TURNS

POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "throughput": throughput,
        "weighted_throughput": weighted_throughput,
        "efficiency": efficiency,
    },
    rules=(*RULES_OF_CONFLICTS, *RULES_OF_GROUPS, *RULES_OF_TURNS, *RULES_OF_REASONS),
    forms={KIND: form},
    read=with_groups,
    classes=class_terms,
)
