"""What the host-indexed model counts: entries (started jobs) and task sets (their tasks).

Jobs of a class are one entry, and all tasks of a shape one set, where the place of one task does
not matter to the others. Where it does (required or charged levels; pairs of tasks), every job is
an entry of its own and each of its groups a set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem import Choice, Group, Problem

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `most` jobs of a class with one of its choices."""

    job_class: int
    choice: int
    most: int


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks of one shape; `users` are (entry, group index, tasks per job).

    `group` is given where the set is one group of one job.
    """

    shape: int
    users: list[tuple[int, int, int]] = field(default_factory=list)
    group: Group | None = None


def entries_of(problem: Problem, numbers: Ints) -> tuple[list[Entry], list[TaskSet]]:
    """Return the entries and task sets of `numbers` jobs per class."""
    entries: list[Entry] = []
    by_shape: dict[int, TaskSet] = {}
    own: list[TaskSet] = []
    for c in np.flatnonzero(numbers).tolist():
        for o, choice in enumerate(problem.classes[c].choices):
            tied = _tied(problem, choice)
            for _ in range(int(numbers[c]) if tied else 1):
                for k, group in enumerate(choice.groups):
                    user = (len(entries), k, group.count)
                    if tied:
                        own.append(TaskSet(group.shape, [user], group))
                    else:
                        task_set = by_shape.setdefault(group.shape, TaskSet(group.shape))
                        task_set.users.append(user)
                entries.append(Entry(c, o, 1 if tied else int(numbers[c])))
    return entries, [*by_shape.values(), *own]


def _tied(problem: Problem, choice: Choice) -> bool:
    """Whether the place of one task matters to where the job's others may or should go."""
    if any(group.bound_to_levels for group in choice.groups):
        return True
    return "proximity" in problem.terms and sum(group.count for group in choice.groups) > 1
