"""Residual decision: a formulation decides what guaranteed jobs leave; plans are of all jobs."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from placewright.formulations.cells.residual_round import ADDITIVE_TERMS, ResidualRound
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session


def _offsets(rest: ResidualRound, base: Mapping[str, int]) -> dict[str, int]:
    """Return, per term, by how much the whole round's value exceeds that of the rest.

    Exact for terms that add up and for those of what tenants hold and hosts have left in the end;
    for the others low enough that bounds stay bounds.
    """
    if not rest.placed.starts:
        return dict.fromkeys(base, 0)
    return {
        term: value
        if term in ADDITIVE_TERMS
        else rest.evicted.min_cost
        if term == "disruption"
        else 0
        for term, value in base.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class CellProblem:
    """What is left to decide once guaranteed jobs have their places.

    `base` has the terms of `rest.base()` in the whole round, and `gangs` is what the rest compiles
    to.
    """

    rest: ResidualRound
    base: Mapping[str, int]
    gangs: Problem


def run(cells: CellProblem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield candidates and bounds of the whole round from those of the rest.

    The session's gang formulation decides the rest. What is bounded are the plans in which
    guaranteed jobs have these places. What evicted jobs leave is open to others only if they find
    another place, which no model of the rest knows. So a greedy plan that arrives nowhere there
    comes first, and if others turn out to be unlawful, a second search with these hosts closed
    comes last.
    """
    rest, problem = cells.rest, cells.gangs
    offset = _offsets(rest, cells.base)
    has_plan = session.best is not None
    left = sorted(rest.left_by(rest.evicted.jobs))
    if not left:
        yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
        return
    for state in (problem.state, problem.cleared):
        state.busy[left] = True
    closed = replace(problem, open=problem.open.copy())
    closed.open[left] = False
    placement = Placement(closed)
    fill_greedily(placement)
    repair_preemptions(placement)
    lifted = rest.lifted(assign(placement, "greedy"))
    if lifted is None:
        raise AssertionError("a plan arrives on closed hosts; expected none")
    yield lifted
    unlawful = yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
    if unlawful and not session.proven and not session.expired():
        for step in _lift_all(rest, offset, closed, session, has_plan=has_plan):
            if isinstance(step, Candidate):
                yield step


def _lift_all(
    rest: ResidualRound,
    offset: Mapping[str, int],
    problem: Problem,
    session: Session,
    *,
    has_plan: bool,
) -> Generator[Candidate | Bound, None, bool]:
    """Run a formulation with a session of its own, and tell what it yields of the whole round.

    The formulation begins as if nothing was known, unless a given plan is `audited`. Returns
    whether some candidate was no lawful plan of the whole round.
    """
    unlawful = False
    first = problem.terms[0]
    inner = session.inner()
    if has_plan:
        _inform(inner, session, offset, first)
    for step in inner.gang(problem, inner):
        if isinstance(step, Bound):
            yield _bound(step, offset)
        elif (lifted := rest.lifted(step)) is not None:
            yield lifted
        else:
            unlawful = True
        _inform(inner, session, offset, first)
    return unlawful


def _inform(inner: Session, session: Session, offset: Mapping[str, int], first: str) -> None:
    """Tell the inner session what the round knows, in values of the rest."""
    inner.known.proven = session.proven
    if session.best is not None:
        inner.known.values = {term: value - offset[term] for term, value in session.best.items()}
    if session.best is not None and next(iter(session.best)) == first:
        known = session.first_bound
        inner.known.first_bound = None if known is None else known - offset[first]


def _bound(bound: Bound, offset: Mapping[str, int]) -> Bound:
    """Tell a bound of the whole round."""
    return replace(
        bound,
        value=bound.value + offset[bound.term],
        holds=tuple((term, value + offset[term]) for term, value in bound.holds),
    )
