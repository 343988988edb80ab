"""Quota repair: which jobs of an account stop so that a new one keeps within its quotas and caps.

Preempting a job requires one of higher precedence that comes to where it ran. So those of the
account stop first whose hosts others have taken anyway; then other movable jobs take their places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.heuristics.movable_jobs import Accounts
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey
from placewright.topology.units import WHOLE_GPU

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
