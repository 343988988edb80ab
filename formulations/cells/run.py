"""A formulation around guaranteed jobs: it decides the rest, and what it says is told of all."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from placewright.formulations.cells.residual_round import ADDS_UP, Rest
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Bound, Candidate, Session


def _shifts(rest: Rest, base: Mapping[str, int]) -> dict[str, int]:
    """Return, per term, by how much the whole round's value exceeds that of the rest.

    Exact for terms that add up and for those of what tenants hold and hosts have left in the end;
    for the others at least so much less than the excess that bounds stay bounds.
    """
    if not rest.placed.starts:
        return dict.fromkeys(base, 0)
    return {
        term: value if term in ADDS_UP else rest.evicted.toll if term == "disruption" else 0
        for term, value in base.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class CellProblem:
    """What is left to decide once guaranteed jobs have their places.

    `base` has the terms of `rest.base()` in the whole round, and `gangs` is what the rest compiles
    to.
    """

    rest: Rest
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
    shift = _shifts(rest, cells.base)
    audited = session.best is not None
    left = sorted(rest.left_by(rest.evicted.jobs))
    if not left:
        yield from _told(rest, shift, problem, session, audited=audited)
        return
    for state in (problem.state, problem.cleared):
        state.busy[left] = True
    closed = replace(problem, open=problem.open.copy())
    closed.open[left] = False
    placement = Placement(closed)
    fill_greedily(placement)
    repair_preemptions(placement)
    told = rest.told(assign(placement, "greedy"))
    if told is None:
        raise AssertionError("a plan arrives on closed hosts; expected none")
    yield told
    unlawful = yield from _told(rest, shift, problem, session, audited=audited)
    if unlawful and not session.proven and not session.expired():
        for step in _told(rest, shift, closed, session, audited=audited):
            if isinstance(step, Candidate):
                yield step


def _told(
    rest: Rest,
    shift: Mapping[str, int],
    problem: Problem,
    session: Session,
    *,
    audited: bool,
) -> Generator[Candidate | Bound, None, bool]:
    """Run a formulation with a session of its own, and tell what it yields of the whole round.

    The formulation begins as if nothing was known, unless a given plan is `audited`. Returns
    whether some candidate was no lawful plan of the whole round.
    """
    unlawful = False
    first = problem.terms[0]
    inner = replace(session, best=None, first_bound=None, proven=False)
    if audited:
        _tell(inner, session, shift, first)
    for step in inner.gang(problem, inner):
        if isinstance(step, Bound):
            yield _bound(step, shift)
        elif (told := rest.told(step)) is not None:
            yield told
        else:
            unlawful = True
        session.wall_stopped |= inner.wall_stopped
        _tell(inner, session, shift, first)
    session.wall_stopped |= inner.wall_stopped
    return unlawful


def _tell(inner: Session, session: Session, shift: Mapping[str, int], first: str) -> None:
    """Tell the inner session what the round knows, in values of the rest."""
    inner.deadline, inner.proven = session.deadline, session.proven
    if session.best is not None:
        inner.best = {term: value - shift[term] for term, value in session.best.items()}
    if session.best is not None and next(iter(session.best)) == first:
        known = session.first_bound
        inner.first_bound = None if known is None else known - shift[first]


def _bound(bound: Bound, shift: Mapping[str, int]) -> Bound:
    """Tell a bound of the whole round."""
    return replace(
        bound,
        value=bound.value + shift[bound.term],
        holds=tuple((term, value + shift[term]) for term, value in bound.holds),
    )
