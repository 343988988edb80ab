"""Trivial bounds, without a solver: each job gets its best promise, or the whole current lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from placewright.formulations.common.priority_classes import write_out_terms
from placewright.formulations.deadline.problem.compile import Admission, CapacityRows
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BEST_EFFORT,
    number_of,
    priority_classes,
    work_share,
)
from placewright.formulations.plan_messages import Bound
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION


def trivial_bounds(admission: Admission) -> Iterator[Bound]:
    """Yield a certified bound of each term: no job is refused anything that fits alone.

    `best_effort` is a knapsack of fractions of jobs (Dantzig), as if all jobs may use all GPUs.
    """
    round_ = admission.round
    capacity = CapacityRows(round_, ()).current_milli_gpu()
    for term in round_.policy.terms:
        if term == BEST_EFFORT:
            classes = priority_classes(round_, term)
            jobs_of: list[list[Job]] = [[] for _ in classes or (None,)]
            for job in round_.jobs:
                jobs_of[number_of(classes, job)].append(job)
            for name, jobs in zip(_names(term, len(classes)), jobs_of, strict=True):
                yield Bound(name, float(_best_effort(round_, jobs, capacity)), certified=True)
        elif term == "early":
            yield Bound(term, float(_early(admission, capacity)), certified=True)
        elif term == ADMITTED:
            most = np.zeros(admission.problem.jobs, dtype=np.int64)
            np.maximum.at(most, admission.problem.job, admission.problem.value)
            of = admission.problem.classes
            number = np.zeros_like(most) if of is None else of.number
            total = np.zeros(1 if of is None else len(of.weights), dtype=np.int64)
            np.add.at(total, number, most)
            names = _names(term, 0 if of is None else len(of.weights))
            for name, value in zip(names, total.tolist(), strict=True):
                yield Bound(name, float(value), certified=True)
        else:
            yield Bound(term, 0.0, certified=True)


def _names(term: str, classes: int) -> tuple[str, ...]:
    return write_out_terms((term,), {term: classes})


def _early(admission: Admission, capacity: int) -> int:
    """Return the most milli-GPU that jobs with a promise can hold; pinned ones need no capacity."""
    pinned = free = 0
    for j in admission.jobs:
        job = admission.round.jobs[j]
        if not _can_run_now(admission.round, job):
            continue
        most = max(option.milli_gpu for option in job.options)
        if job.running is not None and job.running.pinned:
            pinned += most
        else:
            free += most
    return pinned + min(free, capacity)


def _best_effort(round_: Round, jobs: Sequence[Job], capacity: int) -> int:
    """Return the most work that jobs can do in the current lease: weighted millionths of theirs."""
    total = Fraction(0)
    items: list[tuple[int, int]] = []
    for job in jobs:
        if not _can_run_now(round_, job):
            continue
        least = min(option.milli_gpu for option in job.options)
        value = max(work_share(round_, job, number) for number in range(len(job.options)))
        if job.running is not None and job.running.pinned:
            total += value  # the capacity leaves out pinned jobs
        else:
            items.append((value, least))
    items.sort(key=lambda item: Fraction(item[0], item[1]) if item[1] else item[0] * MILLION**3)
    left = capacity
    for value, size in reversed(items):
        total += value * (min(Fraction(1), Fraction(left, size)) if size else 1)
        left = max(0, left - size)
    return int(total)


def _can_run_now(round_: Round, job: Job) -> bool:
    """Return whether a job runs, or is ready to run in the current lease."""
    if job.running is not None or job.deadline is None:
        return True
    return round_.leases.first_usable(job.deadline.ready, round_.now) == 0
