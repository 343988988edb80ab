"""The moves of a plan in their order: which running jobs stop or move, from where and to where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from placewright.instances.documents.plan import DecisionKind
from placewright.report.text import place

if TYPE_CHECKING:
    from placewright.instances.documents.job import Job, Running
    from placewright.instances.documents.plan import Decision, Plan, Task


class Move(NamedTuple):
    """One running job that stops or moves, and the places of those of its tasks that do.

    `milli_gpu` counts those tasks only; `target` names, for a preempted job, who displaces it.
    `spare`: the job reaches its new place only through another one, or by being stopped first.
    """

    job: str
    kind: DecisionKind
    milli_gpu: int
    source: str
    target: str
    spare: bool


def moves_of(jobs: Mapping[str, Job], plan: Plan) -> list[Move]:
    """Return the moves of a valid plan in the order of its section, those by a spare place last."""
    decisions = {decision.job: decision for decision in plan.decisions}
    return [
        _move(jobs[name], running, decisions[name], spare)
        for section in plan.sections
        if section["kind"] == "moves"
        for names, spare in ((section["steps"], False), (section["needs_spare"], True))
        for name in names
        if (running := jobs[name].running) is not None
    ]


def _move(job: Job, running: Running, decision: Decision, spare: bool) -> Move:
    before, after = running.tasks, decision.tasks
    stays = {_identity(task) for task in before} & {_identity(task) for task in after}
    leaving = [task for task in before if _identity(task) not in stays]
    if decision.decision is DecisionKind.PREEMPT:
        by = decision.displaced_by
        target = f"displaced by {', '.join(by)}" if by else "a host is away"
    else:
        target = place([task for task in after if _identity(task) not in stays])
    groups = job.options[running.option].groups
    return Move(
        job=job.name,
        kind=decision.decision,
        milli_gpu=sum(groups[task.group].gpu for task in leaving),
        source=place(leaving),
        target=target,
        spare=spare,
    )


def _identity(task: Task) -> tuple[int, int, str, frozenset[int], int | None]:
    """Key that is equal before and after if a task stays: task, host, GPUs and slot."""
    return task.group, task.index, task.host, frozenset(task.gpus), task.slot
