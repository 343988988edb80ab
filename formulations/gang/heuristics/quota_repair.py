"""What a job that comes would hold beyond its tenant's quota, and who stops to give that back.

A stopped job needs one of higher precedence that comes to where it ran. So those of the tenant stop
first who ran where others have come anyway; then others of any tenant move in their places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from placewright.formulations.gang.heuristics.ejection import Shifts
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.base import WHOLE_GPU


class Owing:
    """What is owed yet of each resource; `held` are amounts held beyond the quota."""

    def __init__(self, problem: Problem, tenant: int, held: dict[int, int]) -> None:
        self.problem, self.tenant = problem, tenant
        self._held = dict(held)

    def __bool__(self) -> bool:
        """Whether anything is owed."""
        return any(amount > 0 for amount in self._held.values())

    def give_back(self, start: JobPlacement) -> None:
        """Take off what a job held that has stopped, if it is the tenant's."""
        job_class = self.problem.classes[start.job_class]
        choice: Choice = job_class.choices[start.choice]
        for resource in self._held if job_class.tenant == self.tenant else ():
            self._held[resource] -= self.problem.demand_of(choice, resource)

    def collect(self, shifts: Shifts) -> Iterator[JobPlacement]:
        """Stop jobs of the tenant wherever they are as long as something is owed; yield them."""
        # For whoever moves more than one may stop, but not all that they leave is of use.
        for stops in (_at_once, _relieved, _at_once):
            for start in stops(shifts, self.tenant) if self else ():
                self.give_back(start)
                yield start
                if not self:
                    return


def _at_once(shifts: Shifts, tenant: int) -> Iterator[JobPlacement]:
    """Stop pending jobs of a tenant, and such as ran where others of higher precedence have come.

    Those of least worth per GPU come first.
    """
    found = [
        (mover.dear, mover.number)
        for mover in shifts.movers
        if mover.tenant == tenant and (mover.job == ANY_JOB or shifts.gave_way(mover.job))
    ]
    for _, number in sorted(found):
        yield shifts.take_off(number)


def _relieved(shifts: Shifts, tenant: int) -> Iterator[JobPlacement]:
    """Stop running jobs of a tenant, each as another one moves to where it ran.

    Of the other one's place on its host anybody may make use. Those of least worth per GPU stop
    first, for the largest that there is room for.
    """
    placement = shifts.placement
    mine = list(_gangs_of(shifts, tenant))
    others: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for mover in shifts.movers:
        if mover.job == ANY_JOB or mover.moved:
            continue
        if mover.tenant == tenant:
            mine.append((mover.dear, mover.job))
        elif mover.level:
            others[-mover.held, mover.level, mover.shape].append(mover.number)
    for _, job in sorted(mine):
        relief = _relief(shifts, job, sorted(others)) if placement.may_be_preempted(job) else None
        if relief is not None:
            kind, host = relief
            other = others[kind].pop()
            if not others[kind]:
                del others[kind]
            stopped = shifts.take_off(placement.start_of(job))
            shifts.put(shifts.take_off(other), host)
            yield stopped


def _gangs_of(shifts: Shifts, tenant: int) -> Iterator[tuple[float, int]]:
    """Yield the running jobs of several tasks of a tenant, with their worth per GPU."""
    classes, placement = shifts.problem.classes, shifts.placement
    for job, running in shifts.problem.running.items():
        mine = classes[running.job_class]
        choice = mine.choices[0]
        if mine.tenant == tenant and not choice.is_single_task and placement.in_place(job):
            milli = sum(group.milli_gpu for group in choice.groups)
            if milli:
                yield choice.value * WHOLE_GPU / milli, job


def _relief(
    shifts: Shifts, job: int, others: Iterable[tuple[int, int, int]]
) -> tuple[tuple[int, int, int], int] | None:
    """Return the first of `others` that may move to where a job runs, if this stops, and a host.

    They are GPUs below nothing, levels and shapes of jobs.
    """
    problem, placement = shifts.problem, shifts.placement
    running = problem.running[job]
    groups = problem.classes[running.job_class].choices[0].groups
    left = {host: groups[group].shape for group, _, host, _ in running.places}
    for kind in others:
        _, level, shape = kind
        may = shifts.may_come(shape)
        for host, leaves in left.items() if level > running.level else ():
            gpus = placement.whole[host] + shifts.size(leaves)
            rest = placement.free[host] + problem.shape_demand[leaves]
            enough = gpus >= shifts.size(shape) and (rest >= problem.shape_demand[shape]).all()
            if may[host] and enough:
                return kind, host
    return None
