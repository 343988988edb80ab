"""Master and subproblem: a demand-bound LP chooses alternatives, heuristics find their leases.

The master (`master_lp`) bounds what can be admitted; its LP solution is rounded down, then improved
by MIPs over a growing core (`core_mip`). For each choice list scheduling, ejection chains, path
relinking and a feasibility MIP look for leases. Small problems end with the exact time-indexed
model, larger ones with large neighbourhood search.

References
----------
Balas and Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980;
Glover, "Ejection chains, reference structures and alternating path methods", Discrete Applied
Mathematics 65, 1996; Shaw, CP'98 (LNS).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.bound_arithmetic import near
from placewright.formulations.common.phases import Phase, SearchState, run_phases
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.core_mip import Selection, core_search, round_down
from placewright.formulations.deadline.heuristics.feasibility_mip import (
    choose_alternatives,
    find_leases,
)
from placewright.formulations.deadline.heuristics.list_scheduling import (
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.heuristics.lns import improve
from placewright.formulations.deadline.heuristics.path_relinking import relink, restore_promises
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import DemandRows, fits_in_memory
from placewright.formulations.deadline.models.master_lp import MasterLp, MasterObjective
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True)
class UpperBound:
    """No schedule that breaks no more admits more value; `certified`: recomputed in integers."""

    value: int
    certified: bool


class MasterSubproblem(SearchState):
    """A master problem chooses alternatives; subproblems find leases for its choices.

    Schedules that break no more than the first one, and admit more and more.

    Attributes
    ----------
    bound
        The best bound so far of what any such schedule admits.
    """

    def __init__(self, problem: Problem, feasible: Bools, best: Schedule, session: Session) -> None:
        super().__init__(session)
        self.problem, self.feasible, self.best = problem, feasible, best
        self.broken = best.broken(problem)
        self.tried = set[bytes]()
        self.saved = problem.loss[problem.job] - problem.lost
        most = np.zeros(problem.jobs, dtype=np.int64)
        np.maximum.at(most, problem.job[feasible], problem.counted[feasible])
        self.bound = int(most.sum())

    def steps(self) -> Iterator[Schedule | UpperBound]:
        """Yield better schedules, and bounds."""
        yield from run_phases(PHASES, self)

    def admits_most(self) -> Iterator[Schedule | UpperBound]:
        """Yield the trivial bound where it is reached: every job has its best promise."""
        if self.best.admitted(self.problem) == self.bound:
            yield UpperBound(self.bound, certified=True)
            self.finished = True
        elif not fits_in_memory(self.problem):
            self.finished = True

    def bound_with_kept_value(self) -> Iterator[Schedule | UpperBound]:
        """Solve for all choices that keep as much value of promises as the best schedule."""
        problem = self.problem
        for step in self._solve_master(self._with_kept_value()):
            if isinstance(step, UpperBound):
                self.bound = step.value
            yield step
        close = is_close(problem, self.bound, self.best, parameters.PARAMETERS.close_gap_rel)
        self.finished = close and not self.small()

    def relaxation_bound(self) -> int | None:
        """Return what the master LP proves, None if it proves nothing."""
        if not fits_in_memory(self.problem):
            return self.bound
        solution = (self._with_kept_value() if self.broken else self._with_kept_promises()).solve(
            self.session
        )
        return None if solution is None else solution.dual.bound

    def _with_kept_value(self) -> MasterLp:
        """Return the master of all choices that keep as much value as the best schedule."""
        problem = self.problem
        min_kept = int(problem.loss.sum()) - self.broken
        none = np.zeros(problem.jobs, dtype=np.bool_)
        objective_ = MasterObjective(problem.counted, self.saved, min_kept)
        return MasterLp(DemandRows(problem), self.feasible, none, objective_)

    def _with_kept_promises(self) -> MasterLp:
        """Return the master of the choices that keep of each promise what the best schedule has."""
        problem = self.problem
        must_keep = np.append(self.saved, 0)[self.best.alternative]
        allowed = self.feasible & (self.saved >= must_keep[problem.job])
        objective_ = MasterObjective(problem.counted, self.saved, 0)
        return MasterLp(DemandRows(problem), allowed, must_keep > 0, objective_)

    def improve_with_kept_promises(self) -> Iterator[Schedule | UpperBound]:
        """Solve for the choices that keep of each promise what the best schedule keeps.

        Only without broken promises are those all choices, so that their bound is one.
        """
        for step in self._solve_master(self._with_kept_promises()):
            if isinstance(step, Schedule) or not self.broken:
                yield step

    def small(self) -> bool:
        """Whether the time-indexed model is small enough to be solved."""
        return time_indexed.size(self.problem) <= parameters.PARAMETERS.max_time_indexed_cells

    def search_neighbourhoods(self) -> Iterator[Schedule | UpperBound]:
        """Improve the best schedule by LNS."""
        for found in improve(self.problem, self.best, self.session.expired):
            yield from self._accept(found)

    def _solve_master(self, master: MasterLp) -> Iterator[Schedule | UpperBound]:
        """Solve the master, yield bounds of what it allows, and schedules of its selections."""
        solution = master.solve(self.session)
        if solution is None:
            return
        yield UpperBound(solution.dual.bound, certified=True)
        yield from self._solve_subproblem(round_down(master, solution.chosen))
        selection: Selection | None = None
        for selection in core_search(master, solution.dual, self.best.alternative, self.session):
            if selection.bound is not None:
                yield UpperBound(selection.bound, certified=False)
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

    def solve_time_indexed(self) -> Iterator[Schedule | UpperBound]:
        """Solve the exact time-indexed model; yield its schedule and claimed bound."""
        model = time_indexed.build(self.problem)
        arrays = model.maximise_admitted(self.broken)
        start = model.values_of(self.best)
        share = parameters.PARAMETERS.time_indexed_share
        outcome = self.session.optimise(arrays, share=share, gap=0.0, start=start)
        if outcome is None:
            return
        if outcome.values is not None:
            yield from self._accept(time_indexed.read(model, outcome.values))
        if outcome.bound is not None:
            yield UpperBound(
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


def is_close(problem: Problem, bound: int, schedule: Schedule, gap: float) -> bool:
    """Whether `admitted` of a schedule is proven within a gap, or each of its priority classes."""
    classes = problem.classes
    if classes is None:
        return near(bound, schedule.admitted(problem), gap)
    values = classes.values(problem, schedule)
    return all(
        not weight or classes.bound(bound, k, values) - values[k] <= gap * classes.asked[k]
        for k, weight in enumerate(classes.weights)
    )


PHASES: tuple[Phase[MasterSubproblem, Schedule | UpperBound], ...] = (
    Phase("trivial", MasterSubproblem.admits_most),
    Phase(
        "master with kept value",
        MasterSubproblem.bound_with_kept_value,
        lambda search: bool(search.broken),
    ),
    Phase("master with kept promises", MasterSubproblem.improve_with_kept_promises),
    Phase("time-indexed model", MasterSubproblem.solve_time_indexed, MasterSubproblem.small),
    Phase(
        "LNS",
        MasterSubproblem.search_neighbourhoods,
        lambda search: not search.small(),
    ),
)
"""The order of steps. Each phase may take all the time that is left."""
