"""Trivial bounds, without a solver: each job gets its best promise, or the whole current lease."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from placewright.formulations.deadline.problem.capacity_rows import CapacityRows
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.plan_messages import Bound
from placewright.instances.derived.lease_arithmetic import work_per_lease
from placewright.instances.documents.deadline import Pace
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
        if term == "best_effort":
            yield Bound(term, float(_best_effort(admission, capacity)), certified=True)
        elif term == "early":
            yield Bound(term, float(_early(admission, capacity)), certified=True)
        elif term == "admitted":
            most = np.zeros(admission.problem.jobs, dtype=np.int64)
            np.maximum.at(most, admission.problem.job, admission.problem.value)
            yield Bound(term, float(most.sum()), certified=True)
        else:
            yield Bound(term, 0.0, certified=True)


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


def _best_effort(admission: Admission, capacity: int) -> int:
    """Return the most work that the current lease can do: weighted millionths of the jobs' work."""
    leases = admission.round.leases
    total = Fraction(0)
    items: list[tuple[int, int]] = []
    for job in admission.round.jobs:
        if not _can_run_now(admission.round, job):
            continue
        work = 1000 * leases.horizon * leases.length_s
        if job.deadline is not None:
            work = job.deadline.work
        done = 0
        for number in range(len(job.options)):
            pace = Pace() if job.deadline is None else job.deadline.pace(number)
            spread = (1, *(most for most, _ in pace.spanning))
            done = max(done, *(work_per_lease(pace, leases.length_s, hosts) for hosts in spread))
        least = min(option.milli_gpu for option in job.options)
        value = job.weight * min(MILLION, MILLION * done // work)
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
