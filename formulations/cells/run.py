"""A formulation around guaranteed jobs: it decides the rest, and what it says is told of all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from placewright.formulations.cells.rest import Rest
from placewright.formulations.gang.greedy import fill
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Bound, Candidate, Session

Formulation: TypeAlias = Callable[[Problem, Session], Iterator[Candidate | Bound]]

ADDS_UP = ("value", "progress", "spread", "proximity", "opened")
"""Terms in which the whole is the rest and what guaranteed jobs and evictions make of them."""


def _shifts(rest: Rest, base: Mapping[str, int]) -> dict[str, int] | None:
    """Return, per term, by how much the whole round's value exceeds that of the rest.

    Exact for the terms that add up; for the others that are known at least so much less than the
    excess that bounds stay bounds. None if both are the same in every term.
    """
    if not rest.placed.starts:
        return None
    known = {term: base[term] for term in ADDS_UP if term in base}
    return known | {"disruption": rest.evicted.toll, "remaining": 0, "leftover": 0}


def run_around(
    rest: Rest,
    base: Mapping[str, int],
    formulation: Formulation,
    problem: Problem,
    session: Session,
) -> Iterator[Candidate | Bound]:
    """Yield candidates and bounds of the whole round from those of the rest.

    `base` has the terms of `rest.base()` in the whole round.
    What is bounded are the plans in which guaranteed jobs have these places. What evicted jobs
    leave is open to others only if they find another place, which no model of the rest knows. So a
    greedy plan that arrives nowhere there comes first, and if others turn out to be unlawful, a
    second search with these hosts closed comes last.
    """
    shift = _shifts(rest, base)
    left = sorted(rest.left_by(rest.evicted.jobs))
    if not left:
        yield from _told(rest, shift, formulation, problem, session)
        return
    for state in (problem.state, problem.cleared):
        state.busy[left] = True
    closed = replace(problem, open=problem.open.copy())
    closed.open[left] = False
    placement = Placement(closed)
    fill(placement)
    told = rest.told(candidate(placement, "greedy"))
    if told is None:
        raise AssertionError("a plan arrives on closed hosts; expected none")
    yield told
    unlawful = yield from _told(rest, shift, formulation, problem, session)
    if unlawful and not session.proven and not session.expired():
        for step in _told(rest, shift, formulation, closed, session):
            if isinstance(step, Candidate):
                yield step


def _told(
    rest: Rest,
    shift: Mapping[str, int] | None,
    formulation: Formulation,
    problem: Problem,
    session: Session,
) -> Generator[Candidate | Bound, None, bool]:
    """Run a formulation with a session of its own, and tell what it yields of the whole round.

    Returns whether some candidate was no lawful plan of it.
    """
    unlawful = False
    inner = replace(session, first_bound=None, proven=False)
    _tell(inner, session, shift, problem.terms[0])
    for step in formulation(problem, inner):
        told = rest.told(step) if isinstance(step, Candidate) else _bound(step, shift)
        session.wall_stopped |= inner.wall_stopped
        unlawful |= told is None and isinstance(step, Candidate)
        if told is not None:
            yield told
            _tell(inner, session, shift, problem.terms[0])
    session.wall_stopped |= inner.wall_stopped
    return unlawful


def _tell(inner: Session, session: Session, shift: Mapping[str, int] | None, first: str) -> None:
    """Tell the inner session what the round knows, in values of the rest."""
    more = shift or {}
    inner.deadline, inner.proven = session.deadline, session.proven
    if session.best is not None:
        inner.best = {term: value - more.get(term, 0) for term, value in session.best.items()}
    known = session.first_bound if shift is None or first in shift else None
    inner.first_bound = None if known is None else known - more.get(first, 0)


def _bound(bound: Bound, shift: Mapping[str, int] | None) -> Bound | None:
    """Tell a bound of the whole round, or None where the rest says nothing of its terms."""
    if shift is None:
        return bound
    if bound.term not in shift or any(term not in shift for term, _ in bound.holds):
        return None
    return replace(
        bound,
        value=bound.value + shift[bound.term],
        holds=tuple((term, value + shift[term]) for term, value in bound.holds),
    )
