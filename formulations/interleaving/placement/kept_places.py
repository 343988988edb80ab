"""Kept places: which job group keeps the place of its running members, as long as it fits there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from placewright.formulations.interleaving.placement.usage_in_place import (
    HostUsage,
    places_of,
    running_of,
)
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.merged_groups import merged_option
from placewright.formulations.plan_messages import Group
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option


def keep_places(problem: Interleaving, job_groups: Sequence[Group]) -> list[int | None]:
    """Return for each job group its anchor, a running member whose place it keeps; or None.

    Where most would be lost by moving comes first. A job group that others join stays only where
    they may arrive, and where all its members fit beside those who stay elsewhere.
    """
    anchors: list[int | None] = [None] * len(job_groups)
    kept: set[int] = set()
    for _, group_number, running_job in sorted(_claims(problem, job_groups)):
        place = problem.colocated[running_job][0]
        if anchors[group_number] is None and place not in kept:
            anchors[group_number] = running_job
            kept.add(place)
    usage = HostUsage(problem)
    for j in problem.stays:
        if problem.colocated[j][0] == j:
            usage.add(_option(problem, problem.colocated[j]), places_of(problem, j))
    for number, member in enumerate(anchors):
        if member is not None:
            in_place = members_in_place(problem, job_groups[number], member)
            usage.add(_option(problem, in_place), places_of(problem, member))
    for number, member in enumerate(anchors):
        if member is None or set(job_groups[number].members) <= set(problem.colocated[member]):
            continue
        places = places_of(problem, member)
        usage.add(
            _option(problem, members_in_place(problem, job_groups[number], member)), places, -1
        )
        after = _option(problem, job_groups[number].members)
        required = problem.round.jobs[member].options[0].required
        if usage.admits(required, after, places):
            usage.add(after, places)
        else:
            anchors[number] = None
    return anchors


def members_in_place(problem: Interleaving, job_group: Group, member: int) -> tuple[int, ...]:
    """Return the members of a job group that run where this one does."""
    in_place = problem.colocated[member]
    return tuple(j for j in job_group.members if j in in_place)


def stop_cost(problem: Interleaving, job: Job, given: int | None) -> int:
    """Return the milli-GPU-seconds lost by stopping a running job; `given` overrides them."""
    if given is not None:
        return given
    running = running_of(job)
    lost_s = running.unsaved_s(problem.round.now) + running.restart_s
    return job.options[running.option].milli_gpu * lost_s


def _claims(problem: Interleaving, job_groups: Sequence[Group]) -> Iterator[tuple[int, int, int]]:
    """Yield the negative loss of a job group by leaving a place, the group, a member there."""
    for number, job_group in enumerate(job_groups):
        cost: defaultdict[int, int] = defaultdict(int)
        for j in job_group.members:
            if j in problem.colocated:
                job = problem.round.jobs[j]
                moved = job.options[running_of(job).option].milli_gpu
                lost = stop_cost(problem, job, running_of(job).migrate_cost)
                cost[problem.colocated[j][0]] += moved + lost
        for place, lost in cost.items():
            first = next(j for j in job_group.members if j in problem.colocated[place])
            yield -lost, number, first


def _option(problem: Interleaving, members: Sequence[int]) -> Option:
    return merged_option([problem.round.jobs[j] for j in members], problem.sharing)
