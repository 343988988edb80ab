"""The round that is left once guaranteed jobs have their places.

In it they are pinned, those that wait are not there, and running jobs that are in the way are
pending: they find another place, which is a migration of the round, or they are preempted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from placewright.formulations.cells.admission import Starts, pinned
from placewright.formulations.cells.evicting import Evictions, evictions
from placewright.formulations.gang.standing import borrowed_of
from placewright.formulations.session import Candidate, Place
from placewright.instances.chains import guaranteed
from placewright.instances.hardware import Hardware
from placewright.instances.job import Job, Running
from placewright.instances.plan import Task
from placewright.instances.round import Round


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left to decide, and how that is told of the whole round.

    Parameters
    ----------
    whole
        The round in which some tenant owns cells.
    hosts
        Its hosts, as the indices of places count them.
    round
        What is left, as a round without cells.
    outer
        For each job of the rest its index in the whole round.
    borrowed
        Options that are not entitled in the whole round, by the index of a job of the rest.
    starts
        The guaranteed jobs that start, by their indices in the whole round.
    evicted
        Running jobs that are in the way, by their indices in the whole round.
    """

    whole: Round
    hosts: Mapping[str, int]
    round: Round
    outer: tuple[int, ...]
    borrowed: Mapping[int, tuple[int, ...]]
    starts: Starts
    evicted: Evictions

    def told(self, found: Candidate) -> Candidate | None:
        """Tell a plan for the rest as one for the whole round.

        None if it is none: something arrives where an evicted job finds no other place, from which
        nobody but guaranteed jobs may profit; or an evicted job displaces another that it was
        beside before.
        """
        starts = dict(self.starts)
        kept = set[int]()
        for index, (option, places) in found.starts.items():
            job = self.outer[index]
            running = self.whole.jobs[job].running
            if job in self.evicted.jobs and running is not None:
                if self._where(running) == set(map(_where, places)):
                    kept.add(job)
                    continue
                option = running.option
            starts[job] = option, places
        preempted = {self.outer[one]: self.outer[by] for one, by in found.preempted.items()}
        stopped = {
            job: by for job, by in self.evicted.jobs.items() if job not in starts.keys() | kept
        }
        closed = self.left_by(stopped)
        for job, (_, places) in starts.items() if closed else ():
            if not closed.isdisjoint(self._arrivals(job, places)):
                return None
        for job, by in preempted.items():
            if by in self.evicted.jobs and (
                by not in starts or self.left_by([job]).isdisjoint(self._comes(by, starts[by][1]))
            ):
                return None
        return Candidate(starts, found.source, preempted | stopped, found.final)

    def base(self) -> Candidate:
        """Return the plan in which nothing happens but what has to."""
        return Candidate(self.starts, "cells", self.evicted.jobs)

    def left_by(self, jobs: Collection[int]) -> set[int]:
        """Return the hosts on which some jobs of the whole round run."""
        running = (self.whole.jobs[job].running for job in jobs)
        return {self.hosts[task.host] for one in running if one for task in one.tasks}

    def _arrivals(self, job: int, places: tuple[Place, ...]) -> Iterator[int]:
        """Yield the hosts at which a job arrives that is not guaranteed."""
        if job in self.starts:
            return
        running = self.whole.jobs[job].running
        before = self._where(running) if running else set()
        for place in places:
            if _where(place) not in before:
                yield place[2]

    def _comes(self, job: int, places: tuple[Place, ...]) -> set[int]:
        """Return the hosts at which tasks of a group arrive that had none there."""
        running = self.whole.jobs[job].running
        before = {(self.hosts[t.host], t.group) for t in running.tasks} if running else set()
        return {host for group, _, host, _ in places if (host, group) not in before}

    def _where(self, running: Running) -> set[tuple[int, int, int, frozenset[int]]]:
        return {_where((t.group, t.index, self.hosts[t.host], t.gpus)) for t in running.tasks}


def rest_of(
    whole: Round, hosts: Mapping[str, int], hardware: Mapping[str, Hardware], starts: Starts
) -> Rest:
    """Return what is left of a round when guaranteed jobs start as given and the others wait.

    Parameters
    ----------
    whole
        A round in which some tenant owns cells.
    hosts, hardware
        By name, the index of each host in places, and what it has.
    starts
        Guaranteed jobs, by their indices: option and places.
    """
    mine = set(guaranteed(whole))
    names = list(hosts)
    placed = {
        j: (option, tuple(_task(names, place) for place in places))
        for j, (option, places) in starts.items()
    }
    borrowed = borrowed_of(whole)
    evicted = _evicted(whole, hardware, placed, mine, borrowed)
    jobs: list[Job] = []
    outer: list[int] = []
    still: dict[int, tuple[int, ...]] = {}
    for j, job in enumerate(whole.jobs):
        if j in mine and j not in placed and job.running is None:
            continue
        if j in borrowed:
            still[len(jobs)] = borrowed[j]
        if j in placed:
            option, tasks = placed[j]
            running = Running.model_construct(option=option, tasks=tasks, pinned=True)
            jobs.append(job.model_copy(update={"running": running}))
        elif j in evicted.jobs and job.running is not None:
            option = job.running.option
            chosen = job.options[option].model_copy(update={"value": job.value_of(option)})
            if option in still.pop(len(jobs), ()):
                still[len(jobs)] = (0,)
            jobs.append(job.model_copy(update={"options": (chosen,), "running": None}))
        else:
            jobs.append(pinned(job) if j in mine else job)
        outer.append(j)
    tenants = tuple(tenant.model_copy(update={"cells": ()}) for tenant in whole.tenants)
    left = whole.model_copy(update={"jobs": tuple(jobs), "tenants": tenants, "bindings": ()})
    return Rest(whole, hosts, left, tuple(outer), still, starts, evicted)


def _evicted(
    whole: Round,
    hardware: Mapping[str, Hardware],
    placed: Mapping[int, tuple[int, tuple[Task, ...]]],
    mine: set[int],
    borrowed: Mapping[int, tuple[int, ...]],
) -> Evictions:
    jobs = whole.jobs
    running = [(j, one.running) for j, one in enumerate(jobs) if one.running is not None]
    stay = {j for j, one in running if one.pinned or j in mine}
    others = [(j in borrowed and one.option in borrowed[j], j) for j, one in running]
    order = sorted(
        ((late, -jobs[j].priority, j) for late, j in others if j not in stay),
    )
    return evictions(whole, hardware, placed, stay, [j for _, _, j in order])


def _task(names: list[str], place: Place) -> Task:
    group, index, host, gpus = place
    return Task.model_construct(group=group, index=index, host=names[host], gpus=gpus)


def _where(place: Place) -> tuple[int, int, int, frozenset[int]]:
    group, index, host, gpus = place
    return group, index, host, frozenset(gpus)
