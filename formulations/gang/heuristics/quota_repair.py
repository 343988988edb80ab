"""Quota repair: which jobs of a tenant stop so that a new one keeps within its quotas.

Preempting a job requires one of higher precedence that comes to where it ran. So those of the
tenant stop first whose hosts others have taken anyway; then movable jobs of any tenant take their
places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from placewright.formulations.gang.heuristics.ejection import EjectionMoves
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU


class QuotaExcess:
    """Amount of each resource by which a tenant exceeds its quotas; less as its jobs stop."""

    def __init__(self, problem: Problem, tenant: int, excess: dict[int, int]) -> None:
        self.problem, self.tenant = problem, tenant
        self._excess = dict(excess)

    def __bool__(self) -> bool:
        """Whether some quota is still exceeded."""
        return any(amount > 0 for amount in self._excess.values())

    def subtract(self, start: JobPlacement) -> None:
        """Subtract the demand of a stopped job, if it belongs to the tenant."""
        job_class = self.problem.classes[start.job_class]
        choice: Choice = job_class.choices[start.choice]
        for resource in self._excess if job_class.tenant == self.tenant else ():
            self._excess[resource] -= self.problem.demand_of(choice, resource)

    def stop_jobs(self, moves: EjectionMoves) -> Iterator[JobPlacement]:
        """Stop jobs of the tenant until no quota is exceeded; yield them."""
        # More than one may stop for a job that moves, without need for all their GPUs.
        for stops in (_stop_preemptable, _stop_replaced, _stop_preemptable):
            for start in stops(moves, self.tenant) if self else ():
                self.subtract(start)
                yield start
                if not self:
                    return


def _stop_preemptable(moves: EjectionMoves, tenant: int) -> Iterator[JobPlacement]:
    """Stop pending jobs of a tenant, and running ones whose hosts higher precedence has taken.

    Least value per GPU first.
    """
    found = [
        (mover.value_per_gpu, mover.number)
        for mover in moves.movable
        if mover.tenant == tenant and (mover.job == ANY_JOB or moves.preempted_lawfully(mover.job))
    ]
    for _, number in sorted(found):
        yield moves.remove(number)


def _stop_replaced(moves: EjectionMoves, tenant: int) -> Iterator[JobPlacement]:
    """Stop running jobs of a tenant, each preempted by a movable job that takes its place.

    Least value per GPU first; the largest movable job that fits takes the place.
    """
    placement = moves.placement
    candidates = list(_running_gangs(moves, tenant))
    others: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for mover in moves.movable:
        if mover.job == ANY_JOB or mover.moved:
            continue
        if mover.tenant == tenant:
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


def _running_gangs(moves: EjectionMoves, tenant: int) -> Iterator[tuple[float, int]]:
    """Yield the running jobs of several tasks of a tenant, with their worth per GPU."""
    classes, placement = moves.problem.classes, moves.placement
    for job, running in moves.problem.running.items():
        candidates = classes[running.job_class]
        choice = candidates.choices[0]
        if candidates.tenant == tenant and not choice.is_single_task and placement.in_place(job):
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
