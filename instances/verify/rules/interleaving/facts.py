"""Groups of a plan that share GPUs in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from placewright.instances.documents.plan import DecisionKind
from placewright.instances.verify.reading import Group, Member, Placed, Reading
from placewright.instances.verify.shared_gpus import Place, held, places, ran_together

KIND = "groups"


def with_groups(reading: Reading) -> Reading:
    """Return a reading with the groups of its plan, if there are some.

    Entries that make no sense are left out, and so are members that are not placed, have no
    profile, or are in a group already; the rules of the section report them.
    """
    groups = tuple(_groups(reading))
    return replace(reading, groups=groups, held=held(reading, groups)) if groups else reading


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
