"""Start jobs that lack whole hosts, not GPUs: others move off the hosts that they need.

A waiting gang is given the hosts of one domain from which the fewest GPUs of one-task jobs have to
move. What was there goes wherever there is room, or others are worth less (shifting.py). Who finds
none stops for higher precedence, or waits again, as long as all that is worth less than what
starts. If that is no way, whole gangs of lower precedence make way, those that are worth least;
else all stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from math import inf

from placewright.formulations.gang.heuristics.ejection import Shifts
from placewright.formulations.gang.heuristics.insertion_sites import NOBODY, Hosts, Sites
from placewright.formulations.gang.heuristics.movable_jobs import ANYBODY
from placewright.formulations.gang.heuristics.quota_repair import Owing
from placewright.formulations.gang.heuristics.relay import relay
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.greedy import greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobClass, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.documents.base import WHOLE_GPU


def clear(
    session: Session, placement: Placement, pays: Callable[[Choice], bool] = lambda _: True
) -> None:
    """Start waiting jobs of one group, the most valuable per GPU first, then fill what is free.

    Options that do not pay, others make no room for.
    """
    problem = placement.problem
    free = WHOLE_GPU * int(placement.whole[problem.open].sum())
    wanted = [
        (c, o)
        for c, o in greedy_order(problem)
        if placement.waiting[c]
        and _clears(problem, problem.classes[c], o, free)
        and pays(problem.classes[c].choices[o])
    ]
    if not wanted:
        return
    clearing = _Clearing(placement)
    for c, o in wanted:
        while placement.waiting[c] and not session.expired() and clearing.start(c, o):
            pass
    fill_by_policy(placement)


def _clears(problem: Problem, job_class: JobClass, option: int, free: int) -> bool:
    """Whether a job could come to hosts where others are; where nothing is free, others stop."""
    choice = job_class.choices[option]
    if job_class.running or len(choice.groups) > 1 or choice.is_tied:
        return False
    group = choice.groups[0]
    enough = free >= group.milli_gpu or problem.shape_rank[group.shape] > 0
    return bool(enough and problem.shape_gpu[group.shape] >= WHOLE_GPU)


class _Clearing:
    """Jobs that come to hosts where others are."""

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.shifts = Shifts(placement)
        self._failed: dict[tuple[object, ...], int] = {}
        self.sites = Sites(self.shifts)

    def start(self, c: int, o: int) -> bool:
        """Start a job of a class if others make room for it; return whether so.

        Where one found none, none that asks as much and is worth no more finds any either.
        """
        job_class, choice = self.problem.classes[c], self.problem.classes[c].choices[o]
        over = self.placement.quota_excess(job_class.tenant, choice)
        owner = job_class.tenant if over else NOBODY
        asked = choice.groups[0], owner, *over.items()
        if self._failed.get(asked, -1) >= choice.value:
            return False
        started = self._start(c, o, over)
        if started:
            self._failed.clear()
        else:
            self._failed[asked] = choice.value
        return started

    def _start(self, c: int, o: int, over: dict[int, int]) -> bool:
        placement, group = self.placement, self.problem.classes[c].choices[o].groups[0]
        rank = int(self.problem.shape_rank[group.shape])
        free = WHOLE_GPU * int(placement.whole[self.problem.open].sum())
        if not rank and free < group.milli_gpu:
            return False
        self.shifts.settle()
        if group.count == 1:
            host = None if over else self.shifts.room(group.shape)
            if host is not None:
                self.shifts.start(c, o, [(host, 1)])
                return True
            if not rank or self.shifts.size(group.shape) == 1:
                return bool(rank) and self._displace(c, o, over)
        before, tenant = placement.value, self.problem.classes[c].tenant if over else NOBODY
        sites = ((hosts, ()) for hosts in self.sites.cleared(group, tenant))
        for hosts, ousted in chain(sites, self.sites.ousted(group, rank, tenant)):
            if self._come(c, o, hosts, ousted, over) and placement.value > before:
                return True
            self.shifts.back()
        return group.count == 1 and self._displace(c, o, over)

    def _displace(self, c: int, o: int, over: dict[int, int]) -> bool:
        """Start a job of one task where others stop that are worth less; whether that is lawful."""
        shifts, job_class = self.shifts, self.problem.classes[c]
        start, worth = JobPlacement(c, o, ()), job_class.choices[o].value
        stopped = shifts.displace(start, worth, job_class.tenant if over else ANYBODY)
        if stopped is None and not over:
            stopped = relay(shifts, start, worth)
        owing = Owing(self.problem, job_class.tenant, over)
        for start in stopped or ():
            owing.give_back(start)
        if stopped is None or owing or not self._lawful(stopped):
            shifts.back()
            return False
        return True

    def _lawful(self, stopped: Iterable[JobPlacement]) -> bool:
        """Whether all these jobs may stop, as things are."""
        return all(
            start.job == ANY_JOB or self.placement.may_be_preempted(start.job) for start in stopped
        )

    def _come(
        self, c: int, o: int, hosts: Hosts, ousted: Iterable[int], over: dict[int, int]
    ) -> bool:
        """Start a job on some hosts and move those that are in its way; whether that is lawful.

        `over` is what it would hold beyond its tenant's quota if none of its jobs stops.
        """
        shifts, problem = self.shifts, self.problem
        shape = problem.classes[c].choices[o].groups[0].shape
        left = [shifts.take_off(shifts.latest(number)) for number in ousted]
        moving = [
            shifts.take_off(number)
            for host, many in hosts
            for number in shifts.in_the_way(shape, host, many)
        ]
        if not all(shifts.holds(shape, host, many) for host, many in hosts):
            return False
        shifts.start(c, o, hosts)
        # Those first that may be on few hosts.
        able = problem.shape_hosts.sum(axis=1)
        moving.sort(key=lambda s: (able[shifts.shape_of(s)], -shifts.size(shifts.shape_of(s))))
        rank, tenant = int(problem.shape_rank[shape]), problem.classes[c].tenant
        owing = Owing(problem, tenant, over)
        for start in left:
            owing.give_back(start)
        others = []
        for start in moving:
            if owing and self._own(start, tenant) and self._waits(start, rank):
                owing.give_back(start)
                left.append(start)
            else:
                others.append(start)
        for start in others:
            stopped = shifts.displace(start, inf, tenant) if owing else None
            if stopped is None and shifts.place(start):
                continue
            if stopped is None:
                waits = self._waits(start, rank)
                stopped = shifts.displace(start, shifts.worth(start) if waits else inf)
                if stopped is None and not waits:
                    return False
            for each in [start] if stopped is None else stopped:
                owing.give_back(each)
                left.append(each)
        left += owing.collect(shifts)
        return not owing and self._lawful(left)

    def _own(self, start: JobPlacement, tenant: int) -> bool:
        """Whether a job is a tenant's."""
        return self.problem.classes[start.job_class].tenant == tenant

    def _waits(self, start: JobPlacement, rank: int) -> bool:
        """Whether a job may wait, or stop, for one of a rank that has come."""
        if start.job == ANY_JOB:
            return True
        return self.problem.running[start.job].level < rank and self.shifts.gave_way(start.job)
