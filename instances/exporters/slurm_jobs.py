"""What a plan decides about Slurm's jobs: their numbers, users, and hosts before and after."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.slurm_marks import NODE_LIST, NODE_NAME, NUM_NODES
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    SLURM_ASKED,
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_PREEMPT,
    SLURM_USER,
)

JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
CannotSay = Callable[[str, str], None]
GRACE = re.compile(r"[0-9]{1,3}")
HOLD, FIELDS = "Hold", (NUM_NODES, NODE_LIST, "ReservationName")
_ASKED = re.compile(
    rf"(?:{NUM_NODES}=[0-9]{{1,9}}-[0-9]{{1,9}})? ?(?:{NODE_LIST}=[A-Za-z0-9_.,\[\]-]{{1,200}})?"
)


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
    heterogeneous : bool
        Whether it has components, whose hosts Slurm chooses as it starts them together: it takes
        none for the first, which would then take those of the others, and nothing would start.
    ours : tuple of str
        Fields that an earlier plan had set.
    asked : str
        What its user asks for in fields that a plan sets: `NumNodes=2-4 ReqNodeList=h1`.
    released : bool
        Whether it was Placewright's hold from which an earlier plan released it.
    preempted : str
        How it is preempted, `requeue` or `cancel`.
    grace_s : int
        Seconds that it has to end by itself before that.
    """

    job: str
    user: str
    decision: Decision
    before: tuple[str, ...]
    after: tuple[str, ...]
    heterogeneous: bool
    ours: tuple[str, ...]
    asked: str
    released: bool
    preempted: str = "requeue"
    grace_s: int = 0

    @property
    def by_user(self) -> dict[str, str]:
        """What its user asks for, by field."""
        return dict(one.split("=", 1) for one in self.asked.split())

    @property
    def undone(self) -> list[str]:
        """Arguments that give the fields which an earlier plan had set what the user asks for."""
        return [f"{name}={self.by_user.get(name, '')}" for name in self.ours]


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
    asked = job.annotations.get(SLURM_ASKED, "")
    if not _ASKED.fullmatch(asked):
        cannot_say("jobs of which what the user asks for could not be given back", number)
        return None
    how, _, grace = job.annotations.get(SLURM_PREEMPT, "").partition(",")
    heterogeneous = "," in job.annotations.get(SLURM_COMPONENTS, "")
    return SlurmPlace(
        job=number,
        user=user,
        decision=decision,
        before=before,
        after=after,
        heterogeneous=heterogeneous,
        asked=asked,
        ours=tuple(name for name in FIELDS if name in named and not heterogeneous),
        released=HOLD in named,
        preempted="cancel" if how == "cancel" else "requeue",
        grace_s=int(grace) if GRACE.fullmatch(grace) else 0,
    )


def _hosts(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(sorted({task.host for task in tasks}))
