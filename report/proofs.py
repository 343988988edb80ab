"""How far a proof goes: by which terms no plan is better, and of which plans that holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from placewright.report.text import percent, term_name

if TYPE_CHECKING:
    from placewright.instances.documents.plan import TermResult
    from placewright.instances.documents.round import Round

PROOF: Mapping[str | None, str] = {
    "certified": "certified",
    "claimed": "as a solver claims",
    None: "not proven",
}
GOING_ON = "no plan that goes on from it, each job with its option,"
"""Of which plans the bounds of a round speak that a plan leads to."""


def covered(round_: Round) -> str:
    """Say of which plans the bounds of a plan of a round speak: rules may place some jobs first."""
    if round_.policy.backfill is not None:
        return "no plan with the same starts in turn and reservations"
    if any(tenant.cells for tenant in round_.tenants):
        return "no plan with guaranteed jobs in the same places"
    return "no plan"


def proven(results: Sequence[TermResult]) -> tuple[TermResult, ...]:
    """Return the first terms at their bounds: no plan is better by them, in their order."""
    return tuple(takewhile(lambda one: one.gap == 0, results))


def best_text(results: Sequence[TermResult], plans: str) -> str:
    """Say by which terms, in their order, none of some plans is better, and by which one may be."""
    known = proven(results)
    if not known:
        return "no better plan was found"
    names = ", then ".join(map(term_name, known))
    weakest = "claimed" if any(one.proof == "claimed" for one in known) else "certified"
    text = f"{plans} is better by {names} ({PROOF[weakest]})"
    if len(known) == len(results):
        return text
    left = results[len(known)]
    within = "" if left.gap is None else f", by at most {percent(left.gap)}"
    return f"{text}; by {term_name(left)} one may be{within}"
