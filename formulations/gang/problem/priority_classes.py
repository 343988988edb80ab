"""Strict priority: the priority classes of a round, which replace `value` in its terms.

A **priority class** holds the jobs of one precedence: whether the tenant's cells are for them,
whether they are entitled, then their priority. Where the pending jobs have several precedences, the
classes are those of all jobs that compete, pending ones and running ones that may stop, and `value`
is written out: `value_1` counts the jobs of the highest precedence, `value_2` those of the next.

No more than `MAX_CLASSES`: while there are more, the two neighbours of least weight are merged (the
weight of a class is what its jobs are worth; of equal pairs the lowest).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placewright.formulations.gang.problem.entitlement import BorrowingOptions, borrowing_options
from placewright.formulations.gang.problem.jobs import JobClass
from placewright.formulations.gang.problem.terms import CLASS_VALUES, MAX_CLASSES, VALUE
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

MAX_RATIO = 64
"""By how much a GPU of a class outweighs one of the next class in a weighted sum, at most."""

MAX_WEIGHTED_SUM = 1 << 50
"""Above this a weighted sum is no longer exact in floating point."""


class Precedence(NamedTuple):
    """What orders jobs: the tenant's cells are for them, they are entitled, their priority."""

    cells: bool
    entitled: bool
    priority: int


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A priority class; it has several precedences where neighbours were merged.

    Attributes
    ----------
    precedences : tuple of Precedence
        Highest first.
    pending, running : int
        Value of the best options of its pending jobs, and of its running jobs that may stop.
    """

    precedences: tuple[Precedence, ...]
    pending: int
    running: int

    @property
    def asked(self) -> int:
        """The value that gaps are relative to: of its pending jobs, else of its running ones."""
        return self.pending or self.running


def priority_classes(
    round_: Round, borrowed: BorrowingOptions | None = None
) -> tuple[PriorityClass, ...]:
    """Return the classes of a round, highest first; () where `value` stays one term."""
    if round_.policy.priority != "strict" or VALUE not in round_.policy.terms:
        return ()
    borrowed = borrowing_options(round_) if borrowed is None else borrowed
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}
    pending, running = Counter[Precedence](), Counter[Precedence]()
    for j, job in enumerate(round_.jobs):
        if job.running is None:
            best: dict[Precedence, int] = {}
            for o in range(len(job.options)):
                level = _precedence(job, o in borrowed.get(j, ()), owners)
                best[level] = max(best.get(level, 0), job.value_of(o))
            for level, value in best.items():
                pending[level] += value
        elif not job.running.pinned:
            option = job.running.option
            level = _precedence(job, option in borrowed.get(j, ()), owners)
            running[level] += job.value_of(option)
    if len(pending) < 2:
        return ()
    levels = sorted({*pending, *running}, reverse=True)
    return _merged([PriorityClass((level,), pending[level], running[level]) for level in levels])


def _precedence(job: Job, borrows: bool, owners: set[str]) -> Precedence:
    cells = job.tenant in owners and not job.opportunistic
    return Precedence(cells, not borrows, job.priority)


def _merged(classes: list[PriorityClass]) -> tuple[PriorityClass, ...]:
    """Merge neighbours of least weight until there are no more than `MAX_CLASSES`."""
    while len(classes) > MAX_CLASSES:
        weight = [one.pending + one.running for one in classes]
        at = min(range(len(classes) - 1), key=lambda k: (weight[k] + weight[k + 1], -k))
        first, second = classes[at : at + 2]
        classes[at : at + 2] = [
            PriorityClass(
                first.precedences + second.precedences,
                first.pending + second.pending,
                first.running + second.running,
            )
        ]
    return tuple(classes)


def write_out_value(terms: Sequence[str], classes: int) -> tuple[str, ...]:
    """Replace the term `value` by one term per priority class; 0 classes leave it."""
    values = CLASS_VALUES[:classes] or (VALUE,)
    return tuple(t for term in terms for t in (values if term == VALUE else (term,)))


def classes_of_jobs(
    classes: Sequence[PriorityClass],
    job_classes: Sequence[JobClass],
    jobs: Sequence[Job],
    owners: set[str],
) -> list[list[int]]:
    """Return the priority class of each choice of each job class.

    Jobs that cells leave out of a residual round are of no class; no option of theirs fits.
    """
    index = {level: k for k, one in enumerate(classes) for level in one.precedences}
    return [
        [
            index.get(_precedence(jobs[job_class.jobs[0]], not choice.entitled, owners), 0)
            for choice in job_class.choices
        ]
        for job_class in job_classes
    ]


def class_weights(
    classes: Sequence[PriorityClass], job_classes: Sequence[JobClass], of: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return weights with which a sum over classes is nearly lexicographic.

    A class outweighs all lower ones together if `MAX_RATIO` and `MAX_WEIGHTED_SUM` allow that; else
    the ratio of neighbouring weights is as large as they allow.

    Parameters
    ----------
    of
        The priority class of each choice of each job class.
    """
    densities: dict[int, list[float]] = {}
    for job_class, numbers in zip(job_classes, of, strict=True):
        for choice, k in zip(job_class.choices, numbers, strict=True):
            milli = sum(group.milli_gpu for group in choice.groups)
            if milli and choice.value:
                densities.setdefault(k, []).append(choice.value / milli)
    total = [one.pending + one.running for one in classes]
    most = (MAX_WEIGHTED_SUM / max(sum(total), 1)) ** (1 / (len(classes) - 1))
    weights = [1]
    for k in reversed(range(len(classes) - 1)):
        above, below = densities.get(k, [1.0]), densities.get(k + 1, [1.0])
        enough = sum(w * t for w, t in zip(weights, total[k + 1 :], strict=True)) + 1
        ratio = min(MAX_RATIO * max(max(below) / min(above), 1.0), most)
        weights.insert(0, max(min(enough, int(weights[0] * ratio)), weights[0]))
    return tuple(weights)


def weighted_value(values: Mapping[str, int], weights: Sequence[int]) -> int:
    """Return the weighted sum of the classes' values, or `value` itself without classes."""
    if not weights:
        return values[VALUE]
    return sum(w * values[term] for w, term in zip(weights, CLASS_VALUES, strict=False))
