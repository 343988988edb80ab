"""The names of objective terms, and whether more or less of each is better."""

from __future__ import annotations

from placewright.formulations.common.priority_classes import class_terms
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS
from placewright.instances.policies import POLICIES, Sense

VALUE = "value"
CLASS_VALUES = class_terms(VALUE)
"""What `value` stands for under strict priority, the highest class first (priority_classes.py)."""

PROGRESS = "progress"
BOTTLENECK = "bottleneck"
CONTENTION = "contention"
LINK_TERMS = frozenset({BOTTLENECK, CONTENTION})
"""Terms that count the links that groups cross."""

ENTITLED = "entitled"
OPTION_SUMS = (VALUE, *CLASS_VALUES, ENTITLED, PROGRESS)
"""Terms that are a sum over the options that run: see `Options.amounts`."""

PACKED = "packed"
"""Not a term of policies: what the hosts in use are worth (bounds/freed.py)."""
SENSE: dict[str, Sense] = {
    **{term: sense for spec in POLICIES.values() for term, sense in spec.terms.items()},
    PACKED: "min",
    **dict.fromkeys((*SHARE_TERMS, *CLASS_VALUES), "max"),
}
