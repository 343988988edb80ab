"""Rules about decisions: one for each job, legal for its state, with the fields of its kind.

Each rule looks at decisions and jobs; where tasks may be is the matter of other modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Reason, Task
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule

_PENDING = (DecisionKind.START, DecisionKind.WAIT)
_RUNNING = (DecisionKind.KEEP, DecisionKind.MIGRATE, DecisionKind.PREEMPT)
_PINNED = (DecisionKind.KEEP,)
# What waits and what is preempted hold nothing after the round.
_WAIT, _PREEMPT = DecisionKind.WAIT, DecisionKind.PREEMPT
_IDLE = {_WAIT: "waits", _PREEMPT: "is preempted"}


def known_job(reading: Reading) -> Iterator[Finding]:
    """Require that every decision names a job of the round."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job not in reading.jobs and decision.job not in reading.given.invalid:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is not in the round; expected one of its jobs",
            )


def invalid_job(reading: Reading) -> Iterator[Finding]:
    """Require that an invalid job waits."""
    invalid = reading.given.invalid
    for index, decision in enumerate(reading.plan.decisions):
        if decision.job in invalid and decision.decision is not _WAIT:
            yield Finding(
                ("decisions", index, "decision"),
                f"{decision.decision.value!r} is not for job {decision.job!r}, which is invalid "
                f"({invalid[decision.job]}); expected that it waits",
            )


def invalid_reason(reading: Reading) -> Iterator[Finding]:
    """Require that an invalid job is told why it waits, and that no other waits as `invalid`."""
    invalid = reading.given.invalid
    for index, decision in enumerate(reading.plan.decisions):
        name, reason = decision.job, decision.reason
        if name not in invalid:
            if reason is Reason.INVALID:
                yield Finding(
                    ("decisions", index, "reason"),
                    f"reason 'invalid' of job {name!r}, which is valid; expected another",
                )
            continue
        message = None if decision.detail is None else decision.detail.message
        if reason not in {None, Reason.INVALID}:
            yield Finding(
                ("decisions", index, "reason"),
                f"{reason!r} is not for job {name!r}, which is invalid ({invalid[name]}); "
                "expected that it waits for 'invalid'",
            )
        elif message is not None and message != invalid[name]:
            yield Finding(
                ("decisions", index, "detail", "message"),
                f"{message!r} is not what is wrong with job {name!r}; expected {invalid[name]!r}",
            )


def one_decision(reading: Reading) -> Iterator[Finding]:
    """Require one decision at most for every job of the round, and exactly one where it runs."""
    first: dict[str, int] = {}
    for index, decision in enumerate(reading.plan.decisions):
        earlier = first.setdefault(decision.job, index)
        if earlier != index:
            yield Finding(
                ("decisions", index, "job"),
                f"job {decision.job!r} is decided in decisions[{earlier}] already; "
                "expected one decision for each job",
            )
    for name in (*reading.jobs, *reading.given.invalid):
        if name not in first:
            yield Finding(
                ("decisions",),
                f"job {name!r} has no decision; expected one decision for each job",
            )


def legal_decision(reading: Reading) -> Iterator[Finding]:
    """Require a decision that the job's state allows.

    A pending job starts or waits; a running one is kept, migrated or preempted, if pinned kept.
    """
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None:
            continue
        state, legal = _legal(job)
        if decision.decision not in legal:
            yield Finding(
                ("decisions", index, "decision"),
                f"decision {decision.decision.value!r} is not for job {decision.job!r}, "
                f"which is {state}; expected {' or '.join(kind.value for kind in legal)}",
            )


def option(reading: Reading) -> Iterator[Finding]:
    """Require one of its options of a job that is placed, and none of any other."""
    for index, decision in enumerate(reading.plan.decisions):
        path = ("decisions", index, "option")
        chosen = decision.option
        kind = decision.decision
        if kind is _WAIT or kind is _PREEMPT:
            if chosen is not None:
                yield Finding(
                    path,
                    f"option {chosen} of job {decision.job!r}, which {_IDLE[kind]}; expected none",
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
    keep = DecisionKind.KEEP
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if job is None or job.running is None or decision.decision is not keep:
            continue
        if decision.option != job.running.option:
            yield Finding(
                ("decisions", index, "option"),
                f"kept job {job.name!r} changes to option {decision.option}; "
                f"expected option {job.running.option}, which it runs",
            )
        if not _same_places(decision.tasks, job.running.tasks):
            yield Finding(
                ("decisions", index, "tasks"),
                f"kept job {job.name!r} does not stay in place; "
                "expected the tasks, hosts and GPUs that it runs on",
            )


def migrated(reading: Reading) -> Iterator[Finding]:
    """Require that a migrated job keeps its option, and that some task of it moves."""
    for placed in reading.migrated:
        running = reading.running[placed.job.name]
        if placed.chosen != running.option:
            yield Finding(
                (*placed.path, "option"),
                f"migrated job {placed.job.name!r} changes to option {placed.chosen}; "
                f"expected option {running.option}, which it runs",
            )
        if _same_places(placed.decision.tasks, running.tasks):
            yield Finding(
                (*placed.path, "tasks"),
                f"migrated job {placed.job.name!r} stays in place; "
                "expected another host or other GPUs for some task, or decision 'keep'",
            )


def holds_nothing(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks of a waiting or preempted job."""
    for index, decision in enumerate(reading.plan.decisions):
        if decision.tasks and decision.decision in _IDLE:
            yield Finding(
                ("decisions", index, "tasks"),
                f"{len(decision.tasks)} tasks of job {decision.job!r}, "
                f"which {_IDLE[decision.decision]}; expected none",
            )


def reason(reading: Reading) -> Iterator[Finding]:
    """Refuse a reason where the job does not wait, and one that plans of the policy do not give.

    Facts without a reason are refused as well.
    """
    policy = reading.round.policy
    legal = (*policy.spec.reasons, Reason.INVALID.value)
    for index, decision in enumerate(reading.plan.decisions):
        if decision.detail is not None and decision.reason is None:
            yield Finding(
                ("decisions", index, "detail"),
                f"a detail of job {decision.job!r}, which has no reason; expected none",
            )
        if decision.reason is not None and decision.decision is not DecisionKind.WAIT:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {decision.job!r}, which does not wait; "
                "expected none",
            )
        elif decision.reason is not None and decision.reason.value not in legal:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {decision.job!r}, under policy "
                f"{policy.formulation!r}; expected {' or '.join(policy.spec.reasons)}",
            )


def _legal(job: Job) -> tuple[str, tuple[DecisionKind, ...]]:
    """Return a job's state, in a word, and the decisions that it allows."""
    if job.running is None:
        return "pending", _PENDING
    return ("pinned", _PINNED) if job.running.pinned else ("running", _RUNNING)


def _same_places(one: Sequence[Task], other: Sequence[Task]) -> bool:
    # Kept jobs are many and mostly listed as the round does; only the others are worth sorting.
    return one == other or _places(one) == _places(other)


def _places(tasks: Sequence[Task]) -> list[tuple[int, int, str, list[int], int]]:
    return sorted(
        (t.group, t.index, t.host, sorted(t.gpus), -1 if t.slot is None else t.slot) for t in tasks
    )


RULES_OF_DECISIONS: tuple[Rule[Reading], ...] = (
    Rule("known_job", known_job),
    Rule("invalid_job", invalid_job),
    Rule("invalid_reason", invalid_reason),
    Rule("one_decision", one_decision),
    Rule("legal_decision", legal_decision),
    Rule("option", option),
    Rule("kept_in_place", kept_in_place),
    Rule("migrated", migrated),
    Rule("holds_nothing", holds_nothing),
    Rule("reason", reason),
)
