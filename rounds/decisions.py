"""From a candidate to the decisions of a Plan document."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.formulations.session import Candidate
from placewright.instances.plan import Decision, DecisionKind, Reason, Task
from placewright.instances.round import Round


def keeps(round_: Round) -> dict[int, Decision]:
    """Decisions of the running jobs, by index in the round, if each stays where it is."""
    return {
        index: Decision.model_construct(
            job=job.name,
            decision=DecisionKind.KEEP,
            option=job.running.option,
            tasks=job.running.tasks,
        )
        for index, job in enumerate(round_.jobs)
        if job.running is not None
    }


def decide(
    round_: Round,
    hosts: tuple[str, ...],
    kept: Mapping[int, Decision],
    candidate: Candidate,
) -> tuple[Decision, ...]:
    """One decision per job in the round's order; who waits does so as `not_chosen`."""
    decisions = []
    for index, job in enumerate(round_.jobs):
        if index in candidate.starts:
            option, places = candidate.starts[index]
            tasks = tuple(
                Task.model_construct(group=g, index=i, host=hosts[h], gpus=gpus)
                for g, i, h, gpus in places
            )
            migrates = index in kept
            decisions.append(
                Decision.model_construct(
                    job=job.name,
                    decision=DecisionKind.MIGRATE if migrates else DecisionKind.START,
                    option=option,
                    tasks=tasks,
                )
            )
        elif index in candidate.preempted:
            decisions.append(
                Decision.model_construct(
                    job=job.name,
                    decision=DecisionKind.PREEMPT,
                    displaced_by=round_.jobs[candidate.preempted[index]].name,
                )
            )
        elif index in kept:
            decisions.append(kept[index])
        else:
            decisions.append(
                Decision.model_construct(
                    job=job.name, decision=DecisionKind.WAIT, reason=Reason.NOT_CHOSEN
                )
            )
    return tuple(decisions)
