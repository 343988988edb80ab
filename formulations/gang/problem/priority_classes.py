"""Strict priority: the priority classes of a round of gangs, by which `value` is written out.

A class holds the jobs of one precedence: whether the tenant's cells are for them, whether they are
entitled, then their priority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placewright.formulations.common.priority_classes import (
    Precedence,
    PriorityClass,
    classes_by_precedence,
    lexicographic_weights,
)
from placewright.formulations.gang.problem.entitlement import BorrowingOptions, borrowing_options
from placewright.formulations.gang.problem.jobs import JobClass
from placewright.formulations.gang.problem.terms import CLASS_VALUES, VALUE
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round


def priority_classes(
    round_: Round, borrowed: BorrowingOptions | None = None
) -> tuple[PriorityClass, ...]:
    """Return the classes of a round, highest first; () where `value` stays one term."""
    if VALUE not in round_.policy.by_class:
        return ()
    given = borrowing_options(round_) if borrowed is None else borrowed
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}

    def precedence(j: int, option: int) -> Precedence:
        return _precedence(round_.jobs[j], option in given.get(j, ()), owners)

    return classes_by_precedence(enumerate(round_.jobs), Job.value_of, precedence)


def _precedence(job: Job, borrows: bool, owners: set[str]) -> Precedence:
    cells = job.tenant in owners and not job.opportunistic
    return Precedence(cells, not borrows, job.priority)


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
    return lexicographic_weights(classes, densities)


def weighted_value(values: Mapping[str, int], weights: Sequence[int]) -> int:
    """Return the weighted sum of the classes' values, or `value` itself without classes."""
    if not weights:
        return values[VALUE]
    return sum(w * values[term] for w, term in zip(weights, CLASS_VALUES, strict=False))
