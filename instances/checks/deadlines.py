"""Checks of deadlines and the section `leases` against the rest of a round.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.derived.hardware import Hardware, hardware
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.names import known_hosts
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path

MAX_CELLS = 50_000_000
"""Leases times jobs with deadlines; for each of these it is decided whether the job runs."""
MAX_ROWS = 64
"""Most sets of GPU models with capacity rows, unions of overlapping sets included."""


def check_deadlines(round_: Round) -> None:
    """Refuse deadlines that do not suit their jobs."""
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        errors.note(_check_job, job, round_.now, ("jobs", i, "deadline"))
    errors.note(_check_models, round_)
    errors.refuse()


def _check_job(job: Job, now: int, path: Path) -> None:
    deadline = job.deadline
    if deadline is None:
        return
    if deadline.paces and len(deadline.paces) != len(job.options):
        raise InvalidInputError(
            f"{len(deadline.paces)} paces; expected {len(job.options)}, one for each option, "
            "or none",
            (*path, "paces"),
        )
    if job.running is not None and deadline.ready is not None and deadline.ready > now:
        raise InvalidInputError(
            f"is later than now, and the job runs; expected at most {now}",
            (*path, "ready"),
            deadline.ready,
        )


def _check_models(round_: Round) -> None:
    """Refuse task groups whose sets of GPU models make too many rows."""
    every = frozenset(one for entry in round_.cluster.hosts if (one := hardware(entry).gpu_model))
    sets: set[frozenset[str]] = set()
    for i, job in enumerate(round_.jobs):
        for j, option in enumerate(job.options if job.deadline is not None else ()):
            for k, group in enumerate(option.groups):
                mine = every if group.gpu_models is None else frozenset(group.gpu_models)
                if group.gpu and mine not in sets:
                    sets.add(mine)
                    if len(unions(sets)) > MAX_ROWS:
                        raise InvalidInputError(
                            f"overlaps with those of other jobs in more than {MAX_ROWS} ways; "
                            "expected models that fewer combinations cover",
                            ("jobs", i, "options", j, "groups", k, "gpu_models"),
                        )


def unions(sets: Collection[frozenset[str]]) -> set[frozenset[str]]:
    """Return some sets of GPU models, and the unions of those that overlap.

    It stops once they are too many. Demands that may each use one of the sets fit beside each other
    exactly if, of each of these, those inside it ask no more than it has (Hall's condition).
    """
    family, waiting = set(sets), list(sets)
    while waiting and len(family) <= MAX_ROWS:
        one = waiting.pop()
        for other in sets:
            if one & other and one | other not in family:
                family.add(one | other)
                waiting.append(one | other)
    return family


def check_leases(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse outages of unknown hosts or under pinned jobs, and more leases than can be planned."""
    asking = sum(job.deadline is not None for job in round_.jobs)
    if asking * round_.leases.horizon > MAX_CELLS:
        raise InvalidInputError(
            f"times {asking:,} jobs with deadlines; expected at most {MAX_CELLS:,} together",
            ("leases", "horizon"),
            round_.leases.horizon,
        )
    errors = Errors()
    for i, outage in enumerate(round_.leases.outages):
        errors.note(known_hosts, outage.host, hosts, ("leases", "outages", i, "host"))
    errors.refuse()
    gone = unavailable_hosts(round_.leases, round_.now)
    for i, job in enumerate(round_.jobs if gone else ()):
        if job.running is None or not job.running.pinned:
            continue
        for task in job.running.tasks:
            if task.host in gone:
                raise InvalidInputError(
                    f"runs on host {task.host}, which is away in the current lease; expected a job "
                    "that may leave",
                    ("jobs", i, "running", "pinned"),
                    True,
                )


CHECKS = PolicyChecks(check_deadlines, check_leases)
"""What the policy `deadline` refuses."""
