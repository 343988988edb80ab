"""A picture of two plans: the map before, and the map after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from placewright.cli.views.gang.facts import occupancy_of
from placewright.cli.views.picture import draw
from placewright.instances.derived.hardware import hardware
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.plan import Decision, DecisionKind, Plan

if TYPE_CHECKING:
    from placewright.instances.documents.round import Round


def check_has_gpus(round_: Round, file: str) -> None:
    """Refuse early to draw a cluster without GPUs.

    Raises
    ------
    typer.BadParameter
        If there is nothing to draw.
    """
    if not any(hardware(entry).gpus for entry in round_.cluster.hosts):
        raise typer.BadParameter(f"{file} has no GPUs to draw", param_hint="--picture")


def draw_difference(
    round_: Round, plan: Plan, round_after: Round, plan_after: Plan, path: str
) -> None:
    """Draw what runs after each of two plans, on the cluster of the second round.

    Jobs that run in the second plan alone are drawn as started, those that run in the first alone
    as preempted, those that are elsewhere as migrated.
    """
    jobs = {job.name: job for job in round_.jobs} | {job.name: job for job in round_after.jobs}
    old = {job.name: job for job in round_.jobs}
    before = {decision.job: decision for decision in plan.decisions if decision.tasks}
    after = {decision.job: decision for decision in plan_after.decisions if decision.tasks}
    made: list[Job] = []
    decisions: list[Decision] = []
    for name, job in jobs.items():
        first, second = before.get(name), after.get(name)
        if first is None and second is None:
            continue
        options, running = job.options, None
        if first is not None:
            # The two may have other options; each is drawn with its own.
            options = (*options, old[name].options[first.option or 0])
            running = Running.model_construct(option=len(options) - 1, tasks=first.tasks)
        made.append(job.model_copy(update={"options": options, "running": running}))
        decisions.append(_decision(name, first, second))
    drawn = round_after.model_copy(update={"jobs": tuple(made)})
    change = Plan(decisions=tuple(decisions), sections=plan_after.sections)
    occupancy = occupancy_of(drawn, change, both=True)
    title = f"Before and after: {round_after.name}"
    draw(
        occupancy,
        path,
        title,
        "migrated: elsewhere after; preempted: runs before only; started: runs after only",
        lambda _: None,
    )


def _decision(name: str, first: Decision | None, second: Decision | None) -> Decision:
    if second is None:
        return Decision(job=name, decision=DecisionKind.PREEMPT)
    kind = DecisionKind.MIGRATE
    if first is None:
        kind = DecisionKind.START
    elif first.tasks == second.tasks:
        kind = DecisionKind.KEEP
    return Decision(job=name, decision=kind, option=second.option, tasks=second.tasks)
