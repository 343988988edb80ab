"""Checks of stages: jobs that come before exist, none waits for itself, each fits some time.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter

from placewright.instances.checks.deadlines import MAX_ROWS
from placewright.instances.checks.policies import PolicyChecks
from placewright.instances.checks.stage_rows import StageRows
from placewright.instances.derived.names import check_known
from placewright.instances.documents.base import MAX_TOTAL
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.documents.stage import Stage
from placewright.instances.errors import Errors, InvalidInputError, Path

MAX_NAMED = 8
"""Jobs of a cycle that its error names."""
_NOT_APART = ("slices", "num_hosts", "required", "communication")
"""What tasks of a group ask of each other, so that they cannot begin one by one."""


def check_stages(round_: Round) -> None:
    """Refuse stages that do not suit their jobs, cycles, and stages that never fit."""
    errors, names = Errors(), {job.name: j for j, job in enumerate(round_.jobs)}
    for j, job in enumerate(round_.jobs):
        path: Path = ("jobs", j, "stage")
        if job.stage is None:
            problem = "missing; expected how long the tasks of the job run"
            errors.add(InvalidInputError(problem, path))
            continue
        for k, name in enumerate(job.stage.after):
            errors.note(check_known, name, names, "job", (*path, "after", k))
        errors.note(_check_one, job, job.stage, path)
    errors.refuse()
    cycle = _cycle(round_)
    if cycle:
        raise InvalidInputError(
            f"each waits for the next, a cycle: {_listed(cycle)}; expected jobs without one",
            ("jobs", names[cycle[0]], "stage", "after"),
        )
    rows = StageRows(round_)
    sets = Counter(row.resource for row in rows.rows if row.models is not None)
    if max(sets.values(), default=0) > MAX_ROWS:
        raise InvalidInputError(
            f"their sets of GPU models overlap in more than {MAX_ROWS} ways; expected models that "
            "fewer combinations cover",
            ("jobs",),
        )
    _check_sizes(round_, rows)
    for j, job in enumerate(round_.jobs):
        if job.running is None:
            misfits = [_misfit(rows, job, option) for option in job.options]
            if all(misfits):
                errors.add(InvalidInputError(f"never fits: {misfits[0]}", ("jobs", j, "stage")))
    errors.refuse()


def _check_sizes(round_: Round, rows: StageRows) -> None:
    """Refuse times whose sums, times weights or amounts, are too large to count with."""
    length, weights = 0, sum(job.weight for job in round_.jobs)
    work = [0] * len(rows.rows)
    for job in round_.jobs:
        stage = job.stage
        for o, option in enumerate(job.options if stage is not None else ()):
            seconds = 0 if stage is None else stage.seconds(o)
            length += seconds * option.groups[0].count
            asked = enumerate(rows.asked(job, option))
            work = [work[r] + amount * seconds for r, amount in asked]
    if max(length * max(1, weights), *work, 0) > MAX_TOTAL:
        raise InvalidInputError(
            f"run for too long; expected times that, with weights, counts and amounts, add up to "
            f"at most {MAX_TOTAL:,}",
            ("jobs",),
        )


def _check_one(job: Job, stage: Stage, path: Path) -> None:
    if not isinstance(stage.task_s, int) and len(stage.task_s) != len(job.options):
        raise InvalidInputError(
            f"{len(stage.task_s)} times; expected one, or {len(job.options)}, one for each option",
            (*path, "task_s"),
        )
    if job.running is not None and stage.after:
        raise InvalidInputError("given of a job that runs; expected none", (*path, "after"))
    if stage.gang or job.running is not None:
        return
    for option in job.options:
        group = option.groups[0]
        joined = [name for name in _NOT_APART if getattr(group, name) is not None]
        joined += [n for n in ("required", "hosts") if getattr(option, n) is not None]
        joined += ["uses"] * bool(option.uses) + ["more groups"] * (len(option.groups) > 1)
        if joined:
            raise InvalidInputError(
                f"false of a job with {', '.join(dict.fromkeys(joined))}; expected options of one "
                "group whose tasks can begin one by one",
                (*path, "gang"),
            )


def _cycle(round_: Round) -> list[str]:
    """Return the jobs of a cycle, each after the next; none if there is no cycle."""
    after = {job.name: job.stage.after if job.stage else () for job in round_.jobs}
    try:
        list(TopologicalSorter(after).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle[:0:-1]
    return []


def _listed(cycle: list[str]) -> str:
    more = f" and {len(cycle) - MAX_NAMED} more" if len(cycle) > MAX_NAMED else ""
    return ", ".join(cycle[:MAX_NAMED]) + more


def _misfit(rows: StageRows, job: Job, option: Option) -> str:
    """Return why a job never fits with an option; "" if it does, in counts."""
    stage = job.stage
    gang = stage is None or stage.gang
    for group in option.groups:
        places = rows.places(group)
        if places < (group.count if gang else 1):
            return (
                f"{places} of {group.count} tasks have a place on the empty, healthy hosts; "
                f"expected {'all' if gang else 'one or more'}"
            )
    tasks = 1 if gang else option.groups[0].count
    for row, amount in zip(rows.rows, rows.asked(job, option), strict=True):
        if amount > row.capacity * tasks:
            return (
                f"asks {amount // tasks:,} of {row.text()}; expected at most {row.capacity:,} "
                "(GPUs and cores in thousandths, memory in MiB)"
            )
    return ""


CHECKS = PolicyChecks(check_stages)
"""What the policy `stages` refuses."""
