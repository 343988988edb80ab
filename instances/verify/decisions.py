"""Rules about decisions: one for each job, legal for its state, kept jobs left in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.plan import DecisionKind, Task
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule


def known_job(reading: Reading) -> Iterator[Finding]:
    """Require that every decision names a job of the round."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job not in reading.jobs:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is not in the round; expected one of its jobs",
            )


def one_decision(reading: Reading) -> Iterator[Finding]:
    """Require exactly one decision for every job of the round."""
    first: dict[str, int] = {}
    for index, decision in enumerate(reading.plan.decisions):
        earlier = first.setdefault(decision.job, index)
        if earlier != index:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is decided in decisions[{earlier}] already; "
                "expected one decision for each job",
            )
    for name in reading.jobs:
        if name not in first:
            yield Finding(
                ("decisions",),
                f"job {name!r} has no decision; expected one decision for each job",
            )


def legal_decision(reading: Reading) -> Iterator[Finding]:
    """Require that a pending job starts or waits, and that a running job is kept."""
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None:
            continue
        running = job.running is not None
        if running != (decision.decision is DecisionKind.KEEP):
            state, legal = ("running", "keep") if running else ("pending", "start or wait")
            yield Finding(
                ("decisions", index, "decision"),
                f"decision {decision.decision.value!r} is not for job {decision.job!r}, "
                f"which is {state}; expected {legal}",
            )


def option(reading: Reading) -> Iterator[Finding]:
    """Require one of its options of a started or kept job, and none of a waiting one."""
    for index, decision in enumerate(reading.plan.decisions):
        path = ("decisions", index, "option")
        chosen = decision.option
        if decision.decision is DecisionKind.WAIT:
            if chosen is not None:
                yield Finding(
                    path, f"option {chosen} of job {decision.job!r}, which waits; expected none"
                )
            continue
        job = reading.jobs.get(decision.job)
        if job is not None and (chosen is None or chosen >= len(job.options)):
            given = "no option" if chosen is None else f"option {chosen}"
            yield Finding(
                path,
                f"{given} chosen for job {job.name!r}; "
                f"expected an index from 0 to {len(job.options) - 1}",
            )


def kept_in_place(reading: Reading) -> Iterator[Finding]:
    """Require that a kept job keeps its option and each task's host and GPUs."""
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None or job.running is None or decision.decision is not DecisionKind.KEEP:
            continue
        if decision.option != job.running.option:
            yield Finding(
                ("decisions", index, "option"),
                f"kept job {job.name!r} changes to option {decision.option}; "
                f"expected option {job.running.option}, which it runs",
            )
        if _places(decision.tasks) != _places(job.running.tasks):
            yield Finding(
                ("decisions", index, "tasks"),
                f"kept job {job.name!r} does not stay in place; "
                "expected the tasks, hosts and GPUs that it runs on",
            )


def waits_hold_nothing(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks of a waiting job."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.decision is DecisionKind.WAIT and decision.tasks:
            yield Finding(
                ("decisions", index, "tasks"),
                f"{len(decision.tasks)} tasks of job {decision.job!r}, which waits; expected none",
            )


def reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason where the job does not wait."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.reason is not None and decision.decision is not DecisionKind.WAIT:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {decision.job!r}, which does not wait; "
                "expected none",
            )


def _places(tasks: Sequence[Task]) -> list[tuple[int, int, str, list[int]]]:
    return sorted((task.group, task.index, task.host, sorted(task.gpus)) for task in tasks)


RULES: tuple[Rule[Reading], ...] = (
    Rule("known_job", known_job),
    Rule("one_decision", one_decision),
    Rule("legal_decision", legal_decision),
    Rule("option", option),
    Rule("kept_in_place", kept_in_place),
    Rule("waits_hold_nothing", waits_hold_nothing),
    Rule("reason", reason),
)
