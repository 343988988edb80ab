"""Columns of the set-packing problem: which groups are allowed, their period, and their value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    PackingProblem,
    allowed,
    pad_members,
    periods,
)
from placewright.topology.units import MILLION

NOT_ALLOWED = -1
"""Less than the value of any column."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Single jobs and groups, by the classes of their members.

    Attributes
    ----------
    members : int64 (columns, 4)
        Classes in ascending order, `ALONE` after the last one.
    value : int64 (columns,)
        What one such column adds to the term.
    """

    members: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.value)

    def take(self, chosen: Ints | Bools) -> Columns:
        """Return some of the columns, by index or mask."""
        return Columns(self.members[chosen], self.value[chosen])


def concatenate(*parts: Columns) -> Columns:
    """Return the columns of all parts."""
    return Columns(
        np.concatenate([part.members for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def count_columns(packing: PackingProblem) -> int:
    """Return the number of multisets of classes of one bucket, before filters."""
    sizes = np.bincount(packing.bucket[packing.bucket != ALONE], minlength=packing.buckets).tolist()
    groups = sum(comb(n + p - 1, p) for n in sizes for p in range(2, packing.max_members + 1))
    return packing.classes + groups


def rates(packing: PackingProblem, members: Ints, period: Ints) -> Ints:
    """Return the normalised throughput of each member of groups, millionths, as `members`."""
    rate: Ints = (packing.speed * packing.iteration)[members] // period[:, None]
    return rate


def group_values(packing: PackingProblem, members: Ints, period: Ints) -> Ints:
    """Return the value of groups of these periods, int64 (groups,)."""
    if packing.rules.objective == "efficiency":
        value: Ints = MILLION * packing.stages.sum(axis=1)[members].sum(axis=1)
        return value // (packing.slots * period)
    total: Ints = (rates(packing, members, period) * weights(packing)[members]).sum(axis=1)
    return total


def single_values(packing: PackingProblem) -> Ints:
    """Return the value of a job of each class on its own, int64 (classes,)."""
    if packing.rules.objective == "efficiency":
        shared = packing.slots * packing.iteration
        value: Ints = MILLION * packing.stages.sum(axis=1) // shared.clip(min=1)
        return value
    return packing.best * weights(packing)


def with_values(packing: PackingProblem, members: Ints) -> Columns:
    """Return the columns of these members, int64 (columns, 4), with their value."""
    size = (members != ALONE).sum(axis=1)
    value = single_values(packing)[members[:, 0]]
    for number in range(2, MAX_MEMBERS + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            value[some] = group_values(packing, group, periods(packing, group))
    return Columns(members, value)


def values_by_class(packing: PackingProblem, members: Ints) -> Ints:
    """Return the value of columns by priority class, int64 (priority classes, columns).

    `members` as of `with_values`. Efficiency has no priority classes.
    """
    size = (members != ALONE).sum(axis=1)
    value = _class_values(packing, members[:, :1])
    for number in range(2, MAX_MEMBERS + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            value[:, some] = _class_values(packing, group, periods(packing, group))
    return value


def enumerate_columns(packing: PackingProblem) -> Columns:
    """Return all columns but groups of no more value than a subset of their members.

    Such a part takes no more of any row where what its other members take is not negative, and
    leaves these members, who need not be covered, for elsewhere. With several priority classes it
    has no less value of any.
    """
    own = single_values(packing)
    parts = [Columns(pad_members(np.arange(packing.classes, dtype=np.int64)[:, None]), own)]
    dispensable = ~packing.must_cover & (packing.per_member >= 0).all(axis=0)
    for bucket in range(packing.buckets):
        classes = np.flatnonzero((packing.bucket == bucket) & (packing.count > 0))
        parts += _bucket_columns(packing, classes, own[classes], dispensable[classes])
    columns = concatenate(*parts)
    new = ~_is_among(packing.frozen_groups, columns.members)
    columns = concatenate(columns, with_values(packing, packing.frozen_groups[new]))
    return columns.take(packing.count[columns.members[:, 0]] > 0)


def _bucket_columns(
    packing: PackingProblem, classes: Ints, own: Ints, dispensable: Bools
) -> list[Columns]:
    """Return the groups of a bucket, by number of members.

    `classes` ascend; `own` and `dispensable` are theirs: their value alone, and whether
    a column may do without them.
    """
    parts: list[Columns] = []
    # Multisets by positions in `classes`, in lexicographic order, and the largest value of a subset
    # of each, itself included.
    level = np.arange(len(classes), dtype=np.int64)[:, None]
    best = own
    each = _class_values(packing, classes[:, None])
    conflict = _conflicts(packing, classes)
    gpu_memory = int(packing.gpu_memory[packing.bucket[classes[0]]]) if len(classes) else 0
    for _ in range(2, packing.max_members + 1):
        smaller, level = level, _extend(level, len(classes))
        level = level[_extendable(packing, classes, level, conflict, gpu_memory)]
        if not len(level):
            break
        members = classes[level]
        period = periods(packing, members)
        permitted = allowed(packing, members, period)
        value = np.where(permitted, group_values(packing, members, period), NOT_ALLOWED)
        if len(packing.rules.class_weights) > 1:
            now = np.where(permitted, _class_values(packing, members, period), NOT_ALLOWED)
            keep = permitted & ~_is_dominated(smaller, each, level, now, dispensable)
            parts.append(Columns(pad_members(members), value).take(keep))
            each = now
            continue
        part = _best_subset_value(smaller, best, level, dispensable)
        parts.append(Columns(pad_members(members), value).take(value > part))
        best = np.maximum(value, part)
    return parts


def _is_among(some: Ints, members: Ints) -> Bools:
    """Return which of some columns are among others."""
    there: Bools = (some[:, None] == members).all(axis=2).any(axis=1)
    return there


def _extend(level: Ints, classes: int) -> Ints:
    """Return all ascending multisets of one member more, in lexicographic order."""
    last = level[:, -1]
    more = classes - last
    parent = np.repeat(np.arange(len(level)), more)
    step = np.arange(len(parent)) - np.repeat(np.cumsum(more) - more, more)
    return np.column_stack([level[parent], last[parent] + step])


def _extendable(
    packing: PackingProblem, classes: Ints, level: Ints, conflict: Bools | None, gpu_memory: int
) -> Bools:
    """Return which multisets have enough jobs and memory, and no conflicting pair.

    All supersets of a multiset that fails do, so it need not be extended.
    """
    new = level[:, -1]
    possible: Bools = (level == new[:, None]).sum(axis=1) <= packing.count[classes][new]
    if gpu_memory:
        possible &= packing.memory[classes][level].sum(axis=1) <= gpu_memory
    if conflict is not None:
        possible &= ~conflict[new[:, None], level[:, :-1]].any(axis=1)
    return possible


def _conflicts(packing: PackingProblem, classes: Ints) -> Bools | None:
    """Return which of these classes conflict, bool (classes, classes); None if there are none."""
    inside = np.isin(packing.conflicts, classes).all(axis=1)
    if not inside.any():
        return None
    first, second = np.searchsorted(classes, packing.conflicts[inside]).T
    conflict = np.zeros((len(classes), len(classes)), dtype=np.bool_)
    conflict[first, second] = conflict[second, first] = True
    return conflict


def _best_subset_value(smaller: Ints, best: Ints, level: Ints, dispensable: Bools) -> Ints:
    """Return the largest value of a subset of each multiset, one dispensable member left out."""
    most = np.full(len(level), NOT_ALLOWED, dtype=np.int64)
    for rest, may_leave in _subsets(smaller, level, dispensable):
        most = np.maximum(most, np.where(may_leave, best[rest], NOT_ALLOWED))
    return most


def _is_dominated(smaller: Ints, before: Ints, level: Ints, now: Ints, dispensable: Bools) -> Bools:
    """Return which multisets have no more value of any priority class than one subset.

    `before` and `now` are the values of `smaller` and `level`, (priority classes, multisets).
    """
    dominated = np.zeros(len(level), dtype=np.bool_)
    for rest, may_leave in _subsets(smaller, level, dispensable):
        dominated |= may_leave & (before[:, rest] >= now).all(axis=0)
    return dominated


def _subsets(smaller: Ints, level: Ints, dispensable: Bools) -> Iterator[tuple[Ints, Bools]]:
    """Yield the index of each multiset without one member, and whether that may be left out."""
    powers = len(dispensable) ** np.arange(level.shape[1] - 1)[::-1]
    keys = smaller @ powers
    for left_out in range(level.shape[1]):
        rest = np.delete(level, left_out, axis=1)
        yield np.searchsorted(keys, rest @ powers), dispensable[level[:, left_out]]


def _class_values(packing: PackingProblem, members: Ints, period: Ints | None = None) -> Ints:
    """Return the value of columns by priority class, int64 (priority classes, columns)."""
    number = len(packing.rules.class_weights)
    alone = own_weights(packing)[members] * (
        packing.best[members] if period is None else rates(packing, members, period)
    )
    of = packing.priority_class[members]
    return np.stack([np.where(of == k, alone, 0).sum(axis=1) for k in range(number)])


def own_weights(packing: PackingProblem) -> Ints:
    """Return the weight of throughput of each class within its priority class, int64 (classes,)."""
    if packing.rules.objective == "weighted_throughput":
        return packing.weight
    return np.ones(packing.classes, dtype=np.int64)


def weights(packing: PackingProblem) -> Ints:
    """Return the weight of throughput of each class, int64 (classes,)."""
    of_class = np.array(packing.rules.class_weights, dtype=np.int64)
    weight: Ints = own_weights(packing) * of_class[packing.priority_class]
    return weight


def rate_numerator(packing: PackingProblem) -> Floats:
    """Return numerators of value (classes,): a member's value is at most this per period.

    float64 (classes,), right to a relative 10^-15.
    """
    if packing.rules.objective == "efficiency":
        stage_total: Floats = (
            packing.stages.sum(axis=1).astype(np.float64) * MILLION / packing.slots
        )
        return stage_total
    numerator: Floats = packing.speed.astype(np.float64) * packing.iteration * weights(packing)
    return numerator
