"""The terms of promises, recomputed."""

from __future__ import annotations

from placewright.instances.documents.deadline import UNIT
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.rules.deadline.lease_work import LeaseProgress
from placewright.topology.units import MILLION


def broken(reading: Reading) -> int:
    """Value lost by broken promises: that of the earlier promise less that of the present one."""
    total = 0
    for job in reading.round.jobs:
        old = job.deadline.promise if job.deadline is not None else None
        if old is not None:
            now = reading.promise_of(job.name)
            total += max(0, old.value - (0 if now is None else now.promise.value))
    return total


def admitted(reading: Reading) -> int:
    """Sum of the values of the promises after the round."""
    promises = reading.promises
    if promises is None:
        return 0
    return sum(promises.section.jobs[number].promise.value for number in promises.numbers.values())


def best_effort(reading: Reading) -> int:
    """Weight times millionths of the work that the current lease does, of jobs without a promise.

    The work of a job that says none is as long as the horizon.
    """
    leases, pacing, total = reading.round.leases, LeaseProgress(reading), 0
    everything = UNIT * leases.horizon * leases.length_s
    for placed in reading.placed:
        job = placed.job
        if reading.promise_of(job.name) is None:
            work = everything if job.deadline is None else job.deadline.work
            share = MILLION * pacing.gained(job, placed.chosen) // work
            total += job.weight * min(MILLION, share)
    return total


def early(reading: Reading) -> int:
    """Milli-GPU that jobs with a promise hold after the round."""
    return sum(
        placed.option.milli_gpu
        for placed in reading.placed
        if reading.promise_of(placed.job.name) is not None
    )
