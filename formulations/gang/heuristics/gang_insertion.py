"""Gang insertion: waiting jobs start on hosts that other jobs leave by ejection or preemption.

For gangs that fit no host although enough GPUs are free. A gang gets the hosts of one domain from
which the fewest GPUs of one-task jobs have to move. These jobs are relocated, by ejection chains if
need be (`ejection.py`). One that fits nowhere is preempted or waits again, as long as less value
stops than starts. If that fails, whole gangs of lower precedence are preempted, those of least
value per host first. If that fails, too, nothing changes. No insertion exceeds the disruption
budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from math import inf

from placewright.formulations.gang.heuristics.cross_model_ejection import eject_across_models
from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.heuristics.insertion_sites import HostCounts, InsertionSites
from placewright.formulations.gang.heuristics.quota_repair import Excess, QuotaExcess, accounts_of
from placewright.formulations.gang.placement.disruption_budget import BudgetGuard
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.greedy import greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobClass, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU


def insert_gangs(
    session: Session, placement: Placement, is_profitable: Callable[[Choice], bool] = lambda _: True
) -> None:
    """Insert waiting jobs of one group in the order of value per GPU, then run the greedy.

    Options that are not profitable are not inserted.
    """
    problem = placement.problem
    free = WHOLE_GPU * int(placement.whole[problem.open].sum())
    candidates = [
        (c, o)
        for c, o in greedy_order(problem)
        if placement.waiting[c]
        and _insertable(problem, problem.classes[c], o, free)
        and is_profitable(problem.classes[c].choices[o])
    ]
    if not candidates:
        return
    insertion = _GangInsertion(placement)
    for c, o in candidates:
        while placement.waiting[c] and not session.expired() and insertion.start(c, o):
            pass
    fill_by_policy(placement)


def insert_counts(
    session: Session, placement: Placement, starts: Mapping[tuple[int, int], int]
) -> None:
    """Insert so many jobs of each class and choice, the largest first, then run the greedy.

    Unlike displacement, which looks for victims, it first asks whether running jobs can move.
    """
    problem = placement.problem
    free = WHOLE_GPU * int(placement.whole[problem.open].sum())
    insertion = _GangInsertion(placement)

    def size(start: tuple[int, int]) -> int:
        return problem.demand_of(problem.classes[start[0]].choices[start[1]], -1)

    chosen = [(c, o) for c, o in starts if _insertable(problem, problem.classes[c], o, free)]
    for c, o in sorted(chosen, key=size, reverse=True):
        for _ in range(min(starts[c, o], placement.waiting[c])):
            if session.expired() or not insertion.start(c, o):
                break
    fill_by_policy(placement)


def _insertable(problem: Problem, job_class: JobClass, option: int, free: int) -> bool:
    """Whether a job of one group with whole GPUs could be inserted by moving or stopping others."""
    choice = job_class.choices[option]
    if job_class.running or len(choice.groups) > 1 or choice.is_tied:
        return False
    group = choice.groups[0]
    enough = free >= group.milli_gpu or problem.shape_rank[group.shape] > 0
    return bool(enough and problem.shape_gpu[group.shape] >= WHOLE_GPU)


class _GangInsertion:
    """Insertion of one job after the other; failed requests are not repeated."""

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.moves = EjectionMoves(placement)
        self._failed: dict[tuple[object, ...], int] = {}
        self.sites = InsertionSites(self.moves)
        self._guard = BudgetGuard(placement)

    def start(self, c: int, o: int) -> bool:
        """Insert a job of a class; return whether it started.

        A request that failed is not tried again for a job worth no more.
        """
        job_class, choice = self.problem.classes[c], self.problem.classes[c].choices[o]
        excess = self.placement.quota_excess(job_class.accounts, choice)
        request = choice.groups[0], *excess.items()
        if self._failed.get(request, -1) >= choice.value:
            return False
        started = self._start(c, o, excess)
        if started and not self._guard.holds():
            self.moves.rollback()
            started = False
        if started:
            self._failed.clear()
        else:
            self._failed[request] = choice.value
        return started

    def _start(self, c: int, o: int, excess: Excess) -> bool:
        placement, group = self.placement, self.problem.classes[c].choices[o].groups[0]
        rank = int(self.problem.shape_rank[group.shape])
        free = WHOLE_GPU * int(placement.whole[self.problem.open].sum())
        if not rank and free < group.milli_gpu:
            return False
        self.moves.commit()
        if group.count == 1:
            host = None if excess else self.moves.find_host(group.shape)
            if host is not None:
                self.moves.start(c, o, [(host, 1)])
                return True
            if not rank or self.moves.gpus_of(group.shape) == 1:
                return bool(rank) and self._displace(c, o, excess)
        before, over = placement.value, accounts_of(excess)
        sites = ((hosts, ()) for hosts in self.sites.by_moving_jobs(group, over))
        for hosts, stopped_gangs in chain(sites, self.sites.by_stopping_gangs(group, over)):
            inserted = self._insert_on(c, o, hosts, stopped_gangs, excess)
            if inserted and placement.value > before and self._guard.holds():
                return True
            self.moves.rollback()
        return group.count == 1 and self._displace(c, o, excess)

    def _displace(self, c: int, o: int, excess: Excess) -> bool:
        """Insert a one-task job where others worth less may stop; return whether it started."""
        moves, job_class = self.moves, self.problem.classes[c]
        start, worth = JobPlacement(c, o, ()), job_class.choices[o].value
        displaced = moves.displace(start, worth, accounts_of(excess))
        if displaced is None and not excess:
            displaced = eject_across_models(moves, start, worth)
        remaining = QuotaExcess(self.problem, excess)
        for start in displaced or ():
            remaining.subtract(start)
        if displaced is None or remaining or not self._may_all_leave(displaced):
            moves.rollback()
            return False
        return True

    def _may_all_leave(self, displaced: Iterable[JobPlacement]) -> bool:
        """Whether all these jobs may be preempted for the tasks that have arrived."""
        return all(
            start.job == ANY_JOB or self.placement.may_be_preempted(start.job)
            for start in displaced
        )

    def _insert_on(
        self,
        c: int,
        o: int,
        hosts: HostCounts,
        stopped_gangs: Iterable[int],
        excess: Excess,
    ) -> bool:
        """Start a job on hosts whose jobs are relocated or stopped; return whether that is lawful.

        `excess` is what would be held beyond quotas and caps.
        """
        moves, problem = self.moves, self.problem
        shape = problem.classes[c].choices[o].groups[0].shape
        stopped = [moves.remove(moves.current_number(number)) for number in stopped_gangs]
        moving = [
            moves.remove(number)
            for host, count in hosts
            for number in moves.jobs_to_move(shape, host, count)
        ]
        if not all(moves.fits(shape, host, count) for host, count in hosts):
            return False
        moves.start(c, o, hosts)
        if not self.placement.pools.is_within([host for host, _ in hosts]):
            return False
        # Jobs that fit few hosts are relocated first.
        able = problem.shape_hosts.sum(axis=1)
        moving.sort(key=lambda s: (able[moves.shape_of(s)], -moves.gpus_of(moves.shape_of(s))))
        remaining = QuotaExcess(problem, excess)
        for start in stopped:
            remaining.subtract(start)
        others = []
        for start in moving:
            if remaining and self._counts_in(start, remaining) and self._may_wait(start, shape):
                remaining.subtract(start)
                stopped.append(start)
            else:
                others.append(start)
        for start in others:
            displaced = moves.displace(start, inf, remaining.accounts) if remaining else None
            if displaced is None and moves.reinsert(start):
                continue
            if displaced is None:
                waits = self._may_wait(start, shape)
                displaced = moves.displace(start, moves.value_of(start) if waits else inf)
                if displaced is None and not waits:
                    return False
            for each in [start] if displaced is None else displaced:
                remaining.subtract(each)
                stopped.append(each)
        stopped += remaining.stop_jobs(moves)
        return not remaining and self._may_all_leave(stopped)

    def _counts_in(self, start: JobPlacement, excess: QuotaExcess) -> bool:
        """Whether a job counts in a quota or cap that is exceeded."""
        return not excess.accounts.isdisjoint(self.problem.classes[start.job_class].accounts)

    def _may_wait(self, start: JobPlacement, shape: int) -> bool:
        """Whether a job may wait or be preempted for one of a shape that has arrived."""
        if start.job == ANY_JOB:
            return True
        over = self.problem.over(shape, self.problem.running[start.job])
        return bool(over) and self.moves.preempted_lawfully(start.job)
