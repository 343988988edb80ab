"""What any columns are worth: in whole numbers, or at most, for many and quickly."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.duals import Floats, reach
from placewright.formulations.interleaving.set_packing.columns import (
    NOTHING,
    allowed,
    alone,
    periods,
    worth_of,
)
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    MILLION,
    Bools,
    Ints,
    Pool,
)

UPWARDS = 1 + 1e-12
"""More than what rounding can take from a result of floating-point numbers."""


def judged(pool: Pool, members: Ints) -> Ints:
    """Return what columns are worth, `NOTHING` where they are not allowed, int64 (columns,).

    Parameters
    ----------
    members : int64 (columns, 4)
        Ascending classes of one bucket per column, `ALONE` last; none more often than it has jobs.
        No members at all are worth 0.
    """
    size = (members != ALONE).sum(axis=1)
    worth = np.where(size > 0, alone(pool)[members[:, 0]], 0)
    worth[size > pool.most] = NOTHING
    for number in range(2, pool.most + 1):
        some = np.flatnonzero(size == number)
        some = some[_may_share(pool, members[some, :number])]
        group = members[some, :number]
        period = periods(pool, group)
        worth[size == number] = NOTHING
        fine = allowed(pool, group, period)
        worth[some[fine]] = worth_of(pool, group[fine], period[fine])
    return worth


def _may_share(pool: Pool, group: Ints) -> Bools:
    """Tell which groups fit the memory and join no conflicting pair."""
    room = pool.gpu_memory[pool.bucket[group[:, 0]]]
    may = (room == 0) | (pool.memory[group].sum(axis=1) <= room)
    if len(pool.conflicts):
        both = np.append(pool.conflicts, pool.conflicts[:, ::-1], axis=0)
        apart = both @ np.array([pool.classes, 1])
        for one, other in combinations(range(group.shape[1]), 2):
            may &= ~np.isin(group[:, one] * pool.classes + group[:, other], apart)
    return np.asarray(may)


class Hope:
    """A quick upper bound of the worth of columns.

    The members are never at a resource at the same time, and each runs all its stages: no period is
    below the sum of what they need of one resource, nor below the sum of one job's stages. A stage
    that may span two slots counts half, since others fill the other half.
    """

    def __init__(self, pool: Pool) -> None:
        stages = pool.stages.astype(np.float64)
        own = stages.sum(axis=1)
        if pool.rules.spanning:
            stages[:, 0] /= 2
        # The last entry is that of `ALONE`: nobody.
        self._stages = np.vstack([stages, np.zeros_like(stages[:1])])
        self._own = np.append(own, 0.0)
        self._reach = np.append(reach(pool), 0.0)
        self._alone = np.append(alone(pool), 0).astype(np.float64)
        self._factor = np.array([MILLION, MILLION, *pool.rules.contention]) / MILLION

    def of(self, members: Ints) -> Floats:
        """Return at least the worth of each column, 0 without members, float64 (columns,).

        `members` are classes and `ALONE`, in any order; int64 (columns, up to 4).
        """
        size = (members != ALONE).sum(axis=1)
        first, *others = members.T
        needed, own = self._stages[first], self._own[first]
        gained, single = self._reach[first], self._alone[first]
        for other in others:
            needed = needed + self._stages[other]
            own = np.maximum(own, self._own[other])
            gained = gained + self._reach[other]
            single = single + self._alone[other]
        least = np.maximum(needed.max(axis=1), own) * self._factor[size]
        hope: Floats = np.where(size > 1, gained / least.clip(min=1.0) * UPWARDS, single)
        return hope
