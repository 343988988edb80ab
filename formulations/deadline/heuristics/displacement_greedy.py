"""A place for everybody who must run now: the largest first, and smaller ones make way.

Gangs are placed in order of size. One that finds no room takes that of smaller jobs: of those that
may wait first, else of others that must run, which then look for a place themselves; they do not
need it on one host as a whole. As only smaller ones are asked, that ends; and where all sizes are
powers of two and hosts are of such a size, all that must run find a place if they fit by count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from placewright.formulations.deadline.heuristics.current_lease import MAY_WAIT
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Choice,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.base import WHOLE_GPU

MOST_HOSTS = 64
"""Hosts that are asked who could make way: those first where most GPUs are free or may wait."""

MOVING = 2
"""What it counts to ask one who must run, beside one who may wait."""


def crowded(problem: Problem) -> Placement:
    """Return a placement of the gangs of `current_lease.py` in which few must make way."""
    crowd = _Crowd(problem)
    crowd.seat()
    fill_by_policy(crowd.placement)
    return crowd.placement


_Finder: TypeAlias = Callable[[Choice], Sequence[TaskPlacement] | None]


class _Crowd:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.placement = Placement(problem)
        self._gpus: Counter[int] = Counter()
        self._here: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._may_wait = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        for job, running in problem.running.items():
            for group, _, host, _ in running.places:
                gpus = int(problem.shape_gpu[self._choice(job).groups[group].shape]) // WHOLE_GPU
                self._gpus[job] += gpus
                self._here[host][job] += gpus
            self._count(job, 1)
        self._queue: list[tuple[int, int, int]] = []
        self._aside: list[int] = []

    def seat(self) -> None:
        """Place who must run and waits, then who made way."""
        problem = self._problem
        self._queue = [
            (-max(group.milli_gpu for group in job_class.choices[0].groups), c, ANY_JOB)
            for c, job_class in enumerate(problem.classes)
            if not job_class.running
            for job in job_class.jobs
            if self._must(job)  # those of a class that start are those of highest priority
        ]
        heapify(self._queue)
        while self._queue:
            _, c, job = heappop(self._queue)
            self._seat(c, job, self._free_or_taken)
        for job in sorted(self._aside, key=lambda job: -self._gpus[job]):
            self._seat(problem.running[job].job_class, job, self._free)

    def _seat(self, c: int, job: int, found: _Finder) -> None:
        problem, choices = self._problem, self._problem.classes[c].choices
        left = self.placement.quota_left()
        for o in sorted(range(len(choices)), key=lambda o: -choices[o].value):
            within = problem.within_quota(left, problem.classes[c].tenant, choices[o])
            puts = found(choices[o]) if within else None
            if puts is not None:
                self.placement.start(c, o, puts, job)
                return

    def _free(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        return place_choice(self.placement, choice)

    def _free_or_taken(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        puts = self._free(choice)
        if puts is None and len(choice.groups) == 1:
            puts = self._taken(choice)
        return puts

    def _taken(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        """Return a place in that of smaller jobs; they have left it then."""
        group = choice.groups[0]
        gpu = int(self._problem.shape_gpu[group.shape])
        host_level = len(self._problem.cluster.levels) - 1
        together = group.count == 1 or choice.joint == host_level or group.required == host_level
        levels = {choice.joint, group.required} - {NO_LEVEL, host_level}
        if gpu < WHOLE_GPU or gpu % WHOLE_GPU or group.arranged or (levels and not together):
            return None
        each = group.count if together else 1
        hosts: Counter[int] = Counter()
        left: list[JobPlacement] = []
        for _ in range(group.count // each):
            host = self._make_way(group.shape, each, left)
            if host is None:
                for at, count in hosts.items():
                    self.placement.lift(group.shape, TaskPlacement(0, at, count, ()))
                self._back(left)
                return None
            self.placement.put(group.shape, host, each)
            hosts[host] += each
        for start in left:
            self._ask_again(start)
        return [TaskPlacement(0, host, count, ()) for host, count in hosts.items()]

    def _make_way(self, shape: int, count: int, left: list[JobPlacement]) -> int | None:
        """Return a host on which so many tasks fit, since smaller jobs, added to `left`, leave."""
        problem, placement = self._problem, self.placement
        rank = int(problem.shape_rank[shape])
        asked = count * int(problem.shape_gpu[shape]) // WHOLE_GPU
        open_ = np.flatnonzero(problem.shape_hosts[shape] & (placement.closed <= rank))
        most = placement.whole[open_] + self._may_wait[open_]
        open_ = open_[np.argsort(-most, kind="stable")[:MOST_HOSTS]]
        found = []
        for host in open_.tolist():
            leaving = self._leaving(host, asked - int(placement.whole[host]), rank)
            if leaving is not None:
                cost = sum(self._gpus[j] * (MOVING if self._must(j) else 1) for j in leaving)
                found.append((cost, host, leaving))
        for _, host, leaving in sorted(found, key=lambda one: one[:2]):
            starts = self._stopped(leaving)
            if placement.fits(shape)[host] >= count:
                left += starts
                return host
            self._back(starts)
        return None

    def _stopped(self, jobs: Sequence[int]) -> list[JobPlacement]:
        """Stop jobs where they are, and return what they were."""
        starts = []
        for job in jobs:
            number = self.placement.start_of(job)
            start = self.placement.get(number)
            if start is not None:
                starts.append(start)
                self.placement.stop(number)
                self._count(job, -1)
        return starts

    def _back(self, starts: Sequence[JobPlacement]) -> None:
        """Put stopped jobs back."""
        for start in reversed(starts):
            self.placement.restart(start)
            self._count(start.job, 1)

    def _leaving(self, host: int, lacking: int, rank: int) -> list[int] | None:
        """Return jobs of lower rank on a host that have so many GPUs together; None: too few."""
        here = self._here[host]
        able = [
            job
            for job, gpus in here.items()
            if gpus and self.placement.in_place(job) and self._problem.running[job].level < rank
        ]
        able.sort(key=lambda job: (self._must(job), -here[job]))
        chosen: list[int] = []
        for job in able:
            if lacking <= sum(here[one] for one in chosen):
                break
            chosen.append(job)
        spare = sum(here[one] for one in chosen) - lacking
        for job in reversed(chosen.copy()):  # the last may have made an earlier one needless
            if here[job] <= spare:
                chosen.remove(job)
                spare -= here[job]
        return chosen if spare >= 0 else None

    def _count(self, job: int, times: int) -> None:
        """Keep the book of the GPUs of each host on which somebody runs who may wait."""
        if not self._must(job):
            for group, _, host, _ in self._problem.running[job].places:
                shape = self._choice(job).groups[group].shape
                self._may_wait[host] += times * (int(self._problem.shape_gpu[shape]) // WHOLE_GPU)

    def _ask_again(self, start: JobPlacement) -> None:
        if self._must(start.job):
            milli = WHOLE_GPU * self._gpus[start.job]
            heappush(self._queue, (-milli, start.job_class, start.job))
        else:
            self._aside.append(start.job)

    def _must(self, job: int) -> bool:
        return self._problem.round.jobs[job].priority > MAY_WAIT

    def _choice(self, job: int) -> Choice:
        return self._problem.classes[self._problem.running[job].job_class].choices[0]
