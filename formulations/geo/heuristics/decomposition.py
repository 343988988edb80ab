"""Decomposition by region: jobs are assigned to regions, each solved as a gang round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE, reachable
from placewright.formulations.common.wan.routing import Transfers, schedule
from placewright.formulations.geo import parameters
from placewright.formulations.geo.heuristics.assign import (
    RegionAssignment,
    ResidualCapacity,
    assign_regions,
    minimise_remote_reads,
)
from placewright.formulations.geo.heuristics.subproblem import (
    CrossRegionAntiAffinity,
    FixedDecisions,
    RegionSubproblems,
    budgets_of_regions,
    quotas_of_regions,
)
from placewright.formulations.geo.models.region_options import (
    classes_at_current_capacity,
    classes_at_residual_capacity,
)
from placewright.formulations.geo.problem.compile import Problem, RunningJobs
from placewright.formulations.geo.problem.job_classes import JobClasses, build_job_classes
from placewright.formulations.plan_messages import SHARPNESS, Candidate, DataPlan, Place, near
from placewright.formulations.session import Session

# Data orders of a plan: jobs that wait for data, and the copies to make for them.
#
# A job that lacks data in every region gets a copy in a region that may run it: one with GPUs left
# after the plan if possible, then where the fewest GiB are copied. A job that is eligible somewhere
# but was not placed gets a copy only where GPUs are left. Data on its way needs no copy.


NEVER = 2**62
"""Time of data that never arrives."""

Creates = Sequence[tuple[int, int, int]]


def add_data_orders(problem: Problem, candidate: Candidate) -> Candidate:
    """Return a candidate with its waiting jobs, copies and their flows."""
    region = regions_after(problem, candidate.starts, candidate.preempted)
    orders = _DataOrders(problem, candidate, region)
    copies = orders.copies()
    data = DataPlan(
        waits=orders.waits(copies.creates),
        creates=copies.creates,
        flows=copies.flows,
    )
    return replace(candidate, data=data)


def regions_after(
    problem: Problem, starts: Mapping[int, tuple[int, tuple[Place, ...]]], stopped: Iterable[int]
) -> Ints:
    """Return the region of each job after a plan (jobs,), NONE of jobs that do not run.

    `starts` is that of a candidate, `stopped` are the preempted jobs.
    """
    region = problem.current_region.copy()
    for job, (_, places) in starts.items():
        region[job] = problem.wan.host_region[places[0][2]]
    region[list(stopped)] = NONE
    return region


def earliest_start(problem: Problem, jobs: Ints, creates: Creates) -> Ints:
    """Return when each region has all data and any GPUs for some jobs (jobs, regions).

    The time is on the round's clock, `NEVER` if the region cannot run the job. `creates` are the
    copies made, as (dataset, region, time of completion).
    """
    wan = problem.wan
    available_from, over_links = _available_from(problem, creates)
    number = np.full(len(wan.round.jobs), NONE, dtype=np.int64)
    number[jobs] = np.arange(len(jobs))
    mine = np.flatnonzero(number[wan.read_job] != NONE)
    data = wan.read_dataset[mine]
    readable_from = np.minimum(available_from, over_links)[data]
    each = np.where(wan.read_remote[mine, None], readable_from, available_from[data])
    with_supply = np.array(
        [problem.regions_with_supply(j, wan.supply) for j in jobs.tolist()], dtype=np.bool_
    )
    allowed = wan.may_run[jobs] & with_supply.reshape(len(jobs), len(wan.regions))
    since = np.where(allowed, wan.round.now, NEVER)
    np.maximum.at(since, number[wan.read_job[mine]], each)
    return since


def never_runnable(problem: Problem, jobs: Sequence[int], creates: Creates) -> set[int]:
    """Return which of some jobs no region can run, even after all copies are made."""
    number = np.array(jobs, dtype=np.int64)
    number = number[~problem.eligible[number].any(axis=1)]
    never = earliest_start(problem, number, creates).min(axis=1, initial=NEVER) == NEVER
    return set(number[never].tolist())


def _available_from(problem: Problem, creates: Creates) -> tuple[Ints, Ints]:
    """Return when datasets are complete, and readable over a link (both datasets, regions)."""
    wan = problem.wan
    available_from = np.where(wan.arriving, wan.ready, NEVER)
    available_from[problem.available] = wan.round.now
    for dataset, region, ready in creates:
        available_from[dataset, region] = ready
    over_links = np.full_like(available_from, NEVER)
    known: dict[bytes, Ints] = {}
    for d in range(len(available_from)):
        key = available_from[d].tobytes() + wan.may_hold[d].tobytes()
        if key not in known:
            reading = np.where(wan.links_of(d), available_from[d][:, None], NEVER)
            known[key] = reading.min(axis=0, initial=NEVER)
        over_links[d] = known[key]
    return available_from, over_links


class _DataOrders:
    """The pending jobs that a plan leaves waiting, and the copies that would let them run."""

    def __init__(self, problem: Problem, candidate: Candidate, region: Ints) -> None:
        self.problem, self.wan = problem, problem.wan
        pending = (region == NONE) & (problem.current_region == NONE)
        eligible = problem.eligible.any(axis=1)
        self._unrunnable = np.flatnonzero(pending & ~eligible)
        # Jobs that lack nothing but data in some region.
        unplaced = np.flatnonzero(
            pending & eligible & (self.wan.may_run & ~problem.eligible).any(axis=1)
        )
        # The residual supply is needed for such jobs only.
        needed = unplaced.size or self._unrunnable.size
        self._residual = (
            problem.residual_supply(candidate) if needed else np.zeros_like(self.wan.supply)
        )
        self._unplaced = self._most_urgent(
            unplaced[self._with_residual_supply(unplaced).sum(axis=1) > 0]
        )
        self._reachable_from: dict[int, Bools] = {}

    def copies(self) -> Transfers:
        """Return the scheduled copies; a job whose copies are refused tries its next region."""
        regions_of_job = {
            j: self._target_regions(j, unrunnable=True) for j in self._jobs_without_data()
        }
        regions_of_job |= {
            j: self._target_regions(j, unrunnable=False) for j in self._unplaced.tolist()
        }
        copies_to_make: dict[tuple[int, int], None] = {}
        refused: set[tuple[int, int]] = set()
        copies = Transfers()
        for attempt in range(parameters.PARAMETERS.max_regions_per_job):
            for j, regions in regions_of_job.items():
                if attempt < len(regions) and (
                    not attempt or refused & set(self._missing_copies(j, regions[attempt - 1]))
                ):
                    copies_to_make |= dict.fromkeys(self._missing_copies(j, regions[attempt]))
            copies_to_make = {copy: None for copy in copies_to_make if copy not in refused}
            if not copies_to_make:
                break
            copies = schedule(self.wan, list(copies_to_make), ())
            refused |= set(copies.refused)
            if not copies.refused:
                break
        return copies

    def waits(self, creates: Creates) -> Mapping[int, tuple[int, int]]:
        """Return for each job the region that has its data first, and when."""
        found: dict[int, tuple[int, int]] = {}
        for jobs, with_supply in (
            (
                self._unrunnable,
                np.ones((len(self._unrunnable), len(self.wan.regions)), dtype=np.bool_),
            ),
            (self._unplaced, self._with_residual_supply(self._unplaced)),
        ):
            since = earliest_start(self.problem, jobs, creates)
            since[~with_supply | self.problem.eligible[jobs] | (since == self.wan.round.now)] = (
                NEVER
            )
            for j, since_in in zip(jobs.tolist(), since, strict=True):
                r = int(since_in.argmin())
                if since_in[r] < NEVER:
                    found[j] = (r, int(since_in[r]))
        return found

    def _jobs_without_data(self) -> list[int]:
        """Return the unrunnable jobs for which no copy is on its way."""
        if not self._unrunnable.size:
            return []
        since = earliest_start(self.problem, self._unrunnable, ())
        jobs_without_data: list[int] = self._most_urgent(
            self._unrunnable[since.min(axis=1) == NEVER]
        ).tolist()
        return jobs_without_data

    def _most_urgent(self, jobs: Ints) -> Ints:
        """Return the first of some jobs by priority, then value, up to the limit."""
        every = self.wan.round.jobs
        order = sorted(jobs.tolist(), key=lambda j: (-every[j].priority, -every[j].value_of(0), j))
        return np.array(order[: parameters.PARAMETERS.max_jobs_with_orders], dtype=np.int64)

    def _with_residual_supply(self, jobs: Ints) -> Bools:
        """Return the regions with GPUs left for jobs after the plan (jobs, regions)."""
        rows = [self.problem.regions_with_supply(j, self._residual) for j in jobs.tolist()]
        return np.array(rows, dtype=np.bool_).reshape(len(jobs), len(self.wan.regions))

    def _target_regions(self, j: int, *, unrunnable: bool) -> list[int]:
        """Return the regions to which a job's data may be copied, best first."""
        with_supply = self.problem.regions_with_supply(j, self._residual)
        allowed = self.wan.may_run[j] & ~self.problem.eligible[j]
        allowed &= (
            self.problem.regions_with_supply(j, self.wan.supply) if unrunnable else with_supply
        )
        found = []
        for r in np.flatnonzero(allowed).tolist():
            missing = self._missing_copies(j, r)
            if missing and all(self._reachable_regions(d)[r] for d, _ in missing):
                size = sum(int(self.wan.size[d]) for d, _ in missing)
                found.append((not with_supply[r], size, r))
        return [r for _, _, r in sorted(found)]

    def _missing_copies(self, j: int, r: int) -> list[tuple[int, int]]:
        """Return the (dataset, region) copies without which a region cannot run a job."""
        held, over_links = self._availability
        first, last = np.searchsorted(self.wan.read_job, (j, j + 1)).tolist()
        return [
            (d, r)
            for d, remote in zip(
                self.wan.read_dataset[first:last].tolist(),
                self.wan.read_remote[first:last].tolist(),
                strict=True,
            )
            if held[d, r] == NEVER and not (remote and over_links[d, r] < NEVER)
        ]

    @cached_property
    def _availability(self) -> tuple[Ints, Ints]:
        """When datasets are complete and readable without further copies."""
        return _available_from(self.problem, ())

    def _reachable_regions(self, dataset: int) -> Bools:
        if dataset not in self._reachable_from:
            self._reachable_from[dataset] = reachable(self.wan, dataset)
        return self._reachable_from[dataset]


# Decomposition by region: assign jobs to regions, solve each region as a gang round, repeat.
#
# First the assignment model chooses the region of each job (assign.py). Each region then solves a
# gang round of its own, preemption included. Jobs without a place are offered to other regions in
# residual passes, in which jobs that have started are pinned, and so are the jobs on hosts that
# received tasks: so a later plan of a region is valid together with an earlier one. What preempted
# jobs gave back is closed to later passes (subproblem.py).
#
# If the value is not close enough to its bound and as much time is left as this took, it is done
# once more with the rows of the bound (job_classes.py), which allow hosts to be emptied for
# gangs.
#
# If the plan is refused, another one follows in which no job moves that has moved in it, then one
# in which all running jobs stay where they are. For regions are not independent: a job that moves
# in one may have to move back (docs/plans.md) once some job of lower precedence is preempted in
# another.


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
    `running_jobs`: the round. `classes`: its job classes, with the rows of bounds. `most`: upper
    bound of `value`, under strict priority of the weighted sum of the classes. `session`: clock and
    solver, and who decides the rounds of regions. `last`: whether no other plan follows.
    """
    problem, costs, began = running_jobs.problem, running_jobs.problem.read_costs, time.monotonic()
    regions = RegionSubproblems(problem, running_jobs.gangs)
    anti_affinity = CrossRegionAntiAffinity(problem)
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
        self.running_jobs = running_jobs
        self.problem = running_jobs.problem
        self.round = running_jobs.problem.round
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
            region[j] = classes.assignment_region[assignment_index]
            model[j] = classes.assignment_model[assignment_index]
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
