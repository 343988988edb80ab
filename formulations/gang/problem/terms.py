"""The names of objective terms, and whether more or less of each is better."""

from __future__ import annotations

from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS
from placewright.instances.policies import POLICIES, Sense

VALUE = "value"
PROGRESS = "progress"
BOTTLENECK = "bottleneck"
ENTITLED = "entitled"
PACKED = "packed"
"""Not a term of policies: what the hosts in use are worth (bounds/freed.py)."""
SENSE: dict[str, Sense] = {
    **{term: sense for spec in POLICIES.values() for term, sense in spec.terms.items()},
    PACKED: "min",
    **dict.fromkeys(SHARE_TERMS, "max"),
}
