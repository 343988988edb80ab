"""Jobs with the option and the tasks that they have, before a plan and after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import DecisionKind, Plan, Task

HOLDING = (DecisionKind.START, DecisionKind.KEEP, DecisionKind.MIGRATE)

Placed: TypeAlias = tuple[Option, Sequence[Task]]


def placed_before(jobs: Iterable[Job]) -> Iterator[Placed]:
    """Yield the running jobs."""
    for job in jobs:
        if job.running is not None:
            yield job.options[job.running.option], job.running.tasks


def placed_after(jobs: Mapping[str, Job], plan: Plan) -> Iterator[Placed]:
    """Yield the jobs that a plan starts, keeps or moves; `jobs` are by name."""
    for decision in plan.decisions:
        if decision.decision in HOLDING:
            yield jobs[decision.job].options[decision.option or 0], decision.tasks
