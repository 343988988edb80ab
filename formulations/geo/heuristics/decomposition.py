"""Decomposition by region: assign jobs to regions, solve each region as a gang round, repeat.

First the assignment model chooses the region of each job (assign.py). Each region then solves a
gang round of its own, preemption included. Jobs without a place are offered to other regions in
residual passes, in which jobs that have started are pinned, and so are the jobs on hosts that
received tasks: so a later plan of a region is valid together with an earlier one. What preempted
jobs gave back is closed to later passes (fixed_decisions.py).

If the value is not close enough to its bound and as much time is left as this took, it is done once
more with the rows of the bound (class_arrays.py), which allow hosts to be emptied for gangs.

If the plan is refused, another one follows in which no job moves that has moved in it, then one in
which all running jobs stay where they are. For regions are not independent: a job that moves in one
may have to move back (docs/plans.md) once some job of lower precedence is preempted in another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.bound_arithmetic import SHARPNESS, near
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo import parameters
from placewright.formulations.geo.heuristics.anti_affinity import CrossRegionAntiAffinity
from placewright.formulations.geo.heuristics.assign import RegionAssignment, assign_regions
from placewright.formulations.geo.heuristics.data_orders import add_data_orders, regions_after
from placewright.formulations.geo.heuristics.exchange import minimise_remote_reads
from placewright.formulations.geo.heuristics.fixed_decisions import FixedDecisions
from placewright.formulations.geo.heuristics.region_budgets import budgets_of_regions
from placewright.formulations.geo.heuristics.region_quotas import quotas_of_regions
from placewright.formulations.geo.heuristics.residual import ResidualCapacity
from placewright.formulations.geo.heuristics.subproblem import RegionSubproblems
from placewright.formulations.geo.models.current_capacity import (
    classes_at_current_capacity,
    classes_at_residual_capacity,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.geo.problem.job_classes import build_job_classes
from placewright.formulations.geo.problem.running_jobs import RunningJobs
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session

BLOCKED_MILLI = 2**40
"""Milli-GPU counted as taken of a closed host, which makes its residual capacity 0."""


def decompose_by_region(
    running_jobs: RunningJobs,
    classes: JobClasses,
    most: float,
    session: Session,
    *,
    last: bool,
) -> Iterator[Candidate]:
    """Yield the best plan that decomposition by region finds.

    If it is refused and there is no other, others follow in which fewer running jobs change, at
    last none. An interrupt is raised after the plan of what was decided by then.

    Parameters
    ----------
    running_jobs
        The round.
    classes
        Its job classes, with the rows of bounds.
    most
        Upper bound of `value`, under strict priority of the weighted sum of the classes.
    session
        Clock and solver, and who decides the rounds of regions.
    last
        Whether no other plan follows.
    """
    problem, costs, began = running_jobs.problem, running_jobs.problem.read_costs, time.monotonic()
    regions, anti_affinity = (
        RegionSubproblems(problem, running_jobs.gangs),
        CrossRegionAntiAffinity(problem),
    )
    first = running_jobs
    if anti_affinity:
        first = RunningJobs(
            replace(problem, eligible=anti_affinity.first_regions()),
            running_jobs.gangs,
        )
        classes = build_job_classes(first)
    found = _Decomposition(running_jobs, regions, anti_affinity, costs)
    other = _Decomposition(running_jobs, regions, anti_affinity, costs)
    interrupt: KeyboardInterrupt | None = None
    try:
        found.run(classes_at_current_capacity(first), session)
        took = 0.0 if session.deterministic else time.monotonic() - began
        # A gap of the weighted sum that is small may be all of the lower priority classes.
        by_class = bool(problem.priority_classes)
        gap = SHARPNESS if by_class else parameters.PARAMETERS.value_gap_rel
        if not session.expired(took) and not near(most, found.value, gap):
            other.run(classes, session)
    except KeyboardInterrupt as error:
        interrupt = error
    best = max(found, other, key=lambda rounds: rounds.value)
    yield _candidate(best, last)
    if interrupt is not None:
        raise interrupt
    running = frozenset(np.flatnonzero(problem.current_region != NONE).tolist())
    for pinned in (running.intersection(best.fixed.starts), running):
        if session.best is None:
            again = _Decomposition(running_jobs, regions, anti_affinity, costs, pinned)
            again.run(classes_at_current_capacity(first), session)
            yield _candidate(again, last)


def _candidate(rounds: _Decomposition, last: bool) -> Candidate:
    """Return the plan of some passes, with identical jobs exchanged and with its data orders."""
    problem, fixed = rounds.problem, rounds.fixed
    plan = Candidate(
        dict(fixed.starts),
        "regions",
        dict(fixed.preempted),
        final=last,
        slots=dict(fixed.slots),
    )
    gangs = rounds.running_jobs.gangs
    return add_data_orders(problem, minimise_remote_reads(problem, gangs, plan, rounds.costs))


class _Decomposition:
    """The decisions of all passes, in which running jobs of `pinned` stay where they are."""

    def __init__(
        self,
        running_jobs: RunningJobs,
        regions: RegionSubproblems,
        anti_affinity: CrossRegionAntiAffinity,
        costs: Ints,
        pinned: frozenset[int] = frozenset(),
    ) -> None:
        self.running_jobs, self.problem, self.round = (
            running_jobs,
            running_jobs.problem,
            running_jobs.problem.round,
        )
        self.regions, self.costs, self._pinned = regions, costs, pinned
        self.fixed = FixedDecisions()
        self._anti_affinity = anti_affinity
        self._tried: set[tuple[int, int]] = set()

    @property
    def value(self) -> int:
        """Value of the started jobs less that of the preempted ones, weighted by class."""
        gangs, starts = self.running_jobs.gangs, self.fixed.starts.items()
        new = sum(gangs.choice_of(j, o).value for j, (o, _) in starts if j not in gangs.running)
        return new - sum(gangs.choice_of(j).value for j in self.fixed.preempted)

    def run(self, classes: JobClasses, session: Session) -> None:
        """Run all passes; the first one assigns jobs by the assignment model of these classes."""
        assignment = assign_regions(classes, self.costs, session)
        self._solve_regions(
            self._assign_single_region_jobs(
                self._greedy_assignment() if assignment is None else assignment
            ),
            session,
        )
        for _ in range(parameters.PARAMETERS.max_residual_passes):
            before = len(self.fixed.starts)
            assignment = self._next_assignment(session)
            if assignment is None:
                break
            self._solve_regions(assignment, session)
            if len(self.fixed.starts) == before:
                break

    def _assign_single_region_jobs(self, assignment: RegionAssignment) -> RegionAssignment:
        """Assign jobs that are eligible in one region only to it, even without capacity."""
        eligible = self.problem.eligible
        bound = (
            (assignment.region == NONE)
            & (self.problem.current_region == NONE)
            & (eligible.sum(axis=1) == 1)
        )
        region = np.where(bound, eligible.argmax(axis=1), assignment.region)
        return RegionAssignment(region, assignment.model)

    def _next_assignment(self, session: Session) -> RegionAssignment | None:
        """Return the assignment of a residual pass, None if it cannot gain enough."""
        if session.expired() or not self._worthwhile(self._jobs_with_other_regions()):
            return None
        assignment = self._greedy_assignment()
        return (
            assignment
            if self._worthwhile(np.flatnonzero(assignment.region != NONE).tolist())
            else None
        )

    def _excluded(self) -> set[tuple[int, int]]:
        """Return the (job, region) pairs that were tried or that anti-affinity forbids."""
        if not self._anti_affinity:
            return self._tried
        return self._tried | self._anti_affinity.forbidden(self._current_regions())

    def _jobs_with_other_regions(self) -> list[int]:
        """Return unplaced jobs that are eligible in a region that was not tried."""
        regions = self.problem.eligible.sum(axis=1)
        regions[self.problem.current_region != NONE] = 0
        for j, _ in self._excluded():
            regions[j] -= 1
        return [j for j in np.flatnonzero(regions).tolist() if self._may_start(j)]

    def _may_start(self, job: int) -> bool:
        """Whether a pending job has not started, nor a label that is closed."""
        return job not in self.fixed.starts and not self.fixed.closed_to(self.round.jobs[job])

    def _solve_regions(self, assignment: RegionAssignment, session: Session) -> None:
        """Solve the region subproblems of an assignment and fix their decisions."""
        region, every = assignment.region, self.round.jobs
        self.fixed.pinned_jobs = self._pinned.union(
            j for j, job in enumerate(every) if job.running and self.fixed.closed_to(job)
        )
        if self._anti_affinity:
            where, region = self._current_regions(), region.copy()
            self.fixed.pinned_jobs |= self._anti_affinity.immovable(where)
            region[[j for j, r in self._anti_affinity.forbidden(where) if region[j] == r]] = NONE
            region[self._anti_affinity.yielding(region)] = NONE
        order = np.argsort(region, kind="stable")
        cuts = np.searchsorted(region[order], np.arange(len(self.problem.wan.regions) + 1))
        jobs_of_region = {
            r: np.sort(order[cuts[r] : cuts[r + 1]]).tolist()
            for r in range(len(cuts) - 1)
            if cuts[r] < cuts[r + 1]
        }
        model = {j: int(assignment.model[j]) for jobs in jobs_of_region.values() for j in jobs}
        quotas = quotas_of_regions(self.problem, self.fixed, jobs_of_region)
        budgets = budgets_of_regions(self.problem, self.fixed, jobs_of_region)
        subproblems = [
            self.regions.build(r, jobs, quotas[r], self.fixed, model, budgets.get(r))
            for r, jobs in jobs_of_region.items()
        ]
        names = self.problem.cluster.hosts
        for subproblem, answer in zip(
            subproblems, session.region_rounds(subproblems, session), strict=True
        ):
            self._tried.update((j, subproblem.region) for j in jobs_of_region[subproblem.region])
            if answer.candidate is not None:
                self.fixed.add(subproblem.region, subproblem.lift(answer.candidate), names)
        self.fixed.close_what_was_given_back(self.round, names)

    def _current_regions(self) -> Ints:
        """Return the region of each job that runs or has started (jobs,), otherwise NONE."""
        return regions_after(self.problem, self.fixed.starts, self.fixed.preempted)

    def _greedy_assignment(self) -> RegionAssignment:
        """Return unplaced jobs assigned greedily to the residual capacity of regions."""
        classes = classes_at_residual_capacity(
            self.running_jobs, self._taken_milli(), self.fixed.starts
        )
        pending = np.flatnonzero(
            (self.problem.current_region == NONE) & (classes.class_of_job != NONE)
        ).tolist()
        waiting = [j for j in pending if self._may_start(j)]
        region = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
        model = region.copy()
        for j, assignment_index in ResidualCapacity(classes).assign_greedily(
            waiting, self.costs, self._excluded()
        ):
            region[j], model[j] = (
                classes.assignment_region[assignment_index],
                classes.assignment_model[assignment_index],
            )
        return RegionAssignment(region, model)

    def _worthwhile(self, jobs: Sequence[int]) -> bool:
        """Whether placing all of these jobs would gain enough for another pass."""
        every = self.round.jobs
        new = sum(every[j].value_of(0) for j in jobs)
        known = sum(every[j].value_of(option) for j, (option, _) in self.fixed.starts.items())
        return new > parameters.PARAMETERS.min_gain_rel * known

    def _taken_milli(self) -> Ints:
        """Return the milli-GPU that the plan so far takes of hosts (hosts,)."""
        taken = np.zeros(self.problem.cluster.num_hosts, dtype=np.int64)
        index, jobs = self.problem.cluster.host_index, self.round.jobs
        for j, (option, places) in self.fixed.starts.items():
            for group, _, host, _ in places:
                taken[host] += jobs[j].options[option].groups[group].gpu
        for j in (*self.fixed.preempted, *self.fixed.starts):
            running = jobs[j].running
            if running is not None:
                groups = jobs[j].options[running.option].groups
                for task in running.tasks:
                    taken[index[task.host]] -= groups[task.group].gpu
        taken[[index[host] for host in self.fixed.closed_hosts]] = BLOCKED_MILLI
        return taken
