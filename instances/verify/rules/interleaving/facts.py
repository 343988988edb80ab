"""Groups of a plan that share GPUs in turn, and the resources that they hold together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard

from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import DecisionKind, Task
from placewright.instances.verify.reading import Group, Member, Placed, PlacedTask, Reading
from placewright.instances.verify.rules.interleaving.conflicts import size_of

KIND = "groups"

Place: TypeAlias = tuple[int, int, str, frozenset[int]]


def with_groups(reading: Reading) -> Reading:
    """Return a reading with the groups of its plan, if there are some.

    Entries that make no sense are left out, and so are members that are not placed, have no
    profile, or are in a group already; the rules of the section report them.
    """
    groups = tuple(_groups(reading))
    return replace(reading, groups=groups, held=_held(reading, groups)) if groups else reading


def entries(reading: Reading) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield the entries of the first section `groups` that are mappings, and where they stand."""
    for index, section in enumerate(reading.plan.sections):
        if section.get("kind") == KIND:
            for number, entry in enumerate(_list(section.get("groups"))):
                if isinstance(entry, Mapping):
                    yield ("sections", index, "groups", number), entry
            return


def members(entry: Mapping[str, Any]) -> Iterator[tuple[int, str, int]]:
    """Yield number, job and offset of the members of an entry that have both."""
    for number, member in enumerate(_list(entry.get("members"))):
        if isinstance(member, Mapping):
            job, offset = member.get("job"), member.get("offset")
            if isinstance(job, str) and is_whole(offset):
                yield number, job, offset


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value of a section is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def places(tasks: Iterable[Task]) -> frozenset[Place]:
    """Return where each task is."""
    return frozenset((t.group, t.index, t.host, frozenset(t.gpus)) for t in tasks)


def ran_together(reading: Reading) -> dict[frozenset[Place], set[str]]:
    """Return the names of the jobs that held the same GPUs before the round, where several did."""
    found: defaultdict[frozenset[Place], set[str]] = defaultdict(set)
    for name, running in reading.running.items():
        if reading.jobs[name].profile is not None:
            found[places(running.tasks)].add(name)
    return {where: names for where, names in found.items() if len(names) > 1}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _groups(reading: Reading) -> Iterator[Group]:
    placed = {one.job.name: one for one in (*reading.kept, *reading.placed_anew)}
    before = ran_together(reading)
    taken: set[str] = set()
    for path, entry in entries(reading):
        mine: list[Member] = []
        for _, job, offset in members(entry):
            one = placed.get(job)
            if one is not None and one.job.profile is not None and job not in taken:
                taken.add(job)
                mine.append(Member(one, offset))
        if len(mine) > 1:
            period = entry.get("period")
            stays = _stays([member.placed for member in mine], before)
            yield Group(path, tuple(mine), period if is_whole(period) else None, stays)


def _stays(jobs: Sequence[Placed], before: Mapping[frozenset[Place], set[str]]) -> bool:
    running = jobs[0].job.running
    if running is None or any(one.decision.decision is not DecisionKind.KEEP for one in jobs):
        return False
    return before.get(places(running.tasks)) == {one.job.name for one in jobs}


def _held(reading: Reading, groups: Iterable[Group]) -> tuple[PlacedTask, ...]:
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
    held: list[PlacedTask] = []
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
            held.append(task._replace(group=group))
        else:
            held.append(task)
    return tuple(held)


def _place(placed: PlacedTask) -> Place:
    task = placed.task
    return task.group, task.index, placed.host.name, frozenset(task.gpus)


def _size(reading: Reading, placed: Placed, group: TaskGroup) -> int:
    profile = placed.job.profile
    if profile is None or not profile.memory or not group.gpu:
        return group.gpu_memory
    return size_of(placed.job, reading.round.sharing)
