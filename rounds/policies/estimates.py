"""Shortest job first by estimates: mean running times of the like jobs that have ended (PAI).

SJU knows the user of a job, SJG the group of recurring jobs as well, and SJGG its GPUs, too.

References
----------
Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale heterogeneous GPU
clusters", NSDI 2022, section 6.1; names and order are those of its simulator.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from placewright.rounds.policies.base import Columns, ListPolicy, by_arrival


class MeanTimes:
    """Mean running times of jobs that have ended, by the values of some columns.

    A job is like those that ended with the same values of all columns; if there are none, of all
    but the last, and so on, at last like all that ended. Before any has ended it counts as 0.

    Parameters
    ----------
    fields
        The columns, the one that parts the jobs most coarsely first.
    """

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        self._sums: dict[tuple[int, ...], tuple[int, int]] = {}

    def key(self, job: Columns) -> float:
        """Return the mean running time of jobs like this one, in microseconds."""
        for values in self._classes(job):
            if values in self._sums:
                total, count = self._sums[values]
                return total / count
        return 0.0

    def end(self, job: Columns) -> None:
        """Add the time that a job ran to the means of its classes."""
        for values in self._classes(job):
            total, count = self._sums.get(values, (0, 0))
            self._sums[values] = total + int(job.service_us[0]), count + 1

    def _classes(self, job: Columns) -> list[tuple[int, ...]]:
        """Return the classes of a job, the finest first."""
        values = tuple(int(getattr(job, field)[0]) for field in self._fields)
        return [values[:length] for length in range(len(values), -1, -1)]

    def state(self) -> Any:
        """Return each class with the sum of its times and the number of its jobs."""
        return [[list(values), *sums] for values, sums in self._sums.items()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        self._sums = {tuple(values): (total, count) for values, total, count in state}


def _policy(name: str, *fields: str) -> ListPolicy:
    return ListPolicy(
        name,
        by_arrival,
        frozenset({*fields, "service_us"}),
        skips=True,
        estimator=partial(MeanTimes, fields),
    )


SJU = _policy("sju", "tenant")
SJG = _policy("sjg", "tenant", "group")
SJGG = _policy("sjgg", "tenant", "group", "gpus")

ESTIMATES = {policy.name: policy for policy in (SJU, SJG, SJGG)}
