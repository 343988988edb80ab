"""Whether a job of Slurm runs, may start, or waits for something that a round does not decide."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.derived import slurm_marks

RUNS = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "RESIZING", "SIGNALING"})
ENDING = frozenset({"COMPLETING", "STAGE_OUT"})
HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "JobHeld"})
BY_USER = frozenset({"JobHeldUser", "JobHeld"})
"""Also what a job is that is held as it is submitted, or as it is requeued."""

DEPENDS = frozenset({"Dependency", "DependencyNeverSatisfied"})
BEGINS_LATER = frozenset({"BeginTime"})
ACCOUNT_LIMITS = frozenset({"AssocGrpGRES", "AssocGrpJobsLimit", "AssocMaxJobsLimit"})
QOS_LIMITS = frozenset(
    {
        "QOSGrpGRES",
        "QOSGrpJobsLimit",
        "QOSMaxGRESPerUser",
        "QOSMaxGRESPerAccount",
        "QOSMaxJobsPerUserLimit",
        "QOSMaxJobsPerAccountLimit",
    }
)
"""Reasons of limits that caps say, as Slurm names them with or without `Limit` at the end."""

ARRAY_LIMIT = "JobArrayTaskLimit"
NEVER = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "InactiveLimit",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionDown",
        "PartitionInactive",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "PartitionConfig",
        "QOSNotAllowed",
        "Reservation",
        "ReservationDeleted",
        "TimeLimit",
    }
)


def runs(job: SlurmJob) -> bool:
    """Whether a job holds its nodes and goes on."""
    return bool(job.states & RUNS) and not job.states & ENDING


def held(job: SlurmJob) -> bool:
    """Whether its user or an administrator holds a pending job, and not Placewright."""
    if job.state_reason in BY_USER and job.admin_comment.startswith(slurm_marks.HELD):
        return False
    return job.hold or job.state_reason in HELD


def not_before(job: SlurmJob, now: int) -> int | None:
    """Return from when on a pending job may start, None for now."""
    at = job.eligible_time or 0
    return at if job.state_reason in BEGINS_LATER and at > now else None


def check_pending(job: SlurmJob, limits: Limits, now: int) -> None:
    """Refuse a job that is not pending, or waits for what a round does not decide.

    Raises
    ------
    LeftOutError
        With the reason.
    """
    reason = job.state_reason
    if "PENDING" not in job.states:
        raise LeftOutError("ending" if job.states & ENDING else "neither running nor pending")
    if reason in DEPENDS or "unfulfilled" in job.dependency:
        raise LeftOutError("waits for another job (dependency)")
    if reason == ARRAY_LIMIT:
        raise LeftOutError("held by the limit of its array")
    if reason in BEGINS_LATER and not_before(job, now) is None:
        raise LeftOutError("begins later, and the dump does not say when")
    if reason in NEVER or "PerJob" in reason:
        raise LeftOutError(f"not eligible ({reason})")
    if reason.startswith(("Assoc", "QOS")) and not _is_known(job, limits):
        raise LeftOutError(f"held by a limit that the round does not have ({reason})")


def _is_known(job: SlurmJob, limits: Limits) -> bool:
    """Whether the limit that a job waits for is in the round."""
    reason = job.state_reason.removesuffix("Limit")
    if reason in {one.removesuffix("Limit") for one in QOS_LIMITS}:
        return job.qos in limits.qos
    path = limits.path(job.account or "")
    owners = {*limits.together, *limits.jobs_of_users}
    return reason in {one.removesuffix("Limit") for one in ACCOUNT_LIMITS} and any(
        account in path for account, _, _ in owners
    )


def reservations_of_pending(jobs: Iterable[SlurmJob], limits: Limits, now: int) -> frozenset[str]:
    """Return the reservations that jobs name which `check_pending` does not refuse."""
    found: set[str] = set()
    for job in jobs:
        if job.reservation and job.reservation not in found:
            with suppress(LeftOutError):
                check_pending(job, limits, now)
                found.add(job.reservation)
    return frozenset(found)
