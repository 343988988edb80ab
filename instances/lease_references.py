"""Whether deadlines, the section `leases` and the rest of a round agree with each other."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.hardware import Hardware
from placewright.instances.job import Job
from placewright.instances.leases import away
from placewright.instances.naming import known_hosts
from placewright.instances.round import Round

DEADLINE = "deadline"


def check_deadlines(round_: Round) -> None:
    """Refuse deadlines that the policy does not use, or that do not suit their jobs.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    used = round_.policy.formulation == DEADLINE
    for i, job in enumerate(round_.jobs):
        if job.deadline is None:
            continue
        if not used:
            raise InvalidInputError(
                f"not used by policy {round_.policy.formulation!r}; expected none",
                path=("jobs", i, "deadline"),
                show_value=False,
            )
        _check_job(job, round_.now, ("jobs", i, "deadline"))


def _check_job(job: Job, now: int, path: Path) -> None:
    deadline = job.deadline
    if deadline is None:
        return
    if deadline.paces and len(deadline.paces) != len(job.options):
        raise InvalidInputError(
            f"{len(deadline.paces)} paces; expected {len(job.options)}, one for each option, "
            "or none",
            path=(*path, "paces"),
            show_value=False,
        )
    if job.running is not None and deadline.ready is not None and deadline.ready > now:
        raise InvalidInputError(
            f"is later than now, and the job runs; expected at most {now}",
            path=(*path, "ready"),
            value=deadline.ready,
        )


def check_leases(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse outages of unknown hosts or under pinned jobs, and what the policy does not read.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    if round_.policy.formulation != DEADLINE:
        return
    for i, outage in enumerate(round_.leases.outages):
        known_hosts(outage.host, hosts, ("leases", "outages", i, "host"))
    gone = away(round_.leases, round_.now)
    for i, job in enumerate(round_.jobs if gone else ()):
        if job.running is None or not job.running.pinned:
            continue
        for task in job.running.tasks:
            if task.host in gone:
                raise InvalidInputError(
                    f"runs on host {task.host}, which is away in the current lease; expected a job "
                    "that may leave",
                    path=("jobs", i, "running", "pinned"),
                    value=True,
                )
