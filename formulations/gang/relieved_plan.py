"""Plans once more, their overloaded links relieved (uplink_search.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from placewright.formulations.bound_arithmetic import SHARPNESS, near
from placewright.formulations.gang import parameters
from placewright.formulations.gang.bounds.contention import contention_bounds
from placewright.formulations.gang.heuristics.uplink_search import relieve_links
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.from_candidate import placement_of
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CONTENTION
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session

Decide = Callable[[Problem, Session], Steps]


def with_relieved_links(problem: Problem, session: Session, decide: Decide) -> Steps:
    """Yield the steps of a search, and its best plan with less contention, if found.

    As soon as all terms before are proven, and at the end: where no link is overloaded, the term
    needs no model.
    """
    if CONTENTION not in problem.terms:
        yield from decide(problem, session)
        return
    before = problem.terms[: problem.terms.index(CONTENTION)]
    best: Candidate | None = None
    tried: Candidate | None = None
    share = parameters.PARAMETERS.neighbourhood.uplink_share
    for step in decide(problem, session.part(1 - share)):
        known = session.best
        yield step
        if isinstance(step, Candidate) and session.best != known:
            best = step
        if best is not tried and best is not None and _are_proven(session, before):
            tried = best
            yield from _relieved(problem, session, best)
    if best is not tried and best is not None:
        yield from _relieved(problem, session, best)


def _are_proven(session: Session, terms: Sequence[str]) -> bool:
    """Whether the bounds of some terms equal the values of the best plan, but for rounding."""
    best, bounds = session.best, session.best_known.bounds
    return best is not None and all(
        term in bounds and near(bounds[term], best[term], SHARPNESS) for term in terms
    )


def _relieved(problem: Problem, session: Session, candidate: Candidate) -> Steps:
    if session.expired() or _are_proven(session, [CONTENTION]):
        return
    yield from contention_bounds(problem, session)
    if _are_proven(session, [CONTENTION]):
        return
    placement = placement_of(problem, candidate)
    if relieve_links(placement, session, session.best_known.bounds.get(CONTENTION, 0.0)):
        repair_disruptions(placement)
        yield assign(placement, "relieved links")
