"""What a plan decides about Slurm's jobs: their numbers, users, and hosts before and after."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from placewright.instances.checks.invalid_jobs import checked
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_USER,
)
from placewright.instances.errors import InvalidInputError

JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
HOLD, FIELDS = "Hold", ("ReqNodeList", "ReservationName")


class SlurmPlace(NamedTuple):
    """A decision that changes a job, or lets it wait.

    Attributes
    ----------
    job : str
        Its number, `17` or `17_4`.
    user : str
        Its user, "" if that is not known.
    before, after : tuple of str
        Hosts, sorted.
    several : bool
        Whether it has several components.
    ours : tuple of str
        Fields that an earlier plan had set.
    released : bool
        Whether it was Placewright's hold from which an earlier plan released it.
    """

    job: str
    user: str
    decision: Decision
    before: tuple[str, ...]
    after: tuple[str, ...]
    several: bool
    ours: tuple[str, ...]
    released: bool


def places_of(round_: Round, plan: Plan) -> dict[str, SlurmPlace]:
    """Return what a plan decides about jobs that it does not keep, by their name in the round.

    Raises
    ------
    InvalidInputError
        A job is not named by its number, or a host or user has a name that Slurm cannot have.
    """
    jobs = {job.name: job for job in checked(round_).jobs}
    return {
        decision.job: _place(jobs[decision.job], decision, i)
        for i, decision in enumerate(plan.decisions)
        if decision.decision is not DecisionKind.KEEP
    }


def _place(job: Job, decision: Decision, at: int) -> SlurmPlace:
    number = job.annotations.get(SLURM_JOB, job.name)
    if not JOB.fullmatch(number):
        raise InvalidInputError(
            "expected the number of a Slurm job, such as 17 or 17_4, which convert slurm gives",
            path=("decisions", at, "job"),
            value=number,
        )
    before = () if job.running is None else _hosts(job.running.tasks)
    after = _hosts(decision.tasks)
    for name in (*before, *after):
        if not HOST.fullmatch(name):
            raise InvalidInputError(
                "expected the name of a Slurm node: letters, digits, '.', '_' and '-', not '-' "
                "first",
                path=("decisions", at, "tasks"),
                value=name,
            )
    user = job.annotations.get(SLURM_USER, "")
    if user and not USER.fullmatch(user):
        raise InvalidInputError(
            "expected the name of a user: letters, digits, '.', '_', '@' and '-', not '-' first",
            path=("decisions", at, "job"),
            value=user,
        )
    named = job.annotations.get(SLURM_OURS, "").split(",")
    return SlurmPlace(
        job=number,
        user=user,
        decision=decision,
        before=before,
        after=after,
        several="," in job.annotations.get(SLURM_COMPONENTS, ""),
        ours=tuple(name for name in FIELDS if name in named),
        released=HOLD in named,
    )


def _hosts(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(sorted({task.host for task in tasks}))
