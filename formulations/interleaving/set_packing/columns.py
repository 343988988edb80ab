"""Columns of the grouping problem: which groups are allowed, their period, and their worth."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from placewright.formulations.interleaving.problem.period import best_offsets, contended
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    MILLION,
    MOST,
    Bools,
    Ints,
    Pool,
)

NOTHING = -1
"""Less than the worth of any column."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Jobs on their own and groups, by the classes of their members.

    Attributes
    ----------
    members : int64 (columns, 4)
        Classes in ascending order, `ALONE` after the last one.
    worth : int64 (columns,)
        What one such column adds to the term.
    """

    members: Ints
    worth: Ints

    def __len__(self) -> int:
        return len(self.worth)

    def take(self, chosen: Ints | Bools) -> Columns:
        """Return some of the columns, by index or mask."""
        return Columns(self.members[chosen], self.worth[chosen])


def joined(*parts: Columns) -> Columns:
    """Return the columns of all parts, in their order."""
    return Columns(
        np.concatenate([part.members for part in parts]),
        np.concatenate([part.worth for part in parts]),
    )


def padded(members: Ints) -> Ints:
    """Fill the rows of members up to four with `ALONE`."""
    return np.pad(members, ((0, 0), (0, MOST - members.shape[1])), constant_values=ALONE)


def number_of_columns(pool: Pool) -> int:
    """Return how many multisets of 1 to `most` classes of one bucket there are, filters aside."""
    sizes = np.bincount(pool.bucket[pool.bucket != ALONE], minlength=pool.buckets).tolist()
    groups = sum(comb(n + p - 1, p) for n in sizes for p in range(2, pool.most + 1))
    return pool.classes + groups


def periods(pool: Pool, members: Ints) -> Ints:
    """Return the periods of groups with contention, members int64 (groups, 2 to 4) unpadded."""
    bare, _ = best_offsets(pool.stages[members], spanning=pool.rules.spanning)
    return contended(bare, pool.rules.contention[members.shape[1] - 2])


def rates(pool: Pool, members: Ints, period: Ints) -> Ints:
    """Return the normalised throughput of each member of groups, millionths, as `members`."""
    moved: Ints = (pool.speed * pool.iteration)[members] // period[:, None]
    return moved


def worth_of(pool: Pool, members: Ints, period: Ints) -> Ints:
    """Return what groups of these periods are worth, int64 (groups,)."""
    if pool.rules.objective == "efficiency":
        worth: Ints = MILLION * pool.stages.sum(axis=1)[members].sum(axis=1)
        return worth // (pool.slots * period)
    total: Ints = (rates(pool, members, period) * weights(pool)[members]).sum(axis=1)
    return total


def alone(pool: Pool) -> Ints:
    """Return what a job of each class is worth on its own, int64 (classes,)."""
    if pool.rules.objective == "efficiency":
        shared = pool.slots * pool.iteration
        worth: Ints = MILLION * pool.stages.sum(axis=1) // shared.clip(min=1)
        return worth
    return pool.best * weights(pool)


def valued(pool: Pool, members: Ints) -> Columns:
    """Return the columns of these members, int64 (columns, 4), with their worth."""
    size = (members != ALONE).sum(axis=1)
    worth = alone(pool)[members[:, 0]]
    for number in range(2, MOST + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            worth[some] = worth_of(pool, group, periods(pool, group))
    return Columns(members, worth)


def allowed(pool: Pool, members: Ints, period: Ints) -> Bools:
    """Tell which groups beat taking turns and keep the slowdown cap of each member."""
    in_turn = pool.iteration[members].sum(axis=1)
    permitted: Bools = period <= np.minimum(in_turn, pool.longest()[members].min(axis=1))
    return permitted


def enumerated(pool: Pool) -> Columns:
    """Return all columns of a pool, but for groups that are worth no more than a part of them.

    Such a part takes no more of any row where what its other members take is not negative, and
    leaves these members, who need not be covered, for elsewhere.
    """
    own = alone(pool)
    parts = [Columns(padded(np.arange(pool.classes, dtype=np.int64)[:, None]), own)]
    dispensable = ~pool.must & (pool.per_member >= 0).all(axis=0)
    for bucket in range(pool.buckets):
        classes = np.flatnonzero((pool.bucket == bucket) & (pool.count > 0))
        parts += _bucket_columns(pool, classes, own[classes], dispensable[classes])
    columns = joined(*parts)
    new = ~_among(pool.standing, columns.members)
    columns = joined(columns, valued(pool, pool.standing[new]))
    return columns.take(pool.count[columns.members[:, 0]] > 0)


def _bucket_columns(pool: Pool, classes: Ints, own: Ints, dispensable: Bools) -> list[Columns]:
    """Return the groups of a bucket, one part per number of members, those of fewer first.

    `classes` ascend; `own` and `dispensable` are theirs: what they are worth alone, and whether
    a column may do without them.
    """
    parts: list[Columns] = []
    # Multisets by positions in `classes`, in lexicographic order, and the best that a part of each
    # is worth, itself included.
    level = np.arange(len(classes), dtype=np.int64)[:, None]
    best = own
    clash = _conflicts(pool, classes)
    room = int(pool.gpu_memory[pool.bucket[classes[0]]]) if len(classes) else 0
    for _ in range(2, pool.most + 1):
        smaller, level = level, _extended(level, len(classes))
        level = level[_possible(pool, classes, level, clash, room)]
        if not len(level):
            break
        members = classes[level]
        period = periods(pool, members)
        worth = worth_of(pool, members, period)
        worth[~allowed(pool, members, period)] = NOTHING
        part = _best_part(smaller, best, level, dispensable)
        parts.append(Columns(padded(members), worth).take(worth > part))
        best = np.maximum(worth, part)
    return parts


def _among(some: Ints, members: Ints) -> Bools:
    """Tell which of some columns are among others."""
    there: Bools = (some[:, None] == members).all(axis=2).any(axis=1)
    return there


def _extended(level: Ints, classes: int) -> Ints:
    """Return all ascending multisets of one member more, in lexicographic order."""
    last = level[:, -1]
    more = classes - last
    parent = np.repeat(np.arange(len(level)), more)
    step = np.arange(len(parent)) - np.repeat(np.cumsum(more) - more, more)
    return np.column_stack([level[parent], last[parent] + step])


def _possible(pool: Pool, classes: Ints, level: Ints, clash: Bools | None, room: int) -> Bools:
    """Tell which multisets have the jobs, fit the memory and join no conflicting pair.

    Whoever fails takes all multisets that hold it along, and so need not be extended.
    """
    new = level[:, -1]
    possible: Bools = (level == new[:, None]).sum(axis=1) <= pool.count[classes][new]
    if room:
        possible &= pool.memory[classes][level].sum(axis=1) <= room
    if clash is not None:
        possible &= ~clash[new[:, None], level[:, :-1]].any(axis=1)
    return possible


def _conflicts(pool: Pool, classes: Ints) -> Bools | None:
    """Return which of these classes conflict, bool (classes, classes); None if there are none."""
    inside = np.isin(pool.conflicts, classes).all(axis=1)
    if not inside.any():
        return None
    first, second = np.searchsorted(classes, pool.conflicts[inside]).T
    clash = np.zeros((len(classes), len(classes)), dtype=np.bool_)
    clash[first, second] = clash[second, first] = True
    return clash


def _best_part(smaller: Ints, best: Ints, level: Ints, dispensable: Bools) -> Ints:
    """Return the most that what is left of each multiset without a dispensable member is worth."""
    base = len(dispensable)
    powers = base ** np.arange(level.shape[1] - 1)[::-1]
    keys = smaller @ powers
    most = np.full(len(level), NOTHING, dtype=np.int64)
    for left_out in range(level.shape[1]):
        rest = np.delete(level, left_out, axis=1)
        value = best[np.searchsorted(keys, rest @ powers)]
        most = np.maximum(most, np.where(dispensable[level[:, left_out]], value, NOTHING))
    return most


def weights(pool: Pool) -> Ints:
    """Return by what the throughput of a class is multiplied, int64 (classes,)."""
    if pool.rules.objective == "weighted_throughput":
        return pool.weight
    return np.ones(pool.classes, dtype=np.int64)
