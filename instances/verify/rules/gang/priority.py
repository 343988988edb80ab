"""Strict priority: what a term such as `value` stands for, recomputed.

A job counts in the class of its precedence. Classes are those of all jobs that are not pinned, if
these have two precedences or more; else the term stays one. Beyond `MOST` the two neighbours whose
jobs are worth least, together, are merged, the lowest of equal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import add
from typing import NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import ClassTerm, Precedence, Reading
from placewright.instances.verify.rules.gang.terms import worths
from placewright.instances.verify.rules.gang.waiting import Entitlement

TERM = "value"
MOST = 8


class _Worth(NamedTuple):
    """What the pending and the running jobs of some neighbouring precedences are worth."""

    precedences: tuple[Precedence, ...]
    pending: int
    running: int


def class_terms(round_: Round) -> dict[str, ClassTerm]:
    """Return the terms that `value` stands for in a round, highest class first; {} if for itself.

    A class asks the value of the best options of its pending jobs; without any, that of its running
    jobs.
    """
    if TERM not in round_.policy.by_class:
        return {}
    of, offered = Entitlement(round_).of, round_.offered
    return classes_of(TERM, round_.jobs, Job.value_of, of, offered=offered)


def classes_of(
    term: str,
    jobs: Iterable[Job],
    worth: Callable[[Job, int], int],
    precedence: Callable[[Job, int], Precedence],
    *,
    pinned: bool = False,
    offered: Callable[[Job], Iterable[int]] | None = None,
) -> dict[str, ClassTerm]:
    """Return the terms that a term stands for, highest class first; {} if for itself.

    `worth` and `precedence` are those of a job with an option; with `pinned` pinned jobs count.
    `offered` are the options that a job may have; by default a running job has its own alone.
    """
    competing = (job for job in jobs if pinned or not is_pinned(job))
    found = _per_precedence(competing, worth, precedence, offered or _own)
    if len(found) < 2:
        return {}
    classes = [
        _Worth((level,), found[level].pending, found[level].running)
        for level in sorted(found, reverse=True)
    ]
    worths = [one.pending + one.running for one in classes]
    while len(classes) > MOST:
        both = list(map(add, worths, worths[1:]))
        least = min(both)
        last = len(both) - 1 - both[::-1].index(least)
        classes[last : last + 2] = [_joined(*classes[last : last + 2])]
        worths[last : last + 2] = [least]
    return {
        f"{term}_{k}": ClassTerm(one.precedences, one.pending or one.running)
        for k, one in enumerate(classes, 1)
    }


def is_pinned(job: Job) -> bool:
    """Whether a job runs and stays, whatever the plan is: it is of no class."""
    return job.running is not None and job.running.pinned


def sums_of_classes(
    classes: Mapping[str, ClassTerm], counted: Iterable[tuple[Precedence, int]]
) -> dict[str, int]:
    """Return the sum of each class; a precedence of no class, as of pinned jobs, counts nowhere."""
    name_of = {level: name for name, one in classes.items() for level in one.precedences}
    total = dict.fromkeys(classes, 0)
    for level, amount in counted:
        if level in name_of:
            total[name_of[level]] += amount
    return total


def _joined(first: _Worth, second: _Worth) -> _Worth:
    return _Worth(
        first.precedences + second.precedences,
        first.pending + second.pending,
        first.running + second.running,
    )


def by_class(
    round_: Round, classes: Mapping[str, ClassTerm], counted: Iterable[tuple[Job, int, int]]
) -> int | dict[str, int]:
    """Return the sum of what jobs count with an option, or that of each class if there are some."""
    if not classes:
        return sum(amount for *_, amount in counted)
    of = Entitlement(round_).of
    return sums_of_classes(classes, ((of(job, option), amount) for job, option, amount in counted))


class _Level:
    """What the jobs of one precedence are worth."""

    def __init__(self) -> None:
        self.pending = self.running = 0


def _per_precedence(
    jobs: Iterable[Job],
    worth: Callable[[Job, int], int],
    precedence: Callable[[Job, int], Precedence],
    offered: Callable[[Job], Iterable[int]],
) -> dict[Precedence, _Level]:
    levels: dict[Precedence, _Level] = {}
    for job in jobs:
        best: dict[Precedence, int] = {}
        for option in offered(job):
            level = precedence(job, option)
            best[level] = max(best.get(level, 0), worth(job, option))
        for level, each in best.items():
            mine = levels.setdefault(level, _Level())
            if job.running is None:
                mine.pending += each
            else:
                mine.running += each
    return levels


def _own(job: Job) -> Iterable[int]:
    return range(len(job.options)) if job.running is None else [job.running.option]


def value(reading: Reading) -> int | dict[str, int]:
    """Return `value`, or the terms of the priority classes that it stands for.

    Each is the sum of the started jobs' values, less those of the preempted jobs, of its class. An
    option without a value is worth its milli-GPU times the job's weight.
    """
    return by_class(reading.round, class_terms(reading.round), worths(reading))
