"""Values of any columns: exact in integers, or an upper bound for many columns quickly."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    PackingProblem,
    allowed,
    periods,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    group_values,
    rate_numerator,
    single_values,
)
from placewright.topology.units import MILLION

ROUNDING_FACTOR = 1 + 1e-12
"""More than what rounding can take from a result of floating-point numbers."""


def column_values(packing: PackingProblem, members: Ints) -> Ints:
    """Return the value of columns, `NOT_ALLOWED` where they are not allowed, int64 (columns,).

    Parameters
    ----------
    members : int64 (columns, 4)
        Ascending classes of one bucket per column, `ALONE` last; none more often than it has jobs.
        Without members a column has the value 0.
    """
    size = (members != ALONE).sum(axis=1)
    value = np.where(size > 0, single_values(packing)[members[:, 0]], 0)
    value[size > packing.max_members] = NOT_ALLOWED
    for number in range(2, packing.max_members + 1):
        some = np.flatnonzero(size == number)
        some = some[_may_share(packing, members[some, :number])]
        group = members[some, :number]
        period = periods(packing, group)
        value[size == number] = NOT_ALLOWED
        accepted = allowed(packing, group, period)
        value[some[accepted]] = group_values(packing, group[accepted], period[accepted])
    return value


def _may_share(packing: PackingProblem, group: Ints) -> Bools:
    """Return which groups fit the GPU memory and hold no conflicting pair."""
    gpu_memory = packing.gpu_memory[packing.bucket[group[:, 0]]]
    may = (gpu_memory == 0) | (packing.memory[group].sum(axis=1) <= gpu_memory)
    if len(packing.conflicts):
        both = np.append(packing.conflicts, packing.conflicts[:, ::-1], axis=0)
        conflicts = both @ np.array([packing.classes, 1])
        for one, other in combinations(range(group.shape[1]), 2):
            may &= ~np.isin(group[:, one] * packing.classes + group[:, other], conflicts)
    return np.asarray(may)


class ValueBound:
    """A quick upper bound of the value of columns.

    The members are never at a resource at the same time, and each runs all its stages: no period is
    below the sum of what they need of one resource, nor below the sum of one job's stages. A stage
    that may span two slots counts half, since others fill the other half.
    """

    def __init__(self, packing: PackingProblem) -> None:
        stages = packing.stages.astype(np.float64)
        own = stages.sum(axis=1)
        if packing.rules.spanning:
            stages[:, 0] /= 2
        # The last entry is that of `ALONE`: nobody.
        self._stages = np.vstack([stages, np.zeros_like(stages[:1])])
        self._own = np.append(own, 0.0)
        self._reach = np.append(rate_numerator(packing), 0.0)
        self._alone = np.append(single_values(packing), 0).astype(np.float64)
        self._factor = np.array([MILLION, MILLION, *packing.rules.contention]) / MILLION

    def of(self, members: Ints) -> Floats:
        """Return an upper bound of each column's value, 0 without members (columns,).

        `members` are classes and `ALONE`, in any order; int64 (columns, up to 4).
        """
        size = (members != ALONE).sum(axis=1)
        first, *others = members.T
        stage_sum, own = self._stages[first], self._own[first]
        numerator, single = self._reach[first], self._alone[first]
        for other in others:
            stage_sum = stage_sum + self._stages[other]
            own = np.maximum(own, self._own[other])
            numerator = numerator + self._reach[other]
            single = single + self._alone[other]
        least = np.maximum(stage_sum.max(axis=1), own) * self._factor[size]
        bound: Floats = np.where(
            size > 1, numerator / least.clip(min=1.0) * ROUNDING_FACTOR, single
        )
        return bound
