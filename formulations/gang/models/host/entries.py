"""What the host-indexed model counts: entries (jobs that may run) and task sets (their tasks).

Pending jobs of a class with one option are one entry, and all tasks of a shape are one set, as long
as the place of one task does not matter to others. Where it does (required or charged levels, the
term `proximity`), and for running jobs, each job is an entry of its own and each of its groups a
set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice, Group
from placewright.formulations.gang.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `most` jobs of a class with one of its choices; `job` is given for a running job."""

    job_class: int
    choice: int
    most: int
    job: int = ANY_JOB


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks of one shape; `users` are (entry, group index, tasks per job).

    `group` is given if the set is one group of one job.
    """

    shape: int
    users: list[tuple[int, int, int]] = field(default_factory=list)
    group: Group | None = None


def entries_of(
    problem: Problem, numbers: Ints, running: Sequence[int] = (), *, separate: bool = False
) -> tuple[list[Entry], list[TaskSet]]:
    """Return entries and task sets of `numbers` pending jobs per class and of `running` jobs.

    With `separate`, every pending job is an entry of its own, and each of its groups a set.
    """
    entries: list[Entry] = []
    by_shape: dict[int, TaskSet] = {}
    own: list[TaskSet] = []

    def add(entry: Entry, choice: Choice, *, alone: bool) -> None:
        for k, group in enumerate(choice.groups):
            user = (len(entries), k, group.count)
            if alone:
                own.append(TaskSet(group.shape, [user], group))
            else:
                by_shape.setdefault(group.shape, TaskSet(group.shape)).users.append(user)
        entries.append(entry)

    for c in np.flatnonzero(numbers).tolist():
        for o, choice in enumerate(problem.classes[c].choices):
            alone = separate or needs_own_entry(problem, choice)
            for _ in range(int(numbers[c]) if alone else 1):
                add(Entry(c, o, 1 if alone else int(numbers[c])), choice, alone=alone)
    for job in running:
        job_class = problem.running[job].job_class
        add(Entry(job_class, 0, 1, job), problem.classes[job_class].choices[0], alone=True)
    return entries, [*by_shape.values(), *own]


def needs_own_entry(problem: Problem, choice: Choice) -> bool:
    """Whether the place of one task matters to where the job's others may or should go."""
    if choice.is_tied or (choice.pooled and choice.uses and choice.num_tasks > 1):
        return True
    for group in choice.groups:
        if group.depends_on_levels or group.timed:
            return True
    return "proximity" in problem.terms and sum(group.count for group in choice.groups) > 1
