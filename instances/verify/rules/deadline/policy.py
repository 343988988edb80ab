"""Rules and terms of the policy `deadline`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.deadline import leases, promises, refusals
from placewright.instances.verify.rules.deadline.terms import (
    admitted,
    best_effort,
    broken,
    class_terms,
    early,
)
from placewright.instances.verify.rules.gang import reasons
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS

POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "broken": broken,
        "admitted": admitted,
        "best_effort": best_effort,
        "early": early,
    },
    rules=(*leases.RULES, *promises.RULES, *refusals.RULES, *reasons.RULES),
    forms={leases.KIND: leases.form},
    read=leases.with_promises,
    classes=class_terms,
)
