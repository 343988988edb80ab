"""What a plan says of data: who reads over links, who waits for data, and which copies are made.

A job that no region can run for want of data gets a copy of what is missing, in a region that may
run it: first one with GPUs left after the plan, then one where the least is copied. Jobs that could
run, but found no room, get one only where GPUs are left. Data that is on its way needs no copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints
from placewright.formulations.common.wan.reachability import reachable
from placewright.formulations.common.wan.scheduler import Transfers, schedule
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.session import Candidate, DataPlan, Place

NEVER = 2**62
"""When data arrives that never does."""

MOST_ASKED = 200
"""Jobs that could run elsewhere, had they room, and are asked about copies."""

MOST_TRIED = 3
"""Regions that a job is tried in, where links have no room for its copies."""

Creates = Sequence[tuple[int, int, int]]


def with_data(problem: Problem, candidate: Candidate) -> Candidate:
    """Return a candidate that says who reads from where, who waits for data, and what is copied."""
    region = regions_after(problem, candidate.starts, candidate.preempted)
    waiting = _Waiting(problem, candidate, region)
    copies = waiting.copies()
    data = DataPlan(
        reads=problem.reads_in(region),
        waits=waiting.waits(copies.creates),
        creates=copies.creates,
        flows=copies.flows,
    )
    return replace(candidate, data=data)


def regions_after(
    problem: Problem, starts: Mapping[int, tuple[int, tuple[Place, ...]]], stopped: Iterable[int]
) -> Ints:
    """Return the region where each job runs after a plan (jobs,), NONE of those that wait.

    `starts` as in a candidate, `stopped` are the jobs that are preempted.
    """
    region = problem.at.copy()
    for job, (_, places) in starts.items():
        region[job] = problem.wan.host_region[places[0][2]]
    region[list(stopped)] = NONE
    return region


def since_when(problem: Problem, jobs: Ints, creates: Creates) -> Ints:
    """Return from when regions have all data of jobs, and GPUs at all (jobs, regions); or NEVER."""
    wan = problem.wan
    first, over_links = _first(problem, creates)
    number = np.full(len(wan.round.jobs), NONE, dtype=np.int64)
    number[jobs] = np.arange(len(jobs))
    mine = np.flatnonzero(number[wan.read_job] != NONE)
    data = wan.read_dataset[mine]
    near = np.minimum(first, over_links)[data]
    each = np.where(wan.read_remote[mine, None], near, first[data])
    roomy = np.array([problem.roomy(j, wan.supply) for j in jobs.tolist()], dtype=np.bool_)
    may = wan.may_run[jobs] & roomy.reshape(len(jobs), len(wan.regions))
    since = np.where(may, wan.round.now, NEVER)
    np.maximum.at(since, number[wan.read_job[mine]], each)
    return since


def nowhere_with(problem: Problem, jobs: Sequence[int], creates: Creates) -> set[int]:
    """Return which of some jobs no region can run, even once all copies are done."""
    number = np.array(jobs, dtype=np.int64)
    number = number[~problem.can[number].any(axis=1)]
    never = since_when(problem, number, creates).min(axis=1, initial=NEVER) == NEVER
    return set(number[never].tolist())


def _first(problem: Problem, creates: Creates) -> tuple[Ints, Ints]:
    """Return from when regions hold datasets, and can read them over links (datasets, regions)."""
    wan = problem.wan
    first = np.where(wan.arriving, wan.ready, NEVER)
    first[problem.has] = wan.round.now
    for dataset, region, ready in creates:
        first[dataset, region] = ready
    over_links = np.full_like(first, NEVER)
    known: dict[bytes, Ints] = {}
    for d in range(len(first)):
        key = first[d].tobytes() + wan.may_hold[d].tobytes()
        if key not in known:
            reading = np.where(wan.within(d), first[d][:, None], NEVER)
            known[key] = reading.min(axis=0, initial=NEVER)
        over_links[d] = known[key]
    return first, over_links


class _Waiting:
    """The jobs that do not run after a plan, and what data can do for them."""

    def __init__(self, problem: Problem, candidate: Candidate, region: Ints) -> None:
        self.problem, self.wan = problem, problem.wan
        pending = (region == NONE) & (problem.at == NONE)
        can = problem.can.any(axis=1)
        self._stuck = np.flatnonzero(pending & ~can)
        # Jobs that lack nothing but data in some region.
        others = np.flatnonzero(pending & can & (self.wan.may_run & ~problem.can).any(axis=1))
        # Without such jobs nobody asks what is left.
        asked = others.size or self._stuck.size
        self._left = problem.left_by(candidate) if asked else np.zeros_like(self.wan.supply)
        self._others = self._urgent(others[self._roomy(others).sum(axis=1) > 0])
        self._reach: dict[int, Bools] = {}

    def copies(self) -> Transfers:
        """Return the copies that are made for the jobs that wait."""
        wishes = {j: self._regions(j, stuck=True) for j in self._late()}
        wishes |= {j: self._regions(j, stuck=False) for j in self._others.tolist()}
        wanted: dict[tuple[int, int], None] = {}
        refused: set[tuple[int, int]] = set()
        copies = Transfers()
        for attempt in range(MOST_TRIED):
            for j, regions in wishes.items():
                if attempt < len(regions) and (
                    not attempt or refused & set(self._missing(j, regions[attempt - 1]))
                ):
                    wanted |= dict.fromkeys(self._missing(j, regions[attempt]))
            wanted = {copy: None for copy in wanted if copy not in refused}
            if not wanted:
                break
            copies = schedule(self.wan, list(wanted), ())
            refused |= set(copies.refused)
            if not copies.refused:
                break
        return copies

    def waits(self, creates: Creates) -> Mapping[int, tuple[int, int]]:
        """Return the region in which a job will have its data first, and when."""
        found: dict[int, tuple[int, int]] = {}
        for jobs, roomy in (
            (self._stuck, np.ones((len(self._stuck), len(self.wan.regions)), dtype=np.bool_)),
            (self._others, self._roomy(self._others)),
        ):
            since = since_when(self.problem, jobs, creates)
            since[~roomy | self.problem.can[jobs] | (since == self.wan.round.now)] = NEVER
            for j, at in zip(jobs.tolist(), since, strict=True):
                r = int(at.argmin())
                if at[r] < NEVER:
                    found[j] = (r, int(at[r]))
        return found

    def _late(self) -> list[int]:
        """Return the jobs that no region can run, and that wait for no copy under way."""
        if not self._stuck.size:
            return []
        since = since_when(self.problem, self._stuck, ())
        late: list[int] = self._urgent(self._stuck[since.min(axis=1) == NEVER]).tolist()
        return late

    def _urgent(self, jobs: Ints) -> Ints:
        """Return the first of some jobs, by priority and value."""
        every = self.wan.round.jobs
        order = sorted(jobs.tolist(), key=lambda j: (-every[j].priority, -every[j].value_of(0), j))
        return np.array(order[:MOST_ASKED], dtype=np.int64)

    def _roomy(self, jobs: Ints) -> Bools:
        """Return in which regions GPUs for jobs are left after the plan (jobs, regions)."""
        rows = [self.problem.roomy(j, self._left) for j in jobs.tolist()]
        return np.array(rows, dtype=np.bool_).reshape(len(jobs), len(self.wan.regions))

    def _regions(self, j: int, *, stuck: bool) -> list[int]:
        """Return the regions that a job's data may be copied to, the best first."""
        roomy = self.problem.roomy(j, self._left)
        may = self.wan.may_run[j] & ~self.problem.can[j]
        may &= self.problem.roomy(j, self.wan.supply) if stuck else roomy
        found = []
        for r in np.flatnonzero(may).tolist():
            missing = self._missing(j, r)
            if missing and all(self._reachable(d)[r] for d, _ in missing):
                size = sum(int(self.wan.size[d]) for d, _ in missing)
                found.append((not roomy[r], size, r))
        return [r for _, _, r in sorted(found)]

    def _missing(self, j: int, r: int) -> list[tuple[int, int]]:
        """Return what has to be copied so that a region can run a job (dataset, region)."""
        held, over_links = self._known
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
    def _known(self) -> tuple[Ints, Ints]:
        """From when regions hold datasets without more copies, and can read them over links."""
        return _first(self.problem, ())

    def _reachable(self, dataset: int) -> Bools:
        if dataset not in self._reach:
            self._reach[dataset] = reachable(self.wan, dataset)
        return self._reach[dataset]
