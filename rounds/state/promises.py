"""Policy `deadline` between rounds: jobs keep their promises, and running jobs do work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from placewright.instances.derived.lease_arithmetic import work_per_lease
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.round import Round

KIND = "leases"


def jobs_with_promises(round_: Round, sections: Iterable[Mapping[str, Any]]) -> tuple[Job, ...]:
    """Return the jobs of a round with the promises that they have after a valid plan."""
    if "leases" not in round_.policy.spec.sections:
        return round_.jobs
    given = promises_in(sections)
    return tuple(_promised(job, given.get(job.name)) for job in round_.jobs)


def promises_in(sections: Iterable[Mapping[str, Any]]) -> dict[str, Due]:
    """Return what the sections of a valid plan promise each job, by name."""
    return {
        entry["job"]: Due.model_validate(entry["promise"])
        for section in sections
        if section["kind"] == KIND
        for entry in section["jobs"]
    }


def _promised(job: Job, promise: Due | None) -> Job:
    deadline = job.deadline
    if deadline is None or deadline.promise == promise:
        return job
    return job.model_copy(update={"deadline": deadline.model_copy(update={"promise": promise})})


def jobs_after_work(jobs: Iterable[Job], leases: Leases, seconds: int) -> tuple[Job, ...]:
    """Return the jobs after running ones have worked for some seconds.

    A job that should be done keeps one second of work until it is removed.
    """
    return tuple(_after(job, leases, seconds) for job in jobs)


def _after(job: Job, leases: Leases, seconds: int) -> Job:
    deadline = job.deadline
    if deadline is None or job.running is None:
        return job
    pace = deadline.pace(job.running.option)
    hosts = len({task.host for task in job.running.tasks})
    whole, part = divmod(seconds, leases.length_s)
    done = whole * work_per_lease(pace, leases.length_s, hosts) + work_per_lease(pace, part, hosts)
    left = max(1, (deadline.work - done) // 1000)
    return job.model_copy(update={"deadline": deadline.model_copy(update={"work_s": left})})
