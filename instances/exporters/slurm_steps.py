"""A plan for Slurm as steps: commands as argument lists, each step with the state it is for.

Steps can be written as text of a shell (`slurm`), or be run one by one without any shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from placewright.instances.derived.reason_text import reason_text
from placewright.instances.derived.slurm_marks import (
    HELD,
    MOVES,
    PLACED,
    PREEMPTED,
    STARTS,
    WAITS,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable

MAX_COMMENT = 500
"""Characters of an AdminComment."""

_JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class State(StrEnum):
    """What a job must be for a step to be taken.

    `pending`: it waits, and nobody but Placewright holds it. `running`: it runs on exactly the
    hosts of the step. `stopped`: Placewright stopped and holds it; this may take some seconds after
    it was told to stop, in which the step waits.
    """

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"


class Command(NamedTuple):
    """A command as an argument list, for any job, or only for one that is held as the step begins.

    `held` False: only for one that is not.
    """

    words: tuple[str, ...]
    held: bool | None = None


class Step(NamedTuple):
    """Commands about one job, which are given only if it is in a state; `does` says what for.

    `hosts` are those on which a running job has to be.
    """

    job: str
    does: str
    state: State
    commands: tuple[Command, ...]
    hosts: tuple[str, ...] = ()


@dataclass(slots=True)
class Steps:
    """The steps of a plan in order, and what Slurm cannot be told, with the jobs it is about."""

    steps: list[Step] = field(default_factory=list)
    unsaid: dict[str, list[str]] = field(default_factory=dict)

    def cannot_say(self, what: str, job: str) -> None:
        """Note what Slurm cannot be told about a job."""
        self.unsaid.setdefault(what, []).append(job)


def slurm_steps(round_: Round, plan: Plan) -> Steps:
    """Return the steps that carry a valid plan out, in the order of its moves.

    Jobs are preempted first, then those are stopped that cannot move directly, then the others
    move, these restart, jobs start, and last those that wait are told why.

    Raises
    ------
    InvalidInputError
        A job is not named by its number, as `convert slurm` does, or a host has a name that Slurm
        cannot have.
    """
    jobs = {job.name: job for job in round_.jobs}
    made = Steps()
    for i, decision in enumerate(plan.decisions):
        if decision.decision is not DecisionKind.KEEP:
            _check_names(decision, jobs[decision.job], i)
    decisions = {decision.job: decision for decision in plan.decisions}
    made.steps += _moves(jobs, decisions, plan, made)
    for decision in plan.decisions:
        if decision.decision is DecisionKind.START:
            made.steps += _start(jobs[decision.job], decision, made)
    for decision in plan.decisions:
        if decision.decision is DecisionKind.WAIT and decision.reason is not Reason.HELD:
            made.steps.append(_wait(decision))
    return made


def host_list(hosts: Iterable[str]) -> str:
    """Return hosts as a host list of Slurm."""
    return ",".join(hosts)


def _check_names(decision: Decision, job: Job, at: int) -> None:
    if not _JOB.fullmatch(decision.job):
        raise InvalidInputError(
            "expected the number of a Slurm job, such as 17 or 17_4, which convert slurm gives",
            path=("decisions", at, "job"),
            value=decision.job,
        )
    here = job.running.tasks if job.running is not None else ()
    for name in _hosts((*decision.tasks, *here)):
        if not _HOST.fullmatch(name):
            raise InvalidInputError(
                "expected the name of a Slurm node: letters, digits, '.', '_' and '-', and no '-' "
                "first",
                path=("decisions", at, "tasks"),
                value=name,
            )


def _moves(
    jobs: dict[str, Job], decisions: dict[str, Decision], plan: Plan, made: Steps
) -> Iterator[Step]:
    section = next((s for s in plan.sections if s["kind"] == "moves"), None)
    if section is None:
        return
    order: Sequence[str] = section["steps"]
    spare: Sequence[str] = section["needs_spare"]
    for name in order:
        if decisions[name].decision is DecisionKind.PREEMPT:
            yield _preempt(jobs[name], decisions[name])
    for name in spare:
        yield from _stop(jobs[name], decisions[name], made)
    for name in order:
        if decisions[name].decision is DecisionKind.MIGRATE:
            yield from _stop(jobs[name], decisions[name], made)
            yield from _restart(jobs[name], decisions[name])
    for name in spare:
        yield from _restart(jobs[name], decisions[name])


def _preempt(job: Job, decision: Decision) -> Step:
    by = ", ".join(decision.displaced_by)
    return Step(
        job=job.name,
        does=f"preempt {job.name}" + (f" for {by}" if by else ""),
        state=State.RUNNING,
        commands=(
            Command(_update(job.name, comment=PREEMPTED + (f" for {by}" if by else ""))),
            Command(("scontrol", "requeue", job.name)),
        ),
        hosts=_running_on(job),
    )


def _stop(job: Job, decision: Decision, made: Steps) -> Iterator[Step]:
    if _same_hosts(job, decision):
        made.cannot_say("moves between GPUs of the same hosts", job.name)
        return
    target = host_list(_hosts(decision.tasks))
    yield Step(
        job=job.name,
        does=f"stop {job.name}, which moves",
        state=State.RUNNING,
        commands=(
            Command(_update(job.name, comment=MOVES + target)),
            Command(("scontrol", "requeuehold", job.name)),
        ),
        hosts=_running_on(job),
    )


def _restart(job: Job, decision: Decision) -> Iterator[Step]:
    if not _same_hosts(job, decision):
        hosts = _hosts(decision.tasks)
        yield Step(
            job=job.name,
            does=f"start {job.name} again on {host_list(hosts)}",
            state=State.STOPPED,
            commands=_commands_of_start(job.name, hosts, "StartTime=now"),
        )


def _start(job: Job, decision: Decision, made: Steps) -> Iterator[Step]:
    option = job.options[decision.option or 0]
    if any(group.name.startswith("component-") for group in option.groups):
        made.cannot_say("starts of heterogeneous jobs", job.name)
        return
    hosts = _hosts(decision.tasks)
    if any(task.gpus for task in decision.tasks):
        made.cannot_say("which GPUs of a host", job.name)
    if 1 < len(hosts) < len(decision.tasks):
        made.cannot_say("how many tasks a host has", job.name)
    yield Step(
        job=job.name,
        does=f"start {job.name} on {host_list(hosts)}",
        state=State.PENDING,
        commands=_commands_of_start(job.name, hosts),
    )


def _commands_of_start(job: str, hosts: tuple[str, ...], *more: str) -> tuple[Command, ...]:
    """Return what starts a job; it keeps the mark of being held until it is released."""
    number, names = len(hosts), host_list(hosts)
    placed = (f"NumNodes={number}-{number}", f"ReqNodeList={names}", *more)
    return (
        Command(_update(job, *placed, comment=STARTS + names), held=True),
        Command(_update(job, *placed, comment=PLACED + names), held=False),
        Command(("scontrol", "release", job), held=True),
        Command(_update(job, comment=PLACED + names), held=True),
    )


def _wait(decision: Decision) -> Step:
    why = "" if decision.reason is None else reason_text(decision.reason, decision.detail)
    text = f": {why}" if why else ""
    return Step(
        job=decision.job,
        does=f"say why {decision.job} waits",
        state=State.PENDING,
        commands=(
            Command(_update(decision.job, comment=f"{HELD}, waits{text}"), held=True),
            Command(_update(decision.job, comment=f"{WAITS}{text}"), held=False),
        ),
    )


def _update(job: str, *fields: str, comment: str) -> tuple[str, ...]:
    text = printable(comment)[:MAX_COMMENT]
    return ("scontrol", "update", f"jobid={job}", *fields, f"AdminComment={text}")


def _hosts(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(sorted({task.host for task in tasks}))


def _running_on(job: Job) -> tuple[str, ...]:
    return () if job.running is None else _hosts(job.running.tasks)


def _same_hosts(job: Job, decision: Decision) -> bool:
    return _running_on(job) == _hosts(decision.tasks)
