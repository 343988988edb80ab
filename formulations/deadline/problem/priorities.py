"""Strict priority: the priority classes by which `admitted` and `best_effort` are written out.

Of `admitted` these are the classes of the jobs that have due times or a promise, of `best_effort`
those of the jobs that may run now; pinned ones too, since they may be promised something or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from placewright.formulations.common.priority_classes import (
    PriorityClass,
    classes_by_precedence,
    classes_by_term,
    lexicographic_weights,
    precedence_of,
)
from placewright.instances.derived.lease_arithmetic import work_per_lease
from placewright.instances.documents.deadline import Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION

BEST_EFFORT = "best_effort"

MAX_EXACT_SUM = 1 << 44
"""Beyond this a sum of weighted classes is not exact in a solver, and weights are smaller."""


def priority_classes(round_: Round, term: str) -> tuple[PriorityClass, ...]:
    """Return the classes of a term, highest first; () where it stays one term."""
    if term not in round_.policy.by_class:
        return ()
    jobs = round_.jobs
    counted = ((j, job) for j, job in enumerate(jobs) if counts(round_, term, job))
    return classes_by_precedence(
        counted,
        lambda job, option: _worth(round_, term, job, option),
        lambda j, _: precedence_of(jobs[j]),
        pinned=True,
    )


def classes_of_terms(round_: Round) -> dict[str, PriorityClass]:
    """Return all classes of a round by the terms that count them."""
    return {
        name: one
        for term in (ADMITTED, BEST_EFFORT)
        for name, one in classes_by_term(term, priority_classes(round_, term)).items()
    }


def number_of(classes: tuple[PriorityClass, ...], job: Job) -> int:
    """Return the class that a job is in; 0 of one that counts in none."""
    level = precedence_of(job)
    return next((k for k, one in enumerate(classes) if level in one.precedences), 0)


def counts(round_: Round, term: str, job: Job) -> bool:
    """Whether a job may count in a term."""
    if term == ADMITTED:
        return any(values_of(job))
    ready = None if job.deadline is None else job.deadline.ready
    return job.running is not None or ready is None or ready <= round_.now


def values_of(job: Job) -> Iterator[int]:
    """Yield the values of all promises that a job may have."""
    if job.deadline is not None:
        yield from (due.value for due in job.deadline.due)
        if job.deadline.promise is not None:
            yield job.deadline.promise.value


def work_share(round_: Round, job: Job, option: int) -> int:
    """Return the most that a job adds to `best_effort` with an option, on whichever hosts."""
    leases, deadline = round_.leases, job.deadline
    work = 1000 * leases.horizon * leases.length_s if deadline is None else deadline.work
    pace = Pace() if deadline is None else deadline.pace(option)
    spread = (1, *(most for most, _ in pace.spanning))
    done = max(work_per_lease(pace, leases.length_s, hosts) for hosts in spread)
    return job.weight * min(MILLION, MILLION * done // work)


def units_of(round_: Round, classes: tuple[PriorityClass, ...]) -> tuple[int, ...]:
    """Return of each class a number that divides the values of all its promises."""
    units = [0] * len(classes)
    for job in round_.jobs:
        if counts(round_, ADMITTED, job):
            k = number_of(classes, job)
            units[k] = gcd(units[k], *values_of(job))
    return tuple(max(unit, 1) for unit in units)


def weights_of(classes: tuple[PriorityClass, ...], units: tuple[int, ...]) -> tuple[int, ...]:
    """Return weights with which a sum over the classes of `admitted` is lexicographic.

    So it is as long as the sum is small enough for solvers; else it is nearly so.
    """
    total = [one.pending + one.running for one in classes]
    weights = [1]
    below = total[-1]
    for k in reversed(range(len(classes) - 1)):
        weights.insert(0, below // units[k] + 1)
        below += weights[0] * total[k]
    return tuple(weights) if below <= MAX_EXACT_SUM else lexicographic_weights(classes, {})


def _worth(round_: Round, term: str, job: Job, option: int) -> int:
    """Return what a job is worth in a term."""
    return max(values_of(job)) if term == ADMITTED else work_share(round_, job, option)
