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

from placewright.formulations.bound_arithmetic import near
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.core_mip import Selection, core_search, round_down
from placewright.formulations.deadline.heuristics.feasibility_mip import (
    choose_alternatives,
    find_leases,
)
from placewright.formulations.deadline.heuristics.list_scheduling import (
    ORDERS,
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.heuristics.lns import improve
from placewright.formulations.deadline.heuristics.path_relinking import relink, restore_promises
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import (
    DemandRows,
    feasible_alone,
    fits_in_memory,
)
from placewright.formulations.deadline.models.master_lp import MasterLp, MasterObjective
from placewright.formulations.deadline.problem.problem import NONE, Bools, Problem, Schedule
from placewright.formulations.session import Session

BROKEN, ADMITTED = "broken", "admitted"
"""The terms that admission decides, the first before the second."""


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
    feasible = feasible_alone(problem)
    first = _schedule_promises(problem, feasible)
    if known is not None and known.broken(problem) < first.broken(problem):
        first = known
    best = complete(problem, first, expired=session.expired)
    if known is not None and objective(problem, known) > objective(problem, best):
        best = known
    yield best
    kept: Schedule | None = None
    for step in _minimise_broken(problem, feasible, best, session):
        if isinstance(step, Schedule):
            kept = step
        else:
            yield step
    if kept is not None:
        best = complete(problem, kept, expired=session.expired)
        yield best
    broken = best.broken(problem)
    for found in _maximise_admitted(problem, feasible, best, session):
        if isinstance(found, Schedule):
            yield found
        else:
            yield AdmissionBound(ADMITTED, found.value, broken, found.certified)


def _schedule_promises(problem: Problem, feasible: Bools) -> Schedule:
    """Return a schedule of the promises that jobs have, as far as they are easily kept."""
    lossless = np.flatnonzero(feasible & (problem.loss[problem.job] > 0) & (problem.lost == 0))
    time = problem.end[lossless] - problem.first[lossless]
    # Of the ways that lose nothing the one that asks least, or the one that is done soonest.
    demand = problem.need[lossless] * problem.demand[lossless].sum(axis=1)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    best = list_schedule(problem, alternative)
    demands = DemandRows(problem) if fits_in_memory(problem) else None
    for order in (
        np.lexsort((time, -demand)),
        np.lexsort((time, -demand, -problem.need[lossless])),
    ):
        before, alternative = alternative, np.full(problem.jobs, NONE, dtype=np.int64)
        alternative[problem.job[lossless[order]]] = lossless[order]
        if (alternative == before).all():
            break
        chosen = np.zeros(problem.alternatives)
        chosen[alternative[alternative != NONE]] = 1.0
        if demands is not None and any(demands.violated(chosen)):
            # They cannot all be kept, so whom to push out is decided with all of them in view.
            without_promises = replace(problem, loss=np.zeros_like(problem.loss))
            found = list_schedule(without_promises, alternative, orders=ORDERS[:1], work_limit=0)
        else:
            found = list_schedule(problem, alternative)
        if found.broken(problem) < best.broken(problem):
            best = found
        if not best.broken(problem):
            break
    return best


def _minimise_broken(
    problem: Problem, feasible: Bools, kept: Schedule, session: Session
) -> Iterator[Schedule | AdmissionBound]:
    """Yield schedules that break less than this one, and bounds of what must be broken."""
    total = int(problem.loss.sum())
    if not kept.broken(problem):
        yield AdmissionBound(BROKEN, 0, None, certified=True)
        return
    saved = problem.loss[problem.job] - problem.lost
    alternatives = np.flatnonzero(feasible & (saved > 0))
    own = replace(
        problem.restrict(alternatives), loss=np.zeros_like(problem.loss), value=saved[alternatives]
    )
    # The last entries stand for NONE.
    inside = np.full(problem.alternatives + 1, NONE)
    inside[alternatives] = np.arange(len(alternatives))
    outside = np.append(alternatives, NONE)
    alternative = inside[kept.alternative]
    begin = Schedule(alternative, kept.runs & (alternative != NONE)[:, None])
    for step in _maximise_admitted(own, np.ones(len(alternatives), dtype=np.bool_), begin, session):
        if isinstance(step, Schedule):
            yield Schedule(outside[step.alternative], step.runs)
        else:
            yield AdmissionBound(BROKEN, max(0, total - step.value), None, step.certified)


def _maximise_admitted(
    problem: Problem, feasible: Bools, best: Schedule, session: Session
) -> Iterator[Schedule | _UpperBound]:
    """Yield schedules better than the best, and what none that breaks no more is worth."""
    bound: int | None = None
    for step in _MasterSubproblem(problem, feasible, best, session).run():
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
class _UpperBound:
    """What no schedule is worth more than."""

    value: int
    certified: bool


class _MasterSubproblem:
    """Schedules that break no more than the first, and promise ever more."""

    def __init__(self, problem: Problem, feasible: Bools, best: Schedule, session: Session) -> None:
        self.problem, self.feasible, self.best, self.session = problem, feasible, best, session
        self.broken = best.broken(problem)
        self.tried = set[bytes]()
        self.saved = problem.loss[problem.job] - problem.lost

    def run(self) -> Iterator[Schedule | _UpperBound]:
        """Yield better schedules, and bounds."""
        problem = self.problem
        each = np.zeros(problem.jobs, dtype=np.int64)
        np.maximum.at(each, problem.job[self.feasible], problem.value[self.feasible])
        bound = int(each.sum())
        if self.best.admitted(problem) == bound:
            # Everybody has the best promise that there is, as often happens.
            yield _UpperBound(bound, certified=True)
            return
        if not fits_in_memory(problem):
            return
        if self.broken:
            min_kept = int(problem.loss.sum()) - self.broken
            without_promises = np.zeros(problem.jobs, dtype=np.bool_)
            master_objective = MasterObjective(problem.value, self.saved, min_kept)
            master = MasterLp(
                DemandRows(problem), self.feasible, without_promises, master_objective
            )
            for step in self._solve_master(master):
                if isinstance(step, _UpperBound):
                    bound = step.value
                yield step
            small = time_indexed.size(problem) <= parameters.PARAMETERS.max_time_indexed_cells
            if not small and near(
                bound, self.best.admitted(problem), parameters.PARAMETERS.close_gap_rel
            ):
                return
        # What jobs have is kept as in the best schedule, which shows that it can be.
        must_keep = np.append(self.saved, 0)[self.best.alternative]
        allowed = self.feasible & (self.saved >= must_keep[problem.job])
        master_objective = MasterObjective(problem.value, self.saved, 0)
        master = MasterLp(DemandRows(problem), allowed, must_keep > 0, master_objective)
        for step in self._solve_master(master):
            if isinstance(step, Schedule) or not self.broken:
                yield step
        if time_indexed.size(problem) <= parameters.PARAMETERS.max_time_indexed_cells:
            yield from self._solve_time_indexed()
        else:
            for found in improve(problem, self.best, self.session.expired):
                yield from self._accept(found)

    def _solve_master(self, master: MasterLp) -> Iterator[Schedule | _UpperBound]:
        """Yield schedules of choices by rows of demand, and what these prove of all they allow."""
        solution = master.solve(self.session)
        if solution is None:
            return
        yield _UpperBound(solution.dual.bound, certified=True)
        yield from self._solve_subproblem(round_down(master, solution.chosen))
        selection: Selection | None = None
        for selection in core_search(master, solution.dual, self.best.alternative, self.session):
            if selection.bound is not None:
                yield _UpperBound(selection.bound, certified=False)
            yield from self._solve_subproblem(selection)
        if selection is not None and selection.value(self.problem) > self.best.admitted(
            self.problem
        ):
            feasibility = find_leases(
                self.problem,
                selection.alternative,
                self.session,
                seconds=parameters.PARAMETERS.feasibility_mip_seconds,
            )
            found = feasibility.schedule
            if found is None:
                alternatives = np.union1d(selection.alternative, self.best.alternative)
                alternatives = alternatives[alternatives != NONE]
                seconds = (
                    parameters.PARAMETERS.restricted_mip_seconds
                    if self.broken
                    else parameters.PARAMETERS.feasibility_mip_seconds
                )
                found = choose_alternatives(
                    self.problem, alternatives, self.best, self.session, seconds=seconds
                )
            if found is not None:
                yield from self._accept(complete(self.problem, found))

    def _solve_subproblem(self, selection: Selection) -> Iterator[Schedule]:
        problem, key = self.problem, selection.alternative.tobytes()
        if key in self.tried:
            return
        self.tried.add(key)
        listed = list_schedule(problem, selection.alternative)
        found = complete(problem, listed)
        if objective(problem, found) > objective(problem, self.best):
            yield from self._accept(found)
        elif problem.loss.any():
            saved = np.append(self.saved, 0)
            if saved[selection.alternative].sum() >= saved[self.best.alternative].sum():
                restored = restore_promises(problem, listed, saved[self.best.alternative])
                yield from self._accept(
                    complete(problem, relink(problem, restored, selection.alternative))
                )
            yield from self._accept(
                complete(problem, relink(problem, self.best, selection.alternative))
            )

    def _solve_time_indexed(self) -> Iterator[Schedule | _UpperBound]:
        """Yield what the time-indexed model finds and claims."""
        model = time_indexed.build(self.problem)
        arrays = model.maximise_admitted(self.broken)
        start = model.values_of(self.best)
        outcome = self.session.optimise(arrays, share=0.5, gap=0.0, start=start)
        if outcome is None:
            return
        if outcome.values is not None:
            yield from self._accept(time_indexed.read(model, outcome.values))
        if outcome.bound is not None:
            yield _UpperBound(
                floor(
                    outcome.bound * (1 + parameters.PARAMETERS.integrality_tolerance)
                    + parameters.PARAMETERS.integrality_tolerance
                ),
                certified=False,
            )

    def _accept(self, found: Schedule) -> Iterator[Schedule]:
        if objective(self.problem, found) > objective(self.problem, self.best):
            self.best = found
            yield found
