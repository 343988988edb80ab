"""Lease arithmetic: the work that a lease does, outages, and what running jobs have done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.deadline import UNIT, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.option import Option
from placewright.topology.units import WHOLE_GPU

# Lease arithmetic: the work that a lease does, the leases that work needs, and when it is done.
#
# Work is in thousandths of a second at speed 1000, times are in seconds on the round's clock.


def relative_speed(pace: Pace, hosts: int) -> int:
    """Return the speed of an option on `hosts` hosts, in thousandths of that on one host.

    Between two entries of `spanning` the one of more hosts counts, beyond the last one the last.
    """
    if hosts <= 1 or not pace.spanning:
        return UNIT
    return next((part for most, part in pace.spanning if most >= hosts), pace.spanning[-1][1])


def work_per_lease(pace: Pace, length_s: int, hosts: int) -> int:
    """Return the work that one lease of `length_s` seconds does on `hosts` hosts."""
    working = max(0, length_s - pace.overhead_s)
    return pace.speed * relative_speed(pace, hosts) * working // UNIT


def leases_needed(work: int, pace: Pace, length_s: int, hosts: int) -> int | None:
    """Return the number of leases that `work` needs; None if a lease does no work."""
    each = work_per_lease(pace, length_s, hosts)
    return -(-work // each) if each else None


def completion_time(start: int, work: int, pace: Pace, hosts: int) -> int:
    """Return the completion time of a job whose last lease begins at `start` and does `work`.

    `work` must be at most the work of one lease.
    """
    return start + pace.overhead_s - (-UNIT * work // (pace.speed * relative_speed(pace, hosts)))


def min_hosts(option: Option, largest: Mapping[str, int]) -> int:
    """Return the fewest hosts that hold the whole GPUs of an option, at least 1.

    `largest` has the most GPUs of a host of each GPU model; models that no group of the option
    allows do not count.
    """
    whole = sum(group.milli_gpu for group in option.groups if group.gpu >= WHOLE_GPU) // WHOLE_GPU
    most = max(
        (
            gpus
            for model, gpus in largest.items()
            if any(group.gpu_models is None or model in group.gpu_models for group in option.groups)
        ),
        default=0,
    )
    return max(1, -(-whole // most)) if most else 1


# Outages: the hosts that cannot be used in the current lease.


def unavailable_hosts(leases: Leases, now: int) -> frozenset[str]:
    """Return the hosts with an outage in the current lease, which no task may use."""
    return frozenset(
        host
        for outage in leases.outages
        if leases.overlapped(outage, now)[0] == 0 < leases.overlapped(outage, now)[1]
        for host in expand(outage.host)
    )


# Work that running jobs with deadlines have done after some time.


def jobs_after_work(jobs: Iterable[Job], leases: Leases, seconds: int) -> tuple[Job, ...]:
    """Return the jobs after running ones have worked for some seconds.

    A job that should be done keeps one second of work until it is removed.
    """
    return tuple(_after(job, leases, seconds) for job in jobs)


def work_left(job: Job, leases: Leases, seconds: int) -> int | None:
    """Return the work that a job has left after running for some seconds, 0 or less if it is done.

    In thousandths of a second of work; None for a job without a deadline, or that does not run.
    """
    deadline = job.deadline
    if deadline is None or job.running is None:
        return None
    pace = deadline.pace(job.running.option)
    hosts = len({task.host for task in job.running.tasks})
    whole, part = divmod(seconds, leases.length_s)
    done = whole * work_per_lease(pace, leases.length_s, hosts) + work_per_lease(pace, part, hosts)
    return deadline.work - done


def _after(job: Job, leases: Leases, seconds: int) -> Job:
    work = work_left(job, leases, seconds)
    if work is None or job.deadline is None:
        return job
    left = max(1, work // 1000)
    return job.model_copy(update={"deadline": job.deadline.model_copy(update={"work_s": left})})
