"""Gang insertion: waiting jobs start on hosts that other jobs leave by ejection or preemption."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import TypeAlias

import numpy as np

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.moves import Accounts, EjectionMoves
from placewright.formulations.gang.placement.disruption_budget import BudgetGuard
from placewright.formulations.gang.placement.greedy import fill_by_policy, greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Choice,
    Group,
    JobClass,
    JobPlacement,
)
from placewright.formulations.gang.problem.limits import QuotaKey
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

# Quota repair: which jobs of an account stop so that a new one keeps within its quotas and caps.
#
# Preempting a job requires one of higher precedence that comes to where it ran. So those of the
# account stop first whose hosts others have taken anyway; then other movable jobs take their
# places.


Excess: TypeAlias = Mapping[QuotaKey, int]
"""What is held beyond quotas and caps."""


def accounts_of(excess: Excess) -> Accounts:
    """Return the accounts that are exceeded."""
    return frozenset(account for account, _ in excess)


class QuotaExcess:
    """What is held beyond quotas and caps; less as jobs stop that count in them."""

    def __init__(self, problem: Problem, excess: Excess) -> None:
        self.problem, self.accounts = problem, accounts_of(excess)
        self._excess = dict(excess)

    def __bool__(self) -> bool:
        """Whether some quota is still exceeded."""
        return any(amount > 0 for amount in self._excess.values())

    def subtract(self, start: JobPlacement) -> None:
        """Subtract the demand of a stopped job where it counts."""
        job_class = self.problem.classes[start.job_class]
        choice: Choice = job_class.choices[start.choice]
        for key in self._excess:
            if key[0] in job_class.accounts:
                self._excess[key] -= self.problem.demand_of(choice, key[1])

    def stop_jobs(self, moves: EjectionMoves) -> Iterator[JobPlacement]:
        """Stop jobs of the accounts until none is exceeded; yield them."""
        # More than one may stop for a job that moves, without need for all their GPUs.
        for stops in (_stop_preemptable, _stop_replaced, _stop_preemptable):
            for start in stops(moves, self.accounts) if self else ():
                self.subtract(start)
                yield start
                if not self:
                    return


def _stop_preemptable(moves: EjectionMoves, accounts: Accounts) -> Iterator[JobPlacement]:
    """Stop pending jobs of some accounts, and running ones whose hosts higher precedence has taken.

    Least value per GPU first.
    """
    found = [
        (mover.value_per_gpu, mover.number)
        for mover in moves.movable
        if not accounts.isdisjoint(mover.accounts)
        and (mover.job == ANY_JOB or moves.preempted_lawfully(mover.job))
    ]
    for _, number in sorted(found):
        yield moves.remove(number)


def _stop_replaced(moves: EjectionMoves, accounts: Accounts) -> Iterator[JobPlacement]:
    """Stop running jobs of some accounts, each preempted by a movable job that takes its place.

    Least value per GPU first; the largest movable job that fits takes the place.
    """
    placement = moves.placement
    candidates = list(_running_gangs(moves, accounts))
    others: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for mover in moves.movable:
        if mover.job == ANY_JOB or mover.moved:
            continue
        if not accounts.isdisjoint(mover.accounts):
            candidates.append((mover.value_per_gpu, mover.job))
        elif mover.level:
            others[-mover.gpus, mover.level, mover.shape].append(mover.number)
    for _, job in sorted(candidates):
        replacement = (
            _replacement_for(moves, job, sorted(others))
            if placement.may_be_preempted(job)
            else None
        )
        if replacement is not None:
            key, host = replacement
            other = others[key].pop()
            if not others[key]:
                del others[key]
            stopped = moves.remove(placement.start_of(job))
            moves.insert(moves.remove(other), host)
            yield stopped


def _running_gangs(moves: EjectionMoves, accounts: Accounts) -> Iterator[tuple[float, int]]:
    """Yield the running jobs of several tasks of some accounts, with their worth per GPU."""
    classes, placement = moves.problem.classes, moves.placement
    for job, running in moves.problem.running.items():
        mine = classes[running.job_class]
        choice, counts = mine.choices[0], not accounts.isdisjoint(mine.accounts)
        if counts and not choice.is_single_task and placement.in_place(job):
            milli = sum(group.milli_gpu for group in choice.groups)
            if milli:
                yield choice.value * WHOLE_GPU / milli, job


def _replacement_for(
    moves: EjectionMoves, job: int, others: Iterable[tuple[int, int, int]]
) -> tuple[tuple[int, int, int], int] | None:
    """Return the first key of `others` that may take the place of a running job, and the host.

    A key is (GPUs as a negative number, level, shape) of movable jobs.
    """
    problem, placement = moves.problem, moves.placement
    running = problem.running[job]
    groups = problem.classes[running.job_class].choices[0].groups
    left = {host: groups[group].shape for group, _, host, _ in running.places}
    for key in others:
        _, level, shape = key
        may = moves.eligible_hosts(shape)
        for host, leaves in left.items() if level > running.level else ():
            gpus = placement.whole[host] + moves.gpus_of(leaves)
            residual = placement.free[host] + problem.shape_demand[leaves]
            enough = (
                gpus >= moves.gpus_of(shape) and (residual >= problem.shape_demand[shape]).all()
            )
            if may[host] and enough:
                return key, host
    return None


# For gangs that fit no host although enough GPUs are free. A gang gets the hosts of one domain
# from which the fewest GPUs of one-task jobs have to move. These jobs are relocated, by ejection
# chains if need be (`moves.py`). One that fits nowhere is preempted or waits again, as long as
# less value stops than starts. If that fails, nothing changes. No insertion exceeds the disruption
# budget.


HostCounts: TypeAlias = list[tuple[int, int]]
"""Hosts, each with a number of tasks."""


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
        before = placement.value
        for hosts in self._sites(group, accounts_of(excess)):
            inserted = self._insert_on(c, o, hosts, excess)
            if inserted and placement.value > before and self._guard.holds():
                return True
            self.moves.rollback()
        return group.count == 1 and self._displace(c, o, excess)

    def _displace(self, c: int, o: int, excess: Excess) -> bool:
        """Insert a one-task job where others worth less may stop; return whether it started."""
        moves, job_class = self.moves, self.problem.classes[c]
        start, worth = JobPlacement(c, o, ()), job_class.choices[o].value
        displaced = moves.displace(start, worth, accounts_of(excess))
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

    def _sites(self, group: Group, accounts: Accounts) -> Iterator[HostCounts]:
        """Yield hosts of one domain for all tasks, those from which the fewest GPUs move first.

        `accounts` are exceeded: GPUs of their jobs do not count, as these have to stop anyway.
        """
        size, whole = self.moves.gpus_of(group.shape), self.placement.whole
        each = np.minimum((whole + self.moves.movable.gpus_on_host) // size, group.count)
        each[~self.moves.eligible_hosts(group.shape)] = 0
        cost = np.maximum(0, each * size - whole)
        if accounts:
            cost -= self.moves.preemptable_gpus(accounts, group.shape)
        hosts = np.flatnonzero(each)
        hosts = hosts[np.argsort(cost[hosts] / each[hosts], kind="stable")]
        domains = [hosts]
        if group.required != NO_LEVEL:
            domain = self.problem.cluster.domain[group.required][hosts]
            order = np.argsort(domain, kind="stable")
            domains = np.split(hosts[order], np.flatnonzero(np.diff(domain[order])) + 1)
        sites = []
        for in_domain in domains:
            tasks = np.cumsum(each[in_domain])
            if len(in_domain) and tasks[-1] >= group.count:
                chosen = in_domain[: int(np.searchsorted(tasks, group.count)) + 1]
                count = each[chosen].copy()
                count[-1] -= tasks[len(chosen) - 1] - group.count
                sites.append((int(cost[chosen].sum()), chosen.tolist(), count.tolist()))
        most = parameters.PARAMETERS.insertion.max_insertion_domains
        for _, chosen, count in sorted(sites, key=lambda site: site[0])[:most]:
            yield list(zip(chosen, count, strict=True))

    def _insert_on(self, c: int, o: int, hosts: HostCounts, excess: Excess) -> bool:
        """Start a job on hosts whose jobs are relocated or stopped; return whether that is lawful.

        `excess` is what would be held beyond quotas and caps.
        """
        moves, problem = self.moves, self.problem
        shape = problem.classes[c].choices[o].groups[0].shape
        stopped: list[JobPlacement] = []
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
