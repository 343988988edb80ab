"""Displacement greedy: jobs that must run are placed by decreasing size and displace smaller ones.

A gang without free hosts takes those of smaller jobs: first of jobs that may wait, then of others
that must run, which are queued again. Only smaller jobs are displaced, so it ends; and where all
sizes are powers of two and divide the hosts' sizes, all that must run are placed if they fit by
count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.current_lease import MAX_OTHER_PRIORITY
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
from placewright.formulations.gang.problem.problem import Problem as GangProblem
from placewright.topology.units import WHOLE_GPU


def displacement_greedy(problem: GangProblem) -> Placement:
    """Return a placement of the gangs of the current lease that preempts few jobs."""
    greedy = _DisplacementGreedy(problem)
    greedy.place_all()
    fill_by_policy(greedy.placement)
    return greedy.placement


_PlaceFinder: TypeAlias = Callable[[Choice], Sequence[TaskPlacement] | None]


class _DisplacementGreedy:
    def __init__(self, problem: GangProblem) -> None:
        self._problem = problem
        self.placement = Placement(problem)
        self._gpus: Counter[int] = Counter()
        self._gpus_on_host: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._preemptible_gpus = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        for job, running in problem.running.items():
            for group, _, host, _ in running.places:
                gpus = int(problem.shape_gpu[self._choice(job).groups[group].shape]) // WHOLE_GPU
                self._gpus[job] += gpus
                self._gpus_on_host[host][job] += gpus
            self._update_preemptible(job, 1)
        self._queue: list[tuple[int, int, int]] = []
        self._displaced_waiting: list[int] = []

    def place_all(self) -> None:
        """Place the pending jobs that must run, then the displaced ones that may wait."""
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
            self._place(c, job, self._find_or_displace)
        for job in sorted(self._displaced_waiting, key=lambda job: -self._gpus[job]):
            self._place(problem.running[job].job_class, job, self._find_free)

    def _place(self, c: int, job: int, find: _PlaceFinder) -> None:
        problem, choices = self._problem, self._problem.classes[c].choices
        left = self.placement.quota_left()
        for o in sorted(range(len(choices)), key=lambda o: -choices[o].value):
            within = problem.within_quota(left, problem.classes[c].accounts, choices[o])
            puts = find(choices[o]) if within else None
            if puts is not None:
                self.placement.start(c, o, puts, job)
                return

    def _find_free(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        return place_choice(self.placement, choice)

    def _find_or_displace(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        puts = self._find_free(choice)
        if puts is None and len(choice.groups) == 1:
            puts = self._displace(choice)
        return puts

    def _displace(self, choice: Choice) -> Sequence[TaskPlacement] | None:
        """Return hosts for a choice after displacing smaller jobs; None if there are none."""
        group = choice.groups[0]
        gpu = int(self._problem.shape_gpu[group.shape])
        host_level = len(self._problem.cluster.levels) - 1
        together = (
            group.count == 1 or choice.joint_level == host_level or group.required == host_level
        )
        levels = {choice.joint_level, group.required} - {NO_LEVEL, host_level}
        if gpu < WHOLE_GPU or gpu % WHOLE_GPU or group.is_arranged or (levels and not together):
            return None
        each = group.count if together else 1
        hosts: Counter[int] = Counter()
        left: list[JobPlacement] = []
        for _ in range(group.count // each):
            host = self._evict_from_host(group.shape, each, left)
            if host is None:
                for at, count in hosts.items():
                    self.placement.lift(group.shape, TaskPlacement(0, at, count, ()))
                self._restore(left)
                return None
            self.placement.put(group.shape, host, each)
            hosts[host] += each
        for start in left:
            self._requeue(start)
        return [TaskPlacement(0, host, count, ()) for host, count in hosts.items()]

    def _evict_from_host(self, shape: int, count: int, left: list[JobPlacement]) -> int | None:
        """Return a host that fits the tasks once smaller jobs, added to `left`, are stopped."""
        problem, placement = self._problem, self.placement
        rank = int(problem.shape_rank[shape])
        asked = count * int(problem.shape_gpu[shape]) // WHOLE_GPU
        hosts_open = np.flatnonzero(problem.shape_hosts[shape] & (placement.least_rank <= rank))
        most = placement.whole[hosts_open] + self._preemptible_gpus[hosts_open]
        hosts_open = hosts_open[
            np.argsort(-most, kind="stable")[: parameters.PARAMETERS.max_displacement_hosts]
        ]
        found = []
        for host in hosts_open.tolist():
            victims = self._victims(host, asked - int(placement.whole[host]), rank)
            if victims is not None:
                cost = sum(
                    self._gpus[j]
                    * (parameters.PARAMETERS.must_run_victim_factor if self._must(j) else 1)
                    for j in victims
                )
                found.append((cost, host, victims))
        for _, host, victims in sorted(found, key=lambda one: one[:2]):
            starts = self._stop(victims)
            if placement.fits(shape)[host] >= count:
                left += starts
                return host
            self._restore(starts)
        return None

    def _stop(self, jobs: Sequence[int]) -> list[JobPlacement]:
        """Stop jobs, and return their placements."""
        starts = []
        for job in jobs:
            number = self.placement.start_of(job)
            start = self.placement.get(number)
            if start is not None:
                starts.append(start)
                self.placement.stop(number)
                self._update_preemptible(job, -1)
        return starts

    def _restore(self, starts: Sequence[JobPlacement]) -> None:
        """Place stopped jobs where they were."""
        for start in reversed(starts):
            self.placement.restart(start)
            self._update_preemptible(start.job, 1)

    def _victims(self, host: int, shortage: int, rank: int) -> list[int] | None:
        """Return jobs of lower rank on a host that hold the missing GPUs; None if they do not."""
        on_host = self._gpus_on_host[host]
        candidates = [
            job
            for job, gpus in on_host.items()
            if gpus and self.placement.in_place(job) and self._problem.running[job].level < rank
        ]
        candidates.sort(key=lambda job: (self._must(job), -on_host[job]))
        chosen: list[int] = []
        for job in candidates:
            if shortage <= sum(on_host[one] for one in chosen):
                break
            chosen.append(job)
        surplus = sum(on_host[one] for one in chosen) - shortage
        for job in reversed(chosen.copy()):  # the last may have made an earlier one needless
            if on_host[job] <= surplus:
                chosen.remove(job)
                surplus -= on_host[job]
        return chosen if surplus >= 0 else None

    def _update_preemptible(self, job: int, times: int) -> None:
        """Update the GPUs of each host that are held by jobs that may wait."""
        if not self._must(job):
            for group, _, host, _ in self._problem.running[job].places:
                shape = self._choice(job).groups[group].shape
                self._preemptible_gpus[host] += times * (
                    int(self._problem.shape_gpu[shape]) // WHOLE_GPU
                )

    def _requeue(self, start: JobPlacement) -> None:
        if self._must(start.job):
            milli = WHOLE_GPU * self._gpus[start.job]
            heappush(self._queue, (-milli, start.job_class, start.job))
        else:
            self._displaced_waiting.append(start.job)

    def _must(self, job: int) -> bool:
        return self._problem.round.jobs[job].priority > MAX_OTHER_PRIORITY

    def _choice(self, job: int) -> Choice:
        return self._problem.classes[self._problem.running[job].job_class].choices[0]
