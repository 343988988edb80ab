"""Assignment of jobs to regions: core MIP of the assignment model, whole jobs, exchanges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.limits import accounts_of, limits_of
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo import parameters
from placewright.formulations.geo.models.assignment_lp import (
    AssignmentModel,
    CostClasses,
    build_assignment_model,
    build_cost_classes,
)
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import JobClasses
from placewright.formulations.plan_messages import Candidate, near
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job
from placewright.solver import Arrays, Core, SolveOptions, reduced_costs_of
from placewright.solver.network_flow import transportation


class ResidualCapacity:
    """Residual capacity of each row (rows,), reduced as jobs are assigned."""

    def __init__(self, classes: JobClasses) -> None:
        self.classes = classes
        self.residual = classes.capacity.copy()
        by_assignment = np.argsort(classes.entry_assignment, kind="stable")
        cuts = np.searchsorted(
            classes.entry_assignment[by_assignment], np.arange(1, classes.num_assignments)
        )
        self._rows = np.split(classes.entry_row[by_assignment], cuts)
        self._usage = np.split(classes.entry_usage[by_assignment], cuts)

    @cached_property
    def assignments(self) -> list[list[int]]:
        """The assignments of each job class."""
        found: list[list[int]] = [[] for _ in self.classes.current_region]
        for assignment, job_class in enumerate(self.classes.assignment_class.tolist()):
            found[job_class].append(assignment)
        return found

    def take(self, assignment: int, count: int = 1) -> None:
        """Subtract the use of `count` jobs with this assignment."""
        self.residual[self._rows[assignment]] -= count * self._usage[assignment]

    def fits(self, assignment: int) -> bool:
        """Whether the rows have capacity for one more job with this assignment."""
        return bool((self.residual[self._rows[assignment]] >= self._usage[assignment]).all())

    @cached_property
    def _candidates(self) -> list[list[int]]:
        """The assignments of each job class that had capacity when last checked."""
        return [list(assignments) for assignments in self.assignments]

    def assign_greedily(
        self, jobs: Iterable[int], costs: Ints, excluded: Collection[tuple[int, int]] = ()
    ) -> Iterator[tuple[int, int]]:
        """Yield (job, assignment) for jobs that fit, each with its cheapest assignment.

        Jobs eligible in the fewest regions come first, then those of highest value. `costs` are
        (jobs, regions), `excluded` are (job, region) pairs.
        """
        classes, eligible = self.classes, self.classes.problem.eligible
        exhausted: set[tuple[int, bytes]] = set()
        where = classes.assignment_region.tolist()
        regions = eligible.sum(axis=1).tolist()
        class_of_job = classes.class_of_job.tolist()
        for j in sorted(jobs, key=lambda j: (regions[j], -self._max_value[class_of_job[j]], j)):
            job_class = int(classes.class_of_job[j])
            key = job_class, eligible[j].tobytes()
            if key in exhausted:
                continue
            allowed, cost = eligible[j].tolist(), costs[j].tolist()
            # Capacity is never given back: an assignment that does not fit never will.
            assignments = [
                assignment
                for assignment in self._candidates[job_class]
                if allowed[where[assignment]]
            ]
            if not assignments:
                exhausted.add(key)
            candidates = [
                (cost[where[assignment]], assignment)
                for assignment in assignments
                if (j, where[assignment]) not in excluded
            ]
            for _, assignment in sorted(candidates):
                if self.fits(assignment):
                    self.take(assignment)
                    yield j, assignment
                    break
                self._candidates[job_class].remove(assignment)

    @cached_property
    def _max_value(self) -> list[int]:
        return [
            max((int(self.classes.value[w]) for w in mine), default=0) for mine in self.assignments
        ]


# Core MIP: integer search over few columns near an LP optimum (Balas and Zemel 1980).
#
# Rounding an LP optimum down would leave one gang per region without a place, and its capacity
# unused.


BASIC_TOLERANCE = 1e-9
"""Value above which a column is counted as used by an LP optimum."""


def solve_core_mip(arrays: Arrays, session: Session, share: float) -> Floats | None:
    """Return a good point of a model (columns,), integer if one was found; None without time.

    Three cores are searched in turn until the gap to the LP is small: the columns in the LP's
    optimum, the columns of zero reduced cost, and all columns. `share` is the share of the
    remaining time for each solve.
    """
    continuous = replace(arrays, integer=np.zeros_like(arrays.integer))
    relaxed = session.optimise(continuous, share=share, options=SolveOptions(presolve=False))
    if relaxed is None or relaxed.values is None or relaxed.row_duals is None:
        return None
    best, best_objective = relaxed.values, -np.inf
    reduced_costs = reduced_costs_of(arrays, relaxed.row_duals, relaxed.values)
    if reduced_costs is None or relaxed.objective is None:
        return best
    basic = relaxed.values > BASIC_TOLERANCE
    cores = (
        (basic, np.zeros(arrays.columns)),
        (reduced_costs.loss == 0, reduced_costs.point),
        (np.ones(arrays.columns, dtype=np.bool_), reduced_costs.point),
    )
    for kept, point in cores:
        if kept is not basic and kept.sum() > parameters.PARAMETERS.max_core_columns:
            break
        core = Core.of(arrays, kept, point)
        found = session.optimise(
            core.arrays,
            share=share,
            most=parameters.PARAMETERS.max_core_seconds,
            gap=parameters.PARAMETERS.core_gap_rel / 2,
        )
        if found is None:
            break
        if found.values is not None and found.objective is not None:
            objective = arrays.sign * found.objective
            if objective > best_objective:
                best, best_objective = core.whole(found.values), objective
            if near(relaxed.objective, found.objective, parameters.PARAMETERS.core_gap_rel):
                break
    return best


# Disaggregation: whole jobs from a point of the assignment model.
#
# Each column gets its integer part in jobs. Of a cost class the jobs of highest priority are
# placed, and of these the ones with the highest cost go to their cheapest regions. Jobs that
# rounding leaves over are assigned greedily to residual capacity.


ROUNDING_TOLERANCE = 1e-6
"""Fraction of a job within which a value of the solver is rounded to a whole number."""


def deal_jobs(assignment_model: AssignmentModel, values: Floats, costs: Ints) -> tuple[Ints, Ints]:
    """Return the region and the assignment of each pending job (jobs,), NONE without capacity."""
    classes = assignment_model.classes
    cost_classes = assignment_model.cost_classes
    residual = ResidualCapacity(assignment_model.classes)
    region = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
    assignment_of_job = region.copy()
    cheap = _round_down(values[assignment_model.cheap])
    other = _round_down(values[assignment_model.other])
    num_served = np.zeros(len(cost_classes.job_class))
    np.add.at(num_served, assignment_model.cheap_class, values[assignment_model.cheap])
    num_served[assignment_model.other_class] += values[assignment_model.other]
    other_of_class = np.zeros(len(cost_classes.job_class), dtype=np.int64)
    other_of_class[assignment_model.other_class] = other
    runs = classes.current_region[cost_classes.job_class] != NONE
    cheap_shares: list[list[tuple[float, int, int]]] = [[] for _ in cost_classes.job_class]
    assignments = zip(
        assignment_model.cheap_class.tolist(),
        assignment_model.cheap_assignment.tolist(),
        cheap.tolist(),
        strict=True,
    )
    for c, assignment, share in assignments:
        if runs[c]:
            residual.take(assignment, share)
        elif share:
            cheap_shares[c].append(
                (
                    float(cost_classes.cost[c, classes.assignment_region[assignment]]),
                    assignment,
                    share,
                )
            )
    slots = _shared_slots(assignment_model, values)
    order, start = _jobs_by_cost_class(classes.problem.wan.round.jobs, cost_classes)

    def assign(jobs: Ints, assignment: int) -> int:
        region[jobs], assignment_of_job[jobs] = classes.assignment_region[assignment], assignment
        residual.take(assignment, len(jobs))
        return len(jobs)

    for c in np.flatnonzero(~runs).tolist():
        mine = order[start[c] : start[c + 1]]
        mine = mine[: int(np.ceil(num_served[c] - ROUNDING_TOLERANCE))]
        mine = mine[np.argsort(-costs[mine].max(axis=1, initial=0), kind="stable")]
        dealt = 0
        for _, assignment, share in sorted(cheap_shares[c]):
            dealt += assign(mine[dealt : dealt + share], assignment)
        shared = slots.get(int(cost_classes.group[c]), {})
        for assignment, jobs in _deal_to_shared(
            mine[dealt : dealt + int(other_of_class[c])], costs, shared, classes.assignment_region
        ):
            assign(jobs, assignment)
    pending = (classes.class_of_job != NONE) & (classes.problem.current_region == NONE)
    for j, assignment in residual.assign_greedily(
        np.flatnonzero(pending & (region == NONE)).tolist(), costs
    ):
        region[j], assignment_of_job[j] = classes.assignment_region[assignment], assignment
    return region, assignment_of_job


def _round_down(shares: Floats) -> Ints:
    return np.floor(shares + ROUNDING_TOLERANCE).astype(np.int64)


def _deal_to_shared(
    jobs: Ints, costs: Ints, slots: dict[int, int], assignment_region: Ints
) -> Iterator[tuple[int, Ints]]:
    """Yield assignments of a group with the jobs that take them, and reduce `slots` accordingly.

    Jobs are matched greedily by the cost saved against their most expensive assignment.
    """
    assignments = np.array(
        [assignment for assignment, left in slots.items() if left], dtype=np.int64
    )
    if not len(jobs) or not len(assignments):
        return
    cost = costs[jobs][:, assignment_region[assignments]]
    order = np.argsort((cost - cost.max(axis=1)[:, None]).ravel(), kind="stable")
    given: dict[int, list[int]] = {}
    left = set(range(len(jobs)))
    for dealt in order.tolist():
        j, w = divmod(dealt, len(assignments))
        assignment = int(assignments[w])
        if j in left and slots[assignment]:
            slots[assignment] -= 1
            left.remove(j)
            given.setdefault(assignment, []).append(j)
            if not left:
                break
    for assignment, mine in given.items():
        yield assignment, jobs[mine]


def _shared_slots(assignment_model: AssignmentModel, values: Floats) -> dict[int, dict[int, int]]:
    """Return the assignments of each group with the integer number of jobs that they take."""
    slots: dict[int, dict[int, int]] = {}
    shares = _round_down(values[assignment_model.shared]).tolist()
    assignments = zip(
        assignment_model.shared_group.tolist(),
        assignment_model.shared_assignment.tolist(),
        shares,
        strict=True,
    )
    for shared, assignment, share in assignments:
        if share:
            slots.setdefault(shared, {})[assignment] = share
    return slots


def _jobs_by_cost_class(jobs: Sequence[Job], cost_classes: CostClasses) -> tuple[Ints, Ints]:
    """Return jobs sorted by cost class and priority, and where each class begins."""
    mine = np.flatnonzero(cost_classes.class_of_job != NONE)
    priority = np.array([job.priority for job in jobs], dtype=np.int64)
    order = mine[np.lexsort((mine, -priority[mine], cost_classes.class_of_job[mine]))]
    start = np.searchsorted(
        cost_classes.class_of_job[order], np.arange(len(cost_classes.job_class) + 1)
    )
    return order, start


@dataclass(frozen=True, slots=True, eq=False)
class RegionAssignment:
    """The region and the GPU model of each pending job (jobs,).

    The region is NONE without capacity, the model NONE if any will do.
    """

    region: Ints
    model: Ints


def assign_regions(classes: JobClasses, costs: Ints, session: Session) -> RegionAssignment | None:
    """Return regions of pending jobs that maximise value, then minimise cost; None without time.

    `costs` (jobs, regions) are the costs of jobs in regions.
    """
    # Without costs the model is much smaller, and may be solved in the time left.
    tuning = parameters.PARAMETERS
    for counted_costs, share in (
        (costs, tuning.assignment_share),
        (np.zeros_like(costs), tuning.costless_assignment_share),
    ):
        assignment_model = build_assignment_model(
            classes, build_cost_classes(classes, counted_costs)
        )
        values = _solve(assignment_model, counted_costs, session, share)
        if values is not None:
            region, assignment = deal_jobs(assignment_model, values, costs)
            model = np.where(
                assignment == NONE, NONE, np.append(classes.assignment_model, NONE)[assignment]
            )
            return RegionAssignment(region, model)
    return None


def _solve(
    assignment_model: AssignmentModel, costs: Ints, session: Session, share: float
) -> Floats | None:
    """Return a good point of the model (columns,), or None without time or solver."""
    model, value = assignment_model.model, assignment_model.classes.value
    # Scaled to the largest value of a job: HiGHS then takes a third less time.
    unit = 1.0 / max(1.0, float(value.max(initial=0)))
    min_value = float(value[value > 0].min(initial=value.max(initial=1)))
    cost_weight = (
        parameters.PARAMETERS.cost_share_of_value * min_value / max(1, int(costs.max(initial=0)))
    )
    columns, score = assignment_model.value
    model.term("score", columns, unit * score, sense="max")
    columns, cost = assignment_model.cost
    model.term("score", columns, -unit * cost_weight * cost, sense="max")
    return solve_core_mip(model.arrays("score"), session, share)


# Exchange of identical jobs between regions: an exact transportation problem per class of jobs.
#
# Jobs with equal options and priority may take each other's places, as long as no quota or cap
# distinguishes them: nothing but the cost of their reads changes. The number of jobs in each
# region, and of those that wait, stays. So who runs where at minimum cost is a transportation
# problem from jobs to regions, which is solved as a minimum-cost flow.


def minimise_remote_reads(
    problem: Problem, gangs: Gangs, candidate: Candidate, costs: Ints
) -> Candidate:
    """Return a candidate with identical jobs exchanged so that reads cost the least.

    `costs` (jobs, regions) are the costs of jobs in regions.
    """
    where = problem.wan.host_region
    region = np.full(len(problem.current_region), NONE, dtype=np.int64)
    for started, (_, places) in candidate.starts.items():
        region[started] = where[places[0][2]]
    successor: dict[int, int] = {}  # the job that takes the place of each job
    limited = {*limits_of(problem.round), *(("tenant", tenant) for _, tenant in problem.quota)}
    identical: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for job_class in gangs.classes:
        for j in () if job_class.running else job_class.jobs:
            job = problem.round.jobs[j]
            accounts = frozenset(a for a in accounts_of(job) if a in limited)
            identical[job_class.choices, accounts, job.priority].append(j)
    for jobs in identical.values():
        mine = np.array(jobs, dtype=np.int64)
        found = exchange(region[mine], costs[mine], problem.eligible[mine])
        moved = np.flatnonzero(found != region[mine])
        for r in np.unique(region[mine[moved]]).tolist():
            if r != NONE:
                left = mine[moved[region[mine[moved]] == r]]
                came = mine[moved[found[moved] == r]]
                successor |= dict(zip(left.tolist(), came.tolist(), strict=True))
    if not successor:
        return candidate
    return replace(
        candidate,
        starts={successor.get(job, job): start for job, start in candidate.starts.items()},
        slots={successor.get(job, job): slots for job, slots in candidate.slots.items()},
        preempted={job: successor.get(by, by) for job, by in candidate.preempted.items()},
    )


def exchange(region: Ints, costs: Ints, eligible: Bools) -> Ints:
    """Return regions of jobs at minimum cost, as many jobs in each as now (jobs,).

    Of all minimum-cost solutions it is one in which the fewest jobs move.
    `region` (jobs,): the current regions, NONE of jobs that wait, at no cost. `costs` and
    `eligible` (jobs, regions): costs, and where jobs may run.
    """
    sinks, sink = np.unique(region, return_inverse=True)
    # The last column, which NONE refers to, is to wait.
    cost = np.pad(costs, ((0, 0), (0, 1)))[:, sinks]
    allowed = np.pad(eligible, ((0, 0), (0, 1)), constant_values=True)[:, sinks]
    cost = np.where(allowed, cost, 0)
    best = np.where(allowed, cost, np.iinfo(np.int64).max).min(axis=1)
    if len(sinks) < 2 or (cost[np.arange(len(sink)), sink] == best).all():
        return region
    # Jobs with equal costs are one source.
    rows, group = np.unique(np.hstack([cost, allowed]), axis=0, return_inverse=True)
    group = group.reshape(-1)
    current = np.zeros((len(rows), len(sinks)), dtype=np.int64)
    np.add.at(current, (group, sink), 1)
    plan = transportation(
        current.sum(axis=1),
        current.sum(axis=0),
        rows[:, : len(sinks)],
        rows[:, len(sinks) :] > 0,
        current,
    )
    return region if plan is None else sinks[_deal(group, sink, current, plan)]


def _deal(group: Ints, sink: Ints, current: Ints, plan: Ints) -> Ints:
    """Return the sinks of jobs in a plan (jobs,): those of a group that can stay do."""
    found = sink.copy()
    for g in np.flatnonzero((plan != current).any(axis=1)).tolist():
        mine = np.flatnonzero(group == g)
        excess = np.maximum(0, current[g] - plan[g])
        movable = [mine[sink[mine] == s][-n:] for s, n in enumerate(excess.tolist()) if n]
        lack = np.maximum(0, plan[g] - current[g])
        found[np.concatenate(movable)] = np.repeat(np.arange(len(lack)), lack)
    return found
