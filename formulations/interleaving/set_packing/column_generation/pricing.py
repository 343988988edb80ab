"""The pricing problem: which groups are worth more than their members' prices, and by how much.

Branch and bound over groups of clusters (`clusters`), best first and many at a time: a group of
clusters stands for all groups with one member from each, and where its bound is too high its widest
cluster is halved. Single classes are valued exactly. What is never looked at is bounded, so that
stopping early weakens the answer and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.interleaving.problem.period import best_offsets, contended
from placewright.formulations.interleaving.set_packing.column_generation.column_value import judged
from placewright.formulations.interleaving.set_packing.column_generation.duals import Prices
from placewright.formulations.interleaving.set_packing.column_generation.pricing_tree import (
    Clusters,
    clusters_of,
)
from placewright.formulations.interleaving.set_packing.columns import NOTHING, Columns, padded
from placewright.formulations.interleaving.set_packing.problem import MOST, Ints, Pool
from placewright.formulations.session import Session

CHUNK = 1 << 15
"""Groups of clusters that are halved at a time."""

ENOUGH = 1 << 13
"""Groups that are worth more than their price, after which a search may stop."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What a search of one bucket found.

    Attributes
    ----------
    columns
        Groups with a scaled reduced worth above the tolerance.
    reduced : int64 (columns,)
        Theirs.
    rest
        No other group of the bucket has a greater one; at least the tolerance.
    """

    columns: Columns
    reduced: Ints
    rest: int


def priced(
    pool: Pool,
    prices: Prices,
    bucket: int,
    tolerance: int,
    work: int,
    session: Session,
    reserve: float = 0.0,
) -> Priced:
    """Search a bucket for groups whose scaled reduced worth exceeds a tolerance.

    Parameters
    ----------
    work
        Groups of clusters to bound, after which the search stops.
    reserve
        Seconds to leave before the deadline.

    The bucket has at least one class with a job.
    """
    search = _Search(pool, prices, bucket, tolerance)
    for size in range(2, pool.most + 1):
        search.run(size, work, session, reserve)
    columns = Columns(np.concatenate(search.members), np.concatenate(search.worths))
    return Priced(columns, prices.reduced(pool, columns.members, columns.worth), search.rest)


class _Search:
    """One search of the groups of a bucket, size after size."""

    def __init__(self, pool: Pool, prices: Prices, bucket: int, tolerance: int) -> None:
        self.pool, self.prices, self.bucket, self.tolerance = pool, prices, bucket, tolerance
        self.tree = clusters_of(pool, prices, bucket)
        self.room = int(pool.gpu_memory[bucket])
        self.rest = tolerance
        self.work = 0
        self.members = [np.zeros((0, MOST), dtype=np.int64)]
        self.worths = [np.zeros(0, dtype=np.int64)]

    def run(self, size: int, most: int, session: Session, reserve: float) -> None:
        """Halve until nothing above the tolerance is left, or `most` groups were bounded."""
        found = 0
        groups, bounds = self._bounded(np.zeros((1, size), dtype=np.int64))
        while len(groups):
            if self.work >= most or found >= ENOUGH or session.expired(reserve):
                self.rest = max(self.rest, int(bounds.max()))
                return
            count = max(CHUNK, len(groups) // 4)
            if count < len(groups):
                order = np.argpartition(-bounds, count)
                groups, bounds = groups[order], bounds[order]
            halves, values = self._bounded(_halves(self.tree, groups[:count]))
            single = (self.tree.left[halves] < 0).all(axis=1)
            found += self._value(halves[single])
            groups = np.concatenate([groups[count:], halves[~single]])
            bounds = np.concatenate([bounds[count:], values[~single]])

    def _bounded(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the groups of clusters whose bound exceeds the tolerance, and their bounds."""
        tree, rules = self.tree, self.pool.rules
        self.work += len(groups)
        if self.room:
            groups = groups[tree.memory[groups].sum(axis=1) <= self.room]
        bare, _ = best_offsets(tree.stages[groups], spanning=rules.spanning)
        bare = np.maximum(bare, tree.own[groups].max(axis=1))
        period = contended(bare, rules.contention[groups.shape[1] - 2])
        within = np.minimum(tree.iteration[groups].sum(axis=1), tree.longest[groups].min(axis=1))
        groups, period = groups[period <= within], period[period <= within]
        level = np.searchsorted(tree.grid, period, side="right") - 1
        bound = tree.most[groups, level[:, None]].sum(axis=1) - self.prices.group[self.bucket]
        above = bound > self.tolerance
        return groups[above], bound[above]

    def _value(self, groups: Ints) -> int:
        """Keep the groups of single classes that are above the tolerance, and count them."""
        members = np.sort(self.tree.of[groups], axis=1)
        members = padded(members)
        worth = judged(self.pool, members)
        above = self.prices.reduced(self.pool, members, worth) > self.tolerance
        above &= worth != NOTHING
        self.members.append(members[above])
        self.worths.append(worth[above])
        return int(above.sum())


def _halves(tree: Clusters, groups: Ints) -> Ints:
    """Replace the widest cluster of each group by its halves, in every way that differs."""
    rows = np.arange(len(groups))
    cluster = groups[rows, tree.width[groups].argmax(axis=1)]
    same = groups == cluster[:, None]
    times = same.sum(axis=1)
    results = [groups[:0]]
    for often in np.unique(times).tolist():
        some = times == often
        left, right = tree.left[cluster[some]], tree.right[cluster[some]]
        rest = groups[some][~same[some]].reshape(len(left), -1)
        for rights in range(often + 1):
            lefts = often - rights
            enough = (tree.jobs[left] >= lefts) & (tree.jobs[right] >= rights)
            halved = [np.repeat(left[:, None], lefts, 1), np.repeat(right[:, None], rights, 1)]
            results.append(np.hstack([rest, *halved])[enough])
    return np.concatenate(results)
