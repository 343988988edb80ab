"""Master and subproblem: a demand-bound LP chooses alternatives, heuristics find their leases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.phases import Phase, SearchState, run_phases
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.list_scheduling import (
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import (
    DemandRows,
    LagrangianBound,
    MasterLp,
    MasterObjective,
    feasible_alone,
    fits_in_memory,
)
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.plan_messages import near
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, Status

# Core MIP: branch and bound over the jobs whose best alternative the duals leave in doubt.
#
# An LP solution chooses all but a few alternatives integrally, and the duals bound what any other
# choice of a job loses (its regret). So a MIP over the jobs of least regret, the core, comes
# close to the bound; all other jobs keep the alternative of best reduced cost.
#
# References
# ----------
# Balas and Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980
# (the core of a program).


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """An alternative for each job, or `NONE`, without leases; and a claimed bound, if any."""

    alternative: Ints
    bound: int | None = None

    def value(self, problem: Problem) -> int:
        """Value of all promises of the selection, as if all of them had leases."""
        return int(problem.counted[self.alternative[self.alternative != NONE]].sum())


def round_down(master: MasterLp, chosen: Floats) -> Selection:
    """Return the alternatives at 1 in an LP solution; jobs that must have one, their largest."""
    problem = master.problem
    order = np.argsort(chosen, kind="stable")
    order = order[(chosen[order] > 0) & master.must[problem.job[order]]]
    selection = _selection(problem, chosen >= 1 - parameters.PARAMETERS.integrality_tolerance)
    selection.alternative[problem.job[order]] = order
    return selection


def core_search(
    master: MasterLp, dual: LagrangianBound, known: Ints, session: Session
) -> Iterator[Selection]:
    """Yield ever better selections from MIPs over growing cores, with claimed bounds.

    They violate no demand-bound row, if time has allowed. The choice that is `known`
    (jobs,) keeps what must be kept.
    """
    tuning = parameters.PARAMETERS
    keeps_promises = master.objective.min_kept > 0 or bool(master.must.any())
    attempts = [(number, False) for number in tuning.core_sizes_jobs]
    # With all others at their best maybe nothing keeps what must be kept; then from `known`.
    attempts += [(number, True) for number in tuning.core_sizes_jobs if keeps_promises]
    best: Ints | None = None
    for number, from_incumbent in attempts:
        if from_incumbent and best is None:
            best = known
        elif from_incumbent and best is not known:
            return
        include = np.zeros(len(known), dtype=np.bool_) if best is None else best != dual.best
        core, lost = dual.core(number, include)
        selection = _solve_core(master, dual, core, best, session)
        if selection is None:
            continue
        value = int(
            master.objective.value[selection.alternative[selection.alternative != NONE]].sum()
        )
        rest = value if np.isinf(lost) else _integer_bound(dual.value - lost)
        if selection.bound is not None:
            selection = Selection(selection.alternative, max(selection.bound, rest))
        yield selection
        if core.all() or value == selection.bound:
            return
        best = selection.alternative


def _integer_bound(bound: float) -> int:
    """Return the largest integer that a solver's bound allows."""
    tolerance = parameters.PARAMETERS.integrality_tolerance
    return floor(bound * (1 + tolerance) + tolerance)


def _solve_core(
    master: MasterLp, dual: LagrangianBound, core: Bools, known: Ints | None, session: Session
) -> Selection | None:
    """Return the best selection in which all jobs outside the core keep their best alternative."""
    problem = master.problem
    start = None
    if known is not None:
        start = np.zeros(problem.alternatives)
        start[known[known != NONE]] = 1.0
    best: Selection | None = None
    for search in range(parameters.PARAMETERS.max_core_mips):
        part = master.restrict(dual.best, core)
        if not len(part.alternatives):
            values = part.extend(np.zeros(0), problem.alternatives)
            bound: int | None = dual.bound
        else:
            seconds = parameters.PARAMETERS.core_mip_seconds / 2**search
            begin = None if start is None else start[part.alternatives]
            outcome = session.optimise(part.arrays, most=seconds, gap=0.0, start=begin)
            if outcome is None or outcome.values is None:
                break
            bound = None if outcome.bound is None else _integer_bound(outcome.bound)
            values = part.extend(outcome.values, problem.alternatives)
        best = _selection(problem, values > 0.5, bound)
        rows = master.demands.violated(values)
        if not master.add_rows(rows):
            break
    return best


def _selection(problem: Problem, chosen: Bools, bound: int | None = None) -> Selection:
    alternatives = np.flatnonzero(chosen)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternative[problem.job[alternatives]] = alternatives
    return Selection(alternative, bound)


# Feasibility MIP: leases for a selection that list scheduling does not schedule completely.
#
# `find_leases` states the time-indexed model with the selected alternatives fixed: a few thousand
# columns, of which those of one-GPU jobs need no branching. Without an objective a solver finds
# leases for some hundred jobs, or proves that there are none, in a fraction of a second.
#
# `choose_alternatives` is a restricted MIP (RINS, Danna et al. 2005): it chooses among the
# alternatives of a selection and those of a schedule.


@dataclass(frozen=True, slots=True)
class Feasibility:
    """A schedule of all selected alternatives, if found; whether a solver claims there is none."""

    schedule: Schedule | None = None
    infeasible: bool = False


def find_leases(
    problem: Problem, alternative: Ints, session: Session, *, seconds: float
) -> Feasibility:
    """Return leases for a selection: the alternative of each job, or `NONE`, (jobs,)."""
    alternatives = alternative[alternative != NONE]
    own = problem.restrict(alternatives)
    if not feasible_alone(own).all():
        return Feasibility(infeasible=True)
    if time_indexed.size(own) > parameters.PARAMETERS.max_feasibility_cells:
        return Feasibility()
    model = time_indexed.build(own)
    arrays = model.relax_flow(model.model.arrays(None))
    lower = arrays.lower.copy()
    lower[model.promised] = 1.0
    arrays = replace(arrays, lower=lower)
    outcome = session.optimise(arrays, most=seconds)
    found = read_flow(model, arrays, outcome, session)
    if found is None:
        return Feasibility(infeasible=outcome is not None and outcome.status is Status.INFEASIBLE)
    return Feasibility(Schedule(np.append(alternatives, NONE)[found.alternative], found.runs))


def choose_alternatives(
    problem: Problem, alternatives: Ints, known: Schedule, session: Session, *, seconds: float
) -> Schedule | None:
    """Return the schedule of these alternatives that admits most and breaks no more than one known.

    `alternatives`: the alternatives that it may give, those of the known one among them. It is
    the best that was found; None if nothing was, or the alternatives are too many.
    """
    own = problem.restrict(alternatives)
    if time_indexed.size(own) > parameters.PARAMETERS.max_restricted_cells:
        return None
    model = time_indexed.build(own)
    inside = np.full(problem.alternatives + 1, NONE, dtype=np.int64)
    inside[alternatives] = np.arange(len(alternatives))
    start = model.values_of(Schedule(inside[known.alternative], known.runs))
    arrays = model.relax_flow(model.maximise_admitted(known.broken(problem)))
    outcome = session.optimise(arrays, most=seconds, gap=0.0, start=start)
    found = read_flow(model, arrays, outcome, session)
    return (
        None
        if found is None
        else Schedule(np.append(alternatives, NONE)[found.alternative], found.runs)
    )


def read_flow(
    model: time_indexed.TimeIndexedModel, arrays: Arrays, outcome: Outcome | None, session: Session
) -> Schedule | None:
    """Return the schedule of an outcome of a model with relaxed flow, if it has one."""
    values = _integral_point(outcome)
    if values is None and outcome is not None and outcome.values is not None:
        # The flow part may be anywhere on a face of the polytope; its vertices are integral.
        values = _integral_point(session.optimise(_fix_integers(arrays, outcome.values)))
    return None if values is None else time_indexed.read(model, values)


def _fix_integers(arrays: Arrays, values: Floats) -> Arrays:
    """Return the linear program with all integer columns fixed."""
    at = np.rint(values)
    return replace(
        arrays,
        lower=np.where(arrays.integer, at, arrays.lower),
        upper=np.where(arrays.integer, at, arrays.upper),
        integer=np.zeros_like(arrays.integer),
    )


def _integral_point(outcome: Outcome | None) -> Floats | None:
    """Return the point of an outcome if there is one, and it is integral."""
    if outcome is None or outcome.values is None:
        return None
    values: Floats = np.rint(outcome.values)
    distance = np.abs(values - outcome.values).max(initial=0.0)
    return values if distance <= parameters.PARAMETERS.integrality_tolerance else None


@dataclass(frozen=True, slots=True)
class UpperBound:
    """No schedule that breaks no more admits more value; `certified`: recomputed in integers."""

    value: int
    certified: bool


class MasterSubproblem(SearchState):
    """A master problem chooses alternatives; subproblems find leases for its choices.

    Schedules that break no more than the first one, and admit more and more.
    `bound`: the best bound so far of what any such schedule admits.
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

    def _solve_master(self, master: MasterLp) -> Iterator[Schedule | UpperBound]:
        """Solve the master, yield bounds of what it allows, and schedules of its selections."""
        tuning = parameters.PARAMETERS
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
                seconds=tuning.feasibility_mip_seconds,
            )
            found = feasibility.schedule
            if found is None:
                alternatives = np.union1d(selection.alternative, self.best.alternative)
                alternatives = alternatives[alternatives != NONE]
                seconds = (
                    tuning.restricted_mip_seconds if self.broken else tuning.feasibility_mip_seconds
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
        found = complete(problem, list_schedule(problem, selection.alternative))
        yield from self._accept(found)

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
            yield UpperBound(_integer_bound(outcome.bound), certified=False)

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
)
"""The order of steps. Each phase may take all the time that is left."""
