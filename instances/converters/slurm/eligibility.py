"""Whether a job of Slurm runs, may start, or waits for something that a round does not decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from placewright.instances.converters.slurm.accounting import NONE, Limit
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.derived import slurm_marks
from placewright.instances.documents.option import TaskGroup
from placewright.topology.units import WHOLE_GPU

RUNS = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "RESIZING", "SIGNALING"})
ENDING = frozenset({"COMPLETING", "STAGE_OUT"})
HELD = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "JobHeld"})
BY_USER = frozenset({"JobHeldUser", "JobHeld"})
"""Also what a job is that is held as it is submitted, or as it is requeued."""

DEPENDS = frozenset({"Dependency", "DependencyNeverSatisfied"})
ENDED = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
)
FULFILS = {"afterany": ENDED, "afterok": frozenset({"COMPLETED"})}
"""States of a job by the dependency that they fulfil."""

_UNFULFILLED = re.compile(r"(afterany|afterok):([0-9]+)\(unfulfilled\)")
BEGINS_LATER = frozenset({"BeginTime"})
_LIMIT = re.compile(
    r"(Assoc|QOS)(?:Grp|Max)(GRES|Cpu|Mem|Node|Jobs)(?:ory)?(?:Per(?:User|Account))?(?:Limit)?"
)
"""Reasons of limits that caps say, and what each is on."""

_COUNTED = {"Cpu": "cpu", "Mem": "mem", "Node": "node"}
_GPUS = "gres/gpu"
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
    return at if at > now else None


def depends(job: SlurmJob) -> bool:
    """Whether a pending job waits for others: a hold hides the reason, and not what it names."""
    left = [one for one in re.split(r"[,?]", job.dependency) if not one.endswith("(fulfilled)")]
    return job.state_reason in DEPENDS or any(left)


def with_fulfilled(jobs: Sequence[SlurmJob]) -> tuple[SlurmJob, ...]:
    """Return jobs whose dependencies are fulfilled if the jobs that they name are said to be.

    Slurm looks at those of a job that is held once a minute, and lists it as waiting until then.
    """
    states: dict[str, list[frozenset[str]]] = {}
    for job in jobs:
        for number in {job.job_id, job.array_job_id or 0, job.het_job_id or 0} - {0}:
            states.setdefault(str(number), []).append(frozenset(job.states))

    def checked(found: re.Match[str]) -> str:
        seen = states.get(found[2], ())
        fulfilled = bool(seen) and all(one <= FULFILS[found[1]] for one in seen)
        return f"{found[1]}:{found[2]}(fulfilled)" if fulfilled else found[0]

    return tuple(
        job.model_copy(update={"dependency": _UNFULFILLED.sub(checked, job.dependency)})
        if "(unfulfilled)" in job.dependency
        else job
        for job in jobs
    )


def check_pending(job: SlurmJob, limits: Limits, now: int, qos: Iterable[str] = ()) -> None:
    """Refuse a job that is not pending, or waits for what a round does not decide.

    Raises
    ------
    LeftOutError
        With the reason.
    """
    reason = job.state_reason
    if "PENDING" not in job.states:
        raise LeftOutError("ending" if job.states & ENDING else "neither running nor pending")
    if depends(job):
        raise LeftOutError("waits for another job (dependency)")
    if reason == ARRAY_LIMIT:
        raise LeftOutError("held by the limit of its array")
    if reason in BEGINS_LATER and not_before(job, now) is None:
        raise LeftOutError("begins later, and the dump does not say when")
    if reason in NEVER or "PerJob" in reason:
        raise LeftOutError(f"not eligible ({reason})")
    if reason.startswith(("Assoc", "QOS")) and not _is_known(job, limits, {job.qos, *qos}):
        raise LeftOutError(f"held by a limit that the round does not have ({reason})")


def check_limits(
    job: SlurmJob, groups: Sequence[TaskGroup], qos: Iterable[str], limits: Limits
) -> None:
    """Refuse a pending job that asks for more than a single one may have.

    Raises
    ------
    LeftOutError
        With the limit: of what is limited in several places, the first holds.
    """
    asked: dict[str, int] = {
        "cpu": -(-sum(group.cpu * group.count for group in groups) // 1000),
        "mem": sum(group.memory * group.count for group in groups),
        "node": job.least_nodes,
    }
    on_node: dict[str, int] = {
        "cpu": -(-max(group.cpu for group in groups) // 1000),
        "mem": max(group.memory for group in groups),
    }
    asked[_GPUS], on_node[_GPUS] = (
        -(-amount // WHOLE_GPU)
        for amount in (sum(g.milli_gpu for g in groups), max(g.gpu for g in groups))
    )
    for group in groups:
        models = group.gpu_models or ()
        for model in models if len(models) == 1 else ():
            key = f"{_GPUS}:{model}"
            asked[key] = asked.get(key, 0) + group.milli_gpu // WHOLE_GPU
            on_node[key] = max(on_node.get(key, 0), group.gpu // WHOLE_GPU)
    minutes = job.time_limit or 0
    used = {key: amount * minutes for key, amount in asked.items()}
    met: set[tuple[str, str]] = set()
    for owner, limit in limits.of_job(job.account or "", job.user_name, qos):
        time = NONE if limit.minutes is None else Limit(others={"minutes (MaxWall)": limit.minutes})
        for kind, said, amounts, per in (
            ("most", limit.asked, asked, " a job"),
            ("node", limit.per_node, on_node, " a node"),
            ("time", time, {"minutes (MaxWall)": minutes}, ""),
            ("used", limit.by_time, used, " times minutes a job (MaxTRESMins)"),
            ("least", limit.least, asked, " a job (MinTRES)"),
        ):
            least = kind == "least"
            for key, number in _by_name(said).items():
                amount = amounts.get(key, number if least else 0)
                if (kind, key) not in met and (amount < number if least else amount > number):
                    raise LeftOutError(
                        f"not eligible: {owner} {'asks' if least else 'allows'} "
                        f"{number:,} {key}{per}, the job asks {amount:,}"
                    )
                met.add((kind, key))


def _by_name(limit: Limit) -> dict[str, int]:
    """Return what is limited by its name: `gres/gpu:h100`, `cpu`."""
    return {f"{_GPUS}:{m}" if m else _GPUS: most for m, most in limit.gpus.items()} | dict(
        limit.others
    )


def _is_known(job: SlurmJob, limits: Limits, qos: Iterable[str]) -> bool:
    """Whether the limit that a job waits for is in the round."""
    match = _LIMIT.fullmatch(job.state_reason)
    if match is None:
        return job.state_reason.startswith("QOSMin") and any(
            one.least for name in qos if (one := limits.job_of_qos.get(name))
        )  # `check_limits` has these
    what = _COUNTED.get(match[2])
    if match[1] == "QOS":
        known = [limit for name in qos for limit in limits.qos.get(name, ())]
        return any(what in limit.others if what else limit for limit in known)
    owners = {owner for owner, one in limits.together.items() if not what or what in one.others}
    owners |= set() if what else set(limits.jobs_of_users)
    path = limits.path(job.account or "")
    return any(account in path for account, _, _ in owners)


def reservations_of_pending(jobs: Iterable[SlurmJob], limits: Limits, now: int) -> frozenset[str]:
    """Return the reservations that jobs name which `check_pending` does not refuse."""
    found: set[str] = set()
    for job in jobs:
        if job.reservation and job.reservation not in found:
            with suppress(LeftOutError):
                check_pending(job, limits, now)
                found.add(job.reservation)
    return frozenset(found)
