"""Work that running jobs with deadlines have done after some time."""

from __future__ import annotations

from collections.abc import Iterable

from placewright.instances.derived.lease_arithmetic import work_per_lease
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases


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
