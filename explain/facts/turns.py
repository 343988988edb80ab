"""Places of a job under policy `interleaving`: room of its own, or turns with jobs that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import starmap

from placewright.explain.facts import gang
from placewright.explain.facts.fact import named
from placewright.explain.places import GroupPlaces
from placewright.instances.derived.compatibility import grouping_key
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of a job, and at the last group with whom it might take turns."""
    groups = running_groups(round_)
    policy = round_.policy.model_copy(update={"formulation": GANG.name})
    alone = _with_groups_as_jobs(round_, groups).model_copy(update={"policy": policy})
    *others, last = gang.places(alone, job)
    waits = named(job, round_)
    partners = tuple(_partners(round_, waits, groups)) if waits.profile is not None else None
    return (*others, replace(last, partners=partners))


def _with_groups_as_jobs(round_: Round, groups: Sequence[Sequence[int]]) -> Round:
    """Return the round in which each group that runs is one job, which holds what they all do."""
    first = {members[0]: [round_.jobs[j] for j in members] for members in groups}
    rest = {j for members in groups for j in members[1:]}
    jobs = tuple(
        _together(first[j]) if j in first else job
        for j, job in enumerate(round_.jobs)
        if j not in rest
    )
    return round_.model_copy(update={"jobs": jobs})


def _together(members: Sequence[Job]) -> Job:
    """Return a job that holds what a group does: its GPUs once, of CPU the most of one of them."""
    options = [member.options[0] for member in members]
    groups = tuple(starmap(_held, zip(*(option.groups for option in options), strict=True)))
    option = options[0].model_copy(update={"groups": groups})
    return members[0].model_copy(update={"options": (option, *members[0].options[1:])})


def _held(*groups: TaskGroup) -> TaskGroup:
    resources = {name: 0 for group in groups for name in group.resources}
    for group in groups:
        for name, amount in group.resources.items():
            resources[name] += amount
    return groups[0].model_copy(
        update={
            "cpu": max(group.cpu for group in groups),
            "memory": sum(group.memory for group in groups),
            "resources": resources,
        }
    )


def _partners(round_: Round, job: Job, groups: Sequence[Sequence[int]]) -> Iterator[str]:
    """Yield the running jobs and groups of the job's size with room for one more and no conflict.

    Whether their stages, load and memory suit the job is not asked.
    """
    key, sharing = grouping_key(job), round_.sharing
    conflicts = {name for pair in sharing.conflicts if job.name in pair for name in pair}
    in_groups = {j for members in groups for j in members}
    alone = ([j] for j, one in enumerate(round_.jobs) if one.running and j not in in_groups)
    for members in (*groups, *alone):
        jobs = [round_.jobs[j] for j in members]
        if key is None or len(jobs) >= sharing.most or grouping_key(jobs[0]) != key:
            continue
        if jobs[0].running is not None and jobs[0].running.option == 0:
            names = [one.name for one in jobs]
            if conflicts.isdisjoint(names):
                yield " + ".join(names)
