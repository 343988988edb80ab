"""GPUs that several jobs share in turn: who ran together, and what a group holds together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.sharing import Sharing
from placewright.instances.verify.reading import Group, Placed, PlacedTask, Reading
from placewright.topology.units import WHOLE_GPU

Place: TypeAlias = tuple[int, int, str, frozenset[int]]


def places(tasks: Iterable[Task]) -> frozenset[Place]:
    """Return where each task is."""
    return frozenset((t.group, t.index, t.host, frozenset(t.gpus)) for t in tasks)


def no_member(job: Job) -> str | None:
    """Return why a job cannot be in any group, None if it can."""
    if job.profile is None:
        return "has no profile; expected jobs with one"
    if job.anti_affinity is not None:
        return "keeps out of others' domains (anti_affinity); expected none that does"
    for group in job.options[0].groups:
        if group.mig is not None or group.gpu % WHOLE_GPU:
            return "asks for parts of GPUs; expected jobs of whole GPUs"
    return None


def ran_together(reading: Reading) -> dict[frozenset[Place], set[str]]:
    """Return the names of the jobs of each group that ran before the round, by their places.

    Shares of a GPU lie beside each other and are no group.
    """
    found: defaultdict[frozenset[Place], set[str]] = defaultdict(set)
    for name, running in reading.running.items():
        if running.option == 0 and no_member(reading.jobs[name]) is None:
            found[places(running.tasks)].add(name)
    return {where: names for where, names in found.items() if len(names) > 1}


def size_of(job: Job, sharing: Sharing) -> int:
    """Return what a job takes in a group of the memory of each of its GPUs, in MiB.

    The smallest value of its `memory` series that `percentile` % of it do not exceed; without a
    series the most `gpu_memory` of the task groups of its first option.
    """
    series = () if job.profile is None else job.profile.memory
    if not series:
        return max(group.gpu_memory for group in job.options[0].groups)
    ordered = sorted(series)
    covered = sharing.percentile * len(ordered)
    return next(size for i, size in enumerate(ordered, start=1) if 100 * i >= covered)


def held(reading: Reading, groups: Iterable[Group]) -> tuple[PlacedTask, ...]:
    """Return all tasks, those of groups with their marginal usage beside the members before them.

    Where members have a task in the same place, the first one holds its GPUs and the most CPU that
    one of them asks, and each holds all else that it asks; in a group the percentile of a series is
    what a job takes of the memory of its GPUs.
    """
    of_decision = {
        member.placed.position: (number, member.placed)
        for number, group in enumerate(groups)
        for member in group.members
    }
    most: dict[tuple[int, Place], int] = {}
    for number, placed in of_decision.values():
        for task in placed.tasks:
            key = (number, _place(task))
            most[key] = max(most.get(key, 0), task.group.cpu)
    first: set[tuple[int, Place]] = set()
    found_tasks: list[PlacedTask] = []
    for task in reading.placed_tasks():
        found = of_decision.get(task.decision)
        if found is not None:
            key = (found[0], _place(task))
            update: dict[str, int] = {"cpu": 0, "gpu": 0}
            if key not in first:
                first.add(key)
                update = {"cpu": most[key]}
            size = _size(reading, found[1], task.group)
            group = task.group.model_copy(update={**update, "gpu_memory": size})
            found_tasks.append(task._replace(group=group))
        else:
            found_tasks.append(task)
    return tuple(found_tasks)


def _place(placed: PlacedTask) -> Place:
    task = placed.task
    return task.group, task.index, placed.host.name, frozenset(task.gpus)


def _size(reading: Reading, placed: Placed, group: TaskGroup) -> int:
    profile = placed.job.profile
    if profile is None or not profile.memory or not group.gpu:
        return group.gpu_memory
    return size_of(placed.job, reading.round.sharing)
