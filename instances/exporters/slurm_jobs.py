"""What a plan decides about Slurm's jobs: their numbers, users, and hosts before and after."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from placewright.instances.checks.invalid_jobs import checked
from placewright.instances.derived.slurm_marks import NODE_NAME
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_USER,
)

JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
CannotSay = Callable[[str, str], None]
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


def places_of(round_: Round, plan: Plan, cannot_say: CannotSay) -> dict[str, SlurmPlace]:
    """Return what a plan decides about jobs that it does not keep, by their name in the round.

    Those that have no number, or a host with a name that Slurm cannot have, are left out, which
    `cannot_say` is told. A user with such a name is not known.
    """
    jobs = {job.name: job for job in checked(round_).jobs}
    found = {}
    for decision in plan.decisions:
        if decision.decision is not DecisionKind.KEEP:
            place = _place(jobs[decision.job], decision, cannot_say)
            if place is not None:
                found[decision.job] = place
    return found


def _place(job: Job, decision: Decision, cannot_say: CannotSay) -> SlurmPlace | None:
    number = job.annotations.get(SLURM_JOB, job.name)
    if not JOB.fullmatch(number):
        cannot_say("jobs without a number such as 17 or 17_4, which convert slurm gives", job.name)
        return None
    before = () if job.running is None else _hosts(job.running.tasks)
    after = _hosts(decision.tasks)
    if not all(NODE_NAME.fullmatch(name) for name in (*before, *after)):
        cannot_say("jobs on hosts with names that Slurm cannot have", number)
        return None
    user = job.annotations.get(SLURM_USER, "")
    if user and not USER.fullmatch(user):
        cannot_say("users with names that no reservation can have: as if not known", number)
        user = ""
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
