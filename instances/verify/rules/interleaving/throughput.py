"""The terms of groups, recomputed: throughput of jobs, and utilization of their resources.

Throughput is in millionths of a job alone at its proportional share, and rounded down per job; the
efficiency of a group is the mean busy share of the resources, in millionths, rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.verify.precedence import ClassTerm
from placewright.instances.verify.reading import Placed, Reading
from placewright.instances.verify.rules.gang.entitlement import Entitlement
from placewright.instances.verify.rules.gang.priority import (
    classes_of,
    is_pinned,
    sums_of_classes,
)
from placewright.instances.verify.rules.interleaving.speed import UNIT, speed_alone
from placewright.instances.verify.rules.interleaving.turns import profiles_of, recomputed

TERM = "weighted_throughput"


def throughput(reading: Reading) -> int:
    """Sum of the throughput of all placed jobs."""
    return sum(each for _, each in _rates(reading))


def weighted_throughput(reading: Reading) -> int | dict[str, int]:
    """Sum of weight times throughput of all placed jobs; by priority class if there are several.

    A pinned job counts in no class.
    """
    classes = class_terms(reading.round)
    if not classes:
        return sum(job.weight * each for job, each in _rates(reading))
    precedence = Entitlement(reading.round).of
    counted = (
        (precedence(job, 0), job.weight * each)
        for job, each in _rates(reading)
        if not is_pinned(job)
    )
    return sums_of_classes(classes, counted)


def class_terms(round_: Round) -> dict[str, ClassTerm]:
    """Return the terms that `weighted_throughput` stands for in a round; {} if for itself."""
    if TERM not in round_.policy.by_class:
        return {}

    def worth(job: Job, option: int) -> int:
        return job.weight * speed_alone(job, option)

    return classes_of(TERM, round_.jobs, worth, Entitlement(round_).of)


def efficiency(reading: Reading) -> int:
    """Sum of the efficiencies of the groups, and of the jobs with a profile that are in none."""
    slots = reading.round.sharing.slots
    total = 0
    for group in reading.groups:
        period = recomputed(reading, group)
        if period:
            work = sum(sum(profile.stages) for profile in profiles_of(group))
            total += UNIT * work // (slots * period)
    for placed in _single(reading):
        profile = placed.job.profile
        if profile is not None:
            total += UNIT * sum(profile.stages) // (slots * profile.alone)
    return total


def _rates(reading: Reading) -> Iterator[tuple[Job, int]]:
    """Yield each placed job and its throughput, 0 where a group's offsets make no sense."""
    for group in reading.groups:
        period = recomputed(reading, group)
        for member, profile in zip(group.members, profiles_of(group), strict=True):
            job = member.placed.job
            yield job, speed_alone(job, 0) * profile.alone // period if period else 0
    for placed in _single(reading):
        yield placed.job, speed_alone(placed.job, placed.chosen)


def _single(reading: Reading) -> Iterator[Placed]:
    """Yield the placed jobs that are in no group."""
    grouped = {member.placed.position for group in reading.groups for member in group.members}
    for placed in (*reading.kept, *reading.placed_anew):
        if placed.position not in grouped:
            yield placed
