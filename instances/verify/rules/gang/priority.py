"""Strict priority: the terms that `value` stands for, recomputed (docs/formulations/priority.md).

A job counts in the class of its precedence. Classes are those of all jobs that are not pinned, if
the pending ones have two precedences or more; else `value` is one term. Beyond `MOST` the two
neighbours whose jobs are worth least, together, are merged, the lowest of equal ones.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.rules.gang import terms
from placewright.instances.verify.rules.gang.entitlement import Entitlement, Precedence
from placewright.instances.verify.rules.gang.waiting import start_value

TERM = "value"
MOST = 8


class ClassTerm(NamedTuple):
    """A term of one class: the precedences that count in it, highest first, and what they ask."""

    precedences: tuple[Precedence, ...]
    asked: int


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
    if round_.policy.priority != "strict" or TERM not in round_.policy.terms:
        return {}
    found = _per_precedence(round_, Entitlement(round_))
    if sum(one.waits for one in found.values()) < 2:
        return {}
    classes = [
        _Worth((level,), found[level].pending, found[level].running)
        for level in sorted(found, reverse=True)
    ]
    while len(classes) > MOST:
        pairs = [_joined(a, b) for a, b in pairwise(classes)]
        worth = [pair.pending + pair.running for pair in pairs]
        last = max(k for k, each in enumerate(worth) if each == min(worth))
        classes[last : last + 2] = [pairs[last]]
    return {
        f"{TERM}_{k}": ClassTerm(one.precedences, one.pending or one.running)
        for k, one in enumerate(classes, 1)
    }


def _joined(first: _Worth, second: _Worth) -> _Worth:
    return _Worth(
        first.precedences + second.precedences,
        first.pending + second.pending,
        first.running + second.running,
    )


class _Level:
    """The jobs of one precedence: what they are worth, and whether some of them wait."""

    def __init__(self) -> None:
        self.pending = self.running = 0
        self.waits = False


def _per_precedence(round_: Round, entitlement: Entitlement) -> dict[Precedence, _Level]:
    levels: dict[Precedence, _Level] = {}
    for job in round_.jobs:
        if job.running is not None and job.running.pinned:
            continue
        offered = range(len(job.options)) if job.running is None else [job.running.option]
        best: dict[Precedence, int] = {}
        for option in offered:
            level = entitlement.of(job, option)
            best[level] = max(best.get(level, 0), job.value_of(option))
        for level, worth in best.items():
            mine = levels.setdefault(level, _Level())
            if job.running is None:
                mine.pending += worth
                mine.waits = True
            else:
                mine.running += worth
    return levels


def value(reading: Reading) -> int | dict[str, int]:
    """Return `value`, or the terms of the priority classes that it stands for.

    Each is the sum of the started jobs' values, less those of the preempted jobs, of its class.
    """
    classes = class_terms(reading.round)
    if not classes:
        return terms.value(reading)
    name_of = {level: name for name, one in classes.items() for level in one.precedences}
    entitlement = Entitlement(reading.round)
    counted = [(placed.job, placed.chosen, 1) for placed in reading.started]
    counted += [(one.job, reading.running[one.job.name].option, -1) for one in reading.preempted]
    total = dict.fromkeys(classes, 0)
    for job, option, sign in counted:
        # A pinned job, which no valid plan starts or preempts, may be of no class.
        if (level := entitlement.of(job, option)) in name_of:
            worth = start_value(reading.round, job, option) if sign > 0 else job.value_of(option)
            total[name_of[level]] += sign * worth
    return total
