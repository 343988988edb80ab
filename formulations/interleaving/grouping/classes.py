"""Jobs that the grouping problem cannot tell apart become one class, and classes jobs again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.interleaving.grouping.columns import periods, rates, valued
from placewright.formulations.interleaving.grouping.pool import ALONE, MOST, Grouping, Ints, Pool


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A pool in which no two classes are alike, but for those that have conflicts.

    Attributes
    ----------
    pool
        The classes that are left, those of one kind next to each other.
    kind : int64 (classes of `pool`,)
        Classes of one kind differ in nothing but weight; kinds ascend.
    original
        The pool of which they were made.
    of : int64 (classes of `original`,)
        The class in `pool` of each.
    """

    pool: Pool
    kind: Ints
    original: Pool
    of: Ints

    def expanded(self, grouping: Grouping) -> Grouping:
        """Return a grouping of the original classes: of each kind the heaviest get on fastest.

        The value is that of the original weights.
        """
        column, place = np.nonzero(grouping.members != ALONE)
        taken = grouping.members[column, place]
        wanted = self.kind[taken]
        order = np.lexsort((-_rates(self.pool, grouping.members)[column, place], wanted))
        jobs = np.repeat(np.arange(self.original.classes), self.original.count)
        kind = self.kind[self.of][jobs]
        jobs = jobs[np.lexsort((-self.original.weight[jobs], kind))]
        # The first place of a kind is for the first job of the kind, the second for the second ...
        rank = np.arange(len(order)) - np.searchsorted(wanted[order], wanted[order])
        chosen = np.full_like(grouping.members, ALONE)
        chosen[column[order], place[order]] = jobs[
            np.searchsorted(np.sort(kind), wanted[order]) + rank
        ]
        members = _ascending(chosen)
        value = int(valued(self.original, members).worth.sum())
        return Grouping(members, value, grouping.source)


def merged(pool: Pool) -> Merged:
    """Merge the classes that are alike in all that the rules of the pool look at."""
    apart = np.zeros(pool.classes, dtype=np.int64)
    apart[pool.conflicts] = 1 + pool.conflicts
    kinds = [apart, pool.bucket, pool.must, pool.stages.T, pool.iteration, pool.memory]
    kinds += [pool.longest(), pool.per_member]
    if pool.rules.objective != "efficiency":
        kinds += [pool.speed, pool.best]
    weighted = pool.rules.objective == "weighted_throughput"
    weight = pool.weight if weighted else np.ones_like(pool.weight)
    keys = np.vstack([*kinds, weight]).T
    unique, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    new_kind = (unique[1:, :-1] != unique[:-1, :-1]).any(axis=1)
    kind = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(new_kind)])[: len(unique)]
    of = of.reshape(-1)
    smaller = replace(
        pool,
        stages=pool.stages[first],
        iteration=pool.iteration[first],
        slowdown=pool.slowdown[first],
        speed=pool.speed[first],
        best=pool.best[first],
        weight=weight[first],
        memory=pool.memory[first],
        bucket=pool.bucket[first],
        count=np.bincount(of, weights=pool.count, minlength=len(first)).astype(np.int64),
        must=pool.must[first],
        conflicts=of[pool.conflicts],
        per_member=pool.per_member[:, first],
    )
    return Merged(smaller, kind, pool, of)


def _rates(pool: Pool, members: Ints) -> Ints:
    """Return the normalised throughput of each member of columns, int64 (columns, 4)."""
    size = (members != ALONE).sum(axis=1)
    result = np.where(members != ALONE, pool.best[members], 0)
    for number in range(2, MOST + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            result[some, :number] = rates(pool, group, periods(pool, group))
    return result


def _ascending(members: Ints) -> Ints:
    """Return columns with their classes in ascending order and `ALONE` last."""
    order = np.sort(np.where(members == ALONE, np.iinfo(np.int64).max, members), axis=1)
    return np.where(order == np.iinfo(np.int64).max, ALONE, order)
