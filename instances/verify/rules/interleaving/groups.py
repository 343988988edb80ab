"""The plan section `groups`: the jobs that share GPUs in turn, and whether they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placewright.instances.documents.job import Job
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.interleaving.facts import (
    KIND,
    entries,
    is_whole,
    members,
)
from placewright.instances.verify.shared_gpus import no_member, places, ran_together

_ENTRY = ("members", "period")
_MEMBER = ("job", "offset")
# Members may differ in these; in everything else their first options are equal.
_OWN = {"name", "cpu", "memory", "resources", "gpu_memory"}


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require a list of groups of at least two members; `sections.section` applies it."""
    yield from _fields(entry, ("kind", KIND), path)
    listed = entry.get(KIND)
    if not isinstance(listed, list | tuple) or not listed:
        yield Finding(
            (*path, KIND), f"groups {value_text(listed)} is no list of groups; expected some group"
        )
        return
    for number, group in enumerate(listed):
        here: Path = (*path, KIND, number)
        if not isinstance(group, Mapping):
            yield Finding(here, f"{value_text(group)} is no group; expected {', '.join(_ENTRY)}")
            continue
        yield from _fields(group, _ENTRY, here)
        if not is_whole(group.get("period")):
            yield Finding(
                (*here, "period"),
                f"period {value_text(group.get('period'))} is no whole number; "
                "expected microseconds",
            )
        jobs = group.get("members")
        if not isinstance(jobs, list | tuple) or len(jobs) < 2:
            yield Finding(
                (*here, "members"),
                f"members {value_text(jobs)} are no list of two or more; expected a group",
            )
            continue
        for k, member in enumerate(jobs):
            if (
                not isinstance(member, Mapping)
                or member.keys() != set(_MEMBER)
                or not isinstance(member["job"], str)
                or not is_whole(member["offset"])
            ):
                yield Finding(
                    (*here, "members", k),
                    f"{value_text(member)} is no member; "
                    "expected the name of a job and a whole offset",
                )


def groups(reading: Reading) -> Iterator[Finding]:
    """Require one section at most, of jobs that are placed, each in one group."""
    given = [i for i, entry in enumerate(reading.plan.sections) if entry.get("kind") == KIND]
    for index in given[1:]:
        yield Finding(
            ("sections", index), f"section {KIND!r} is given more than once; expected one"
        )
    if not given:
        return
    placed = {one.job.name for one in (*reading.kept, *reading.placed_anew)}
    seen: set[str] = set()
    for path, entry in entries(reading):
        for number, job, _ in members(entry):
            problem = None
            if job not in placed:
                problem = "is not placed; expected jobs that start, migrate or are kept"
            elif job in seen:
                problem = "is in a group already; expected it once"
            seen.add(job)
            if problem is not None:
                yield Finding((*path, "members", number, "job"), f"job {value_text(job)} {problem}")


def group_members(reading: Reading) -> Iterator[Finding]:
    """Require members that can be in one group: alike, with whole GPUs and their first option."""
    everybody = (*reading.kept, *reading.placed_anew)
    chosen = {placed.job.name: placed.chosen for placed in everybody}
    for path, entry in entries(reading):
        first: tuple[Job, list[dict[str, Any]]] | None = None
        listed = list(members(entry))
        most = reading.round.sharing.most
        if len(listed) > most:
            yield Finding(
                (*path, "members"), f"{len(listed)} jobs share GPUs; expected at most {most}"
            )
        for number, name, _ in listed:
            if name not in chosen:
                continue
            job = reading.jobs[name]
            asked = _asked(job)
            if first is None:
                first = job, asked
            problem = no_member(job)
            if problem is None and chosen[name] != 0:
                problem = f"has option {chosen[name]}; expected the first option, 0"
            if problem is None and asked != first[1]:
                problem = (
                    f"asks for other places than job {first[0].name!r}; expected first options "
                    "that are equal but for CPU, memory and other resources of the host"
                )
            if problem is not None:
                yield Finding((*path, "members", number, "job"), f"job {name!r} {problem}")


def group_places(reading: Reading) -> Iterator[Finding]:
    """Require that members have their tasks, one by one, on the same hosts and GPUs."""
    for group in reading.groups:
        first = group.members[0].placed
        where = places(first.decision.tasks)
        for member in group.members[1:]:
            if places(member.placed.decision.tasks) != where:
                yield Finding(
                    (*member.placed.path, "tasks"),
                    f"job {member.placed.job.name!r} is not where job {first.job.name!r} of its "
                    "group is; expected the same hosts and GPUs, task by task",
                )


def pinned_group(reading: Reading) -> Iterator[Finding]:
    """Require that the group of a pinned job stays as it is."""
    fixed = {name for name, running in reading.running.items() if running.pinned}
    pinned = [one for one in reading.kept if one.job.name in fixed]
    before = ran_together(reading) if pinned else {}
    now = {
        member.placed.job.name: {other.placed.job.name for other in group.members}
        for group in reading.groups
        for member in group.members
    }
    for placed in pinned:
        name = placed.job.name
        there = before.get(places(reading.running[name].tasks), {name})
        if now.get(name, {name}) != there | {name}:
            yield Finding(
                placed.path,
                f"pinned job {name!r} takes turns with others than before; "
                "expected the jobs that ran on its GPUs, and no other",
            )


def _fields(entry: Mapping[str, Any], known: tuple[str, ...], path: Path) -> Iterator[Finding]:
    for name in entry:
        if name not in known:
            yield Finding(
                (*path, name), f"field {value_text(name)} is unknown; expected {', '.join(known)}"
            )


def _asked(job: Job) -> list[dict[str, Any]]:
    """Return what must be equal for all members."""
    first = job.options[0]
    asked = {"required": first.required, "hosts": first.hosts}
    return [asked, *(g.model_dump(exclude=_OWN) for g in first.groups)]


RULES_OF_GROUPS: tuple[Rule[Reading], ...] = (
    Rule("groups", groups),
    Rule("group_members", group_members),
    Rule("group_places", group_places),
    Rule("pinned_group", pinned_group),
)
