"""Data orders of a plan: jobs that wait for data, and the copies to make for them.

A job that lacks data in every region gets a copy in a region that may run it: one with GPUs left
after the plan if possible, then where the fewest GiB are copied. A job that is eligible somewhere
but was not placed gets a copy only where GPUs are left. Data on its way needs no copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.common.wan.reachability import reachable
from placewright.formulations.common.wan.scheduler import Transfers, schedule
from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.plan_messages import Candidate, DataPlan, Place

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
