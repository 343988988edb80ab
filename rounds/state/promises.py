"""Policy `deadline` between rounds: jobs keep their promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
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
