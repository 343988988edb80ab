"""Which promises to give: the most value, after breaking the least of those given before.

1. Promises that jobs have are placed first. Where they do not all fit, the jobs that have one are
   a problem of their own, whose value is what is kept of each promise; its bound is that of what
   must be broken.
2. The demand-bound program over all ways, with as much kept as the best plan keeps, bounds what can
   be promised (`relaxing`) and chooses ways (`rounding`); `filling` finds leases for them, drops
   what finds none, and adds what still fits; `search` goes on from there.
3. Small problems that are not proven by then are stated lease by lease (`indexed`).

Rows of demand say all there is to know where every job asks one GPU of one row, all may begin at
once and capacity never falls: there the first choice that breaks no row is optimal, and filling
finds its leases. Elsewhere they are a relaxation: a problem is solved exactly where its bound is
reached, or step 3 ends with a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from placewright.formulations.deadline.heuristics.core_mip import WHOLE, Choice, floored, searched
from placewright.formulations.deadline.heuristics.feasibility_mip import arrange, best_of
from placewright.formulations.deadline.heuristics.list_scheduling import (
    ORDERS,
    complete,
    fill,
    worth,
)
from placewright.formulations.deadline.heuristics.lns import improve
from placewright.formulations.deadline.heuristics.path_relinking import mend, steer
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import Demands, bounded, possible
from placewright.formulations.deadline.models.master_lp import Aim, Program
from placewright.formulations.deadline.problem.problem import NONE, Bools, Problem, Schedule
from placewright.formulations.session import Session, near

BROKEN, ADMITTED = "broken", "admitted"
"""The terms that admission decides, the first before the second."""

ARRANGING_SECONDS = 0.4
"""Most time to ask a solver for leases of a choice that was not filled whole."""

MENDING_SECONDS = 2.0
"""Most time to ask a solver for the best of few ways after capacity was lost: filling, which must
not lose one promise more, is then far from what can be done."""

CLOSE = 0.01
"""Gap at which it is not asked again, after promises were broken, what the others could have."""

LEASE_COLUMNS = 4_000
"""Jobs times leases up to which a problem is stated lease by lease."""


@dataclass(frozen=True, slots=True)
class AdmissionBound:
    """No schedule that breaks no more than `broken` beats `value` in `term`.

    `broken` is None for the term `broken` itself. `certified`: recomputed in our own code;
    otherwise claimed by a solver.
    """

    term: str
    value: int
    broken: int | None
    certified: bool


def admit(
    problem: Problem, session: Session, known: Schedule | None = None
) -> Iterator[Schedule | AdmissionBound]:
    """Yield ever better schedules, by `broken` and then `admitted`, and bounds of both terms.

    The first schedule comes at once. It ends when both terms are proven (within the session's gap),
    nothing more is found, or the session's time is over.

    Parameters
    ----------
    known
        A schedule of promises that the last round has left; the first one breaks no more than it.
    """
    able = possible(problem)
    first = _kept(problem, able)
    if known is not None and known.broken(problem) < first.broken(problem):
        first = known
    best = complete(problem, first, expired=session.expired)
    if known is not None and worth(problem, known) > worth(problem, best):
        best = known
    yield best
    kept: Schedule | None = None
    for step in _least_broken(problem, able, best, session):
        if isinstance(step, Schedule):
            kept = step
        else:
            yield step
    if kept is not None:
        best = complete(problem, kept, expired=session.expired)
        yield best
    broken = best.broken(problem)
    for found in _most(problem, able, best, session):
        if isinstance(found, Schedule):
            yield found
        else:
            yield AdmissionBound(ADMITTED, found.value, broken, found.certified)


def _kept(problem: Problem, able: Bools) -> Schedule:
    """Return a schedule of the promises that jobs have, as far as they are easily kept."""
    whole = np.flatnonzero(able & (problem.loss[problem.job] > 0) & (problem.lost == 0))
    time = problem.end[whole] - problem.first[whole]
    # Of the ways that lose nothing the one that asks least, or the one that is done soonest.
    asked = problem.need[whole] * problem.demand[whole].sum(axis=1)
    way = np.full(problem.jobs, NONE, dtype=np.int64)
    best = fill(problem, way)
    demands = Demands(problem) if bounded(problem) else None
    for order in (np.lexsort((time, -asked)), np.lexsort((time, -asked, -problem.need[whole]))):
        before, way = way, np.full(problem.jobs, NONE, dtype=np.int64)
        way[problem.job[whole[order]]] = whole[order]
        if (way == before).all():
            break
        chosen = np.zeros(problem.ways)
        chosen[way[way != NONE]] = 1.0
        if demands is not None and any(demands.broken(chosen)):
            # They cannot all be kept, so whom to push out is decided with all of them in view.
            nobody = replace(problem, loss=np.zeros_like(problem.loss))
            found = fill(nobody, way, orders=ORDERS[:1], effort=0)
        else:
            found = fill(problem, way)
        if found.broken(problem) < best.broken(problem):
            best = found
        if not best.broken(problem):
            break
    return best


def _least_broken(
    problem: Problem, able: Bools, kept: Schedule, session: Session
) -> Iterator[Schedule | AdmissionBound]:
    """Yield schedules that break less than this one, and bounds of what must be broken."""
    total = int(problem.loss.sum())
    if not kept.broken(problem):
        yield AdmissionBound(BROKEN, 0, None, certified=True)
        return
    saved = problem.loss[problem.job] - problem.lost
    ways = np.flatnonzero(able & (saved > 0))
    own = replace(problem.only(ways), loss=np.zeros_like(problem.loss), value=saved[ways])
    # The last entries stand for NONE.
    inside = np.full(problem.ways + 1, NONE)
    inside[ways] = np.arange(len(ways))
    outside = np.append(ways, NONE)
    way = inside[kept.way]
    begin = Schedule(way, kept.runs & (way != NONE)[:, None])
    for step in _most(own, np.ones(len(ways), dtype=np.bool_), begin, session):
        if isinstance(step, Schedule):
            yield Schedule(outside[step.way], step.runs)
        else:
            yield AdmissionBound(BROKEN, max(0, total - step.value), None, step.certified)


def _most(
    problem: Problem, able: Bools, best: Schedule, session: Session
) -> Iterator[Schedule | _Most]:
    """Yield schedules better than the best, and what none that breaks no more is worth."""
    bound: int | None = None
    for step in _Search(problem, able, best, session).steps():
        if isinstance(step, Schedule):
            best = step
        elif bound is None or step.value < bound:
            bound = step.value
        else:
            continue
        yield step
        if bound is not None and near(bound, best.admitted(problem), session.gap):
            return


@dataclass(frozen=True, slots=True)
class _Most:
    """What no schedule is worth more than."""

    value: int
    certified: bool


class _Search:
    """Schedules that break no more than the first, and promise ever more."""

    def __init__(self, problem: Problem, able: Bools, best: Schedule, session: Session) -> None:
        self.problem, self.able, self.best, self.session = problem, able, best, session
        self.broken = best.broken(problem)
        self.tried = set[bytes]()
        self.saved = problem.loss[problem.job] - problem.lost

    def steps(self) -> Iterator[Schedule | _Most]:
        """Yield better schedules, and bounds."""
        problem = self.problem
        each = np.zeros(problem.jobs, dtype=np.int64)
        np.maximum.at(each, problem.job[self.able], problem.value[self.able])
        bound = int(each.sum())
        if self.best.admitted(problem) == bound:
            # Everybody has the best promise that there is, as often happens.
            yield _Most(bound, certified=True)
            return
        if not bounded(problem):
            return
        if self.broken:
            held = int(problem.loss.sum()) - self.broken
            nobody = np.zeros(problem.jobs, dtype=np.bool_)
            aim = Aim(problem.value, self.saved, held)
            program = Program(Demands(problem), self.able, nobody, aim)
            for step in self._by_rows(program):
                if isinstance(step, _Most):
                    bound = step.value
                yield step
            small = time_indexed.cells(problem) <= LEASE_COLUMNS
            if not small and near(bound, self.best.admitted(problem), CLOSE):
                return
        # What jobs have is kept as in the best schedule, which shows that it can be.
        level = np.append(self.saved, 0)[self.best.way]
        allowed = self.able & (self.saved >= level[problem.job])
        aim = Aim(problem.value, self.saved, 0)
        program = Program(Demands(problem), allowed, level > 0, aim)
        for step in self._by_rows(program):
            if isinstance(step, Schedule) or not self.broken:
                yield step
        if time_indexed.cells(problem) <= LEASE_COLUMNS:
            yield from self._lease_by_lease()
        else:
            for found in improve(problem, self.best, self.session.expired):
                yield from self._better(found)

    def _by_rows(self, program: Program) -> Iterator[Schedule | _Most]:
        """Yield schedules of choices by rows of demand, and what these prove of all they allow."""
        relaxed = program.relax(self.session)
        if relaxed is None:
            return
        yield _Most(relaxed.priced.bound, certified=True)
        yield from self._leases_for(floored(program, relaxed.chosen))
        choice: Choice | None = None
        for choice in searched(program, relaxed.priced, self.best.way, self.session):
            if choice.bound is not None:
                yield _Most(choice.bound, certified=False)
            yield from self._leases_for(choice)
        if choice is not None and choice.value(self.problem) > self.best.admitted(self.problem):
            arranged = arrange(self.problem, choice.way, self.session, seconds=ARRANGING_SECONDS)
            found = arranged.schedule
            if found is None:
                ways = np.union1d(choice.way, self.best.way)
                ways = ways[ways != NONE]
                seconds = MENDING_SECONDS if self.broken else ARRANGING_SECONDS
                found = best_of(self.problem, ways, self.best, self.session, seconds=seconds)
            if found is not None:
                yield from self._better(complete(self.problem, found))

    def _leases_for(self, choice: Choice) -> Iterator[Schedule]:
        problem, key = self.problem, choice.way.tobytes()
        if key in self.tried:
            return
        self.tried.add(key)
        filled = fill(problem, choice.way)
        found = complete(problem, filled)
        if worth(problem, found) > worth(problem, self.best):
            yield from self._better(found)
        elif problem.loss.any():
            saved = np.append(self.saved, 0)
            if saved[choice.way].sum() >= saved[self.best.way].sum():
                mended = mend(problem, filled, saved[self.best.way])
                yield from self._better(complete(problem, steer(problem, mended, choice.way)))
            yield from self._better(complete(problem, steer(problem, self.best, choice.way)))

    def _lease_by_lease(self) -> Iterator[Schedule | _Most]:
        """Yield what the time-indexed model finds and claims."""
        model = time_indexed.build(self.problem)
        arrays = model.second_term(self.broken)
        start = model.point(self.best)
        outcome = self.session.optimise(arrays, share=0.5, gap=0.0, start=start)
        if outcome is None:
            return
        if outcome.values is not None:
            yield from self._better(time_indexed.read(model, outcome.values))
        if outcome.bound is not None:
            yield _Most(floor(outcome.bound * (1 + WHOLE) + WHOLE), certified=False)

    def _better(self, found: Schedule) -> Iterator[Schedule]:
        if worth(self.problem, found) > worth(self.problem, self.best):
            self.best = found
            yield found
