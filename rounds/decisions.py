"""From a candidate to the decisions of a Plan document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Reason, Task
from placewright.instances.documents.round import Round
from placewright.rounds.displacement.victims import displacers


class Why(NamedTuple):
    """Why a job waits: a reason, and the facts of it."""

    reason: Reason
    detail: Detail | None = None


class DefaultDecisions:
    """The decisions of a round in which nothing happens; those of jobs seen before are reused.

    It keeps the last round alive.
    """

    def __init__(self) -> None:
        self._round: Round | None = None
        self._known: dict[int, Decision] = {}

    def __call__(self, round_: Round) -> tuple[Decision, ...]:
        """Return a decision per job: running jobs are kept, pending jobs wait."""
        # By identity: jobs do not change, and those known are alive, so an id is one job's own.
        known = self._known
        self._known = {id(job): known.get(id(job)) or _default_decision(job) for job in round_.jobs}
        self._round = round_
        return tuple(self._known.values())


def _default_decision(job: Job) -> Decision:
    if job.running is None:
        return wait_decision(job)
    return Decision.model_construct(
        job=job.name,
        decision=DecisionKind.KEEP,
        option=job.running.option,
        tasks=job.running.tasks,
    )


def wait_decision(job: Job, why: Why | None = None) -> Decision:
    """Return the decision by which a job waits."""
    if why is None:
        return Decision.model_construct(job=job.name, decision=DecisionKind.WAIT)
    return Decision.model_construct(
        job=job.name, decision=DecisionKind.WAIT, reason=why.reason, detail=why.detail
    )


def with_reasons(
    round_: Round, decisions: tuple[Decision, ...], reasons: Mapping[int, Why]
) -> tuple[Decision, ...]:
    """Return decisions with the reasons of jobs that wait; the same ones if none changes."""
    new = {
        j: why for j, why in reasons.items() if (decisions[j].reason, decisions[j].detail) != why
    }
    if not new:
        return decisions
    reasoned = list(decisions)
    for j, why in new.items():
        reasoned[j] = wait_decision(round_.jobs[j], why)
    return tuple(reasoned)


def with_invalid(round_: Round, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return the decisions of a round's valid jobs, and between them those of its invalid jobs."""
    valid = iter(decisions)
    return tuple(
        wait_decision(job, Why(Reason.INVALID, Detail(message=round_.invalid[job.name])))
        if job.name in round_.invalid
        else next(valid)
        for job in round_.jobs
    )


def tasks_of(candidate: Candidate, job: int, hosts: Sequence[str]) -> tuple[Task, ...]:
    """Return the tasks of a job that a candidate starts or moves, its hosts by name."""
    places = candidate.starts[job][1]
    slots = candidate.slots.get(job) or (None,) * len(places)
    return tuple(
        Task.model_construct(group=g, index=i, host=hosts[h], gpus=gpus, slot=slot)
        for (g, i, h, gpus), slot in zip(places, slots, strict=True)
    )


def decisions_of(
    round_: Round,
    hosts: tuple[str, ...],
    default_decisions: Sequence[Decision],
    candidate: Candidate,
    *,
    named: bool = True,
) -> tuple[Decision, ...]:
    """One decision per job in the round's order; jobs wait without a reason, or for data.

    `named`: whether preempted jobs name who displaces them.
    """
    decisions = list(default_decisions)
    for index in () if candidate.data is None else candidate.data.waits:
        decisions[index] = wait_decision(round_.jobs[index], Why(Reason.DATA))
    for index, (option, _) in candidate.starts.items():
        job = round_.jobs[index]
        kind = DecisionKind.START
        if job.running is not None:
            same = option == job.running.option
            kind = DecisionKind.MIGRATE if same else DecisionKind.RESIZE
        decisions[index] = Decision.model_construct(
            job=job.name,
            decision=kind,
            option=option,
            tasks=tasks_of(candidate, index, hosts),
        )
    by_victim = (
        displacers(round_, hosts, candidate) if named else dict.fromkeys(candidate.preempted)
    )
    for index, by in by_victim.items():
        decisions[index] = Decision.model_construct(
            job=round_.jobs[index].name,
            decision=DecisionKind.PREEMPT,
            displaced_by=tuple(round_.jobs[j].name for j in by or ()),
        )
    return tuple(decisions)
