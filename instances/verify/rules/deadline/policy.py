"""Rules and terms of the policy `deadline`."""

from __future__ import annotations

from placewright.instances.verify.policies import PolicyRules
from placewright.instances.verify.rules.deadline import leases
from placewright.instances.verify.rules.deadline.leases import RULES_OF_LEASES
from placewright.instances.verify.rules.deadline.promises import RULES_OF_PROMISES
from placewright.instances.verify.rules.deadline.refusals import RULES_OF_REFUSALS
from placewright.instances.verify.rules.deadline.terms import (
    admitted,
    best_effort,
    broken,
    class_terms,
    early,
)
from placewright.instances.verify.rules.gang.reasons import RULES_OF_REASONS
from placewright.instances.verify.rules.gang.terms import PLACEMENT_TERMS

POLICY = PolicyRules(
    terms={
        **PLACEMENT_TERMS,
        "broken": broken,
        "admitted": admitted,
        "best_effort": best_effort,
        "early": early,
    },
    rules=(*RULES_OF_LEASES, *RULES_OF_PROMISES, *RULES_OF_REFUSALS, *RULES_OF_REASONS),
    forms={leases.KIND: leases.form},
    read=leases.with_promises,
    classes=class_terms,
)
