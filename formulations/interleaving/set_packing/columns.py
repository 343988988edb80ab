"""Columns of the set-packing problem: which groups are allowed, their period, and their value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    Grouping,
    PackingProblem,
    allowed,
    pad_members,
    periods,
    sort_members,
)
from placewright.topology.units import MILLION

NOT_ALLOWED = -1
"""Less than the value of any column."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Single jobs and groups, by the classes of their members."""

    members: Ints  # (columns, 4): Classes in ascending order, `ALONE` after the last one
    value: Ints  # (columns,): What one such column adds to the term

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


def by_size(members: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield which columns have 2, 3 and 4 members, each with these members, unpadded."""
    size = (members != ALONE).sum(axis=1)
    for number in range(2, MAX_MEMBERS + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            yield some, members[some, :number]


def with_values(packing: PackingProblem, members: Ints) -> Columns:
    """Return the columns of these members, int64 (columns, 4), with their value."""
    value = single_values(packing)[members[:, 0]]
    for some, group in by_size(members):
        value[some] = group_values(packing, group, periods(packing, group))
    return Columns(members, value)


def values_by_class(packing: PackingProblem, members: Ints) -> Ints:
    """Return the value of columns by priority class, int64 (priority classes, columns).

    `members` as of `with_values`. Efficiency has no priority classes.
    """
    value = _class_values(packing, members[:, :1])
    for some, group in by_size(members):
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
    among = (packing.frozen_groups[:, None] == columns.members).all(axis=2).any(axis=1)
    columns = concatenate(columns, with_values(packing, packing.frozen_groups[~among]))
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


ROUNDING_FACTOR = 1 + 1e-12
"""More than what rounding can take from a result of floating-point numbers."""


def column_values(packing: PackingProblem, members: Ints) -> Ints:
    """Return the value of columns, `NOT_ALLOWED` where they are not allowed, int64 (columns,).

    `members` (columns, 4): ascending classes of one bucket per column, `ALONE` last; none more
    often than it has jobs. Without members a column has the value 0.
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


MAX_SCALED_WEIGHT = 1_000_000
"""Means of weights are scaled to be about as large, so that little is lost when they are rounded.

Then the value of a column has at most 53 binary digits, and is exact in solvers.
"""


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedProblem:
    """A packing problem with interchangeable classes merged, and its original."""

    packing: PackingProblem  # The classes that are left, those of one family next to each other
    # (classes of `packing`,): Classes of one family differ in nothing but weight; families ascend.
    family: Ints
    original: PackingProblem  # The packing problem of which they were made
    of: Ints  # (classes of `original`,): The class in `packing` of each
    unit: int = 1  # Factor from original weights to those of `packing`

    def disaggregate(self, grouping: Grouping) -> Grouping:
        """Return a grouping of the original classes; heavier jobs get the faster places.

        The value is that of the original weights.
        """
        column, place = np.nonzero(grouping.members != ALONE)
        taken = grouping.members[column, place]
        wanted_family = self.family[taken]
        order = np.lexsort((-_rates(self.packing, grouping.members)[column, place], wanted_family))
        jobs = np.repeat(np.arange(self.original.classes), self.original.count)
        family = self.family[self.of][jobs]
        jobs = jobs[np.lexsort((-self.original.weight[jobs], family))]
        # The k-th place of a family is for its k-th job.
        rank = np.arange(len(order)) - np.searchsorted(wanted_family[order], wanted_family[order])
        chosen = np.full_like(grouping.members, ALONE)
        chosen[column[order], place[order]] = jobs[
            np.searchsorted(np.sort(family), wanted_family[order]) + rank
        ]
        members = sort_members(chosen)
        value = int(with_values(self.original, members).value.sum())
        return Grouping(members, value, grouping.source)


def merge_classes(packing: PackingProblem) -> AggregatedProblem:
    """Return the problem with classes merged that the rules cannot tell apart."""
    columns = [
        packing.separation_key(),
        packing.bucket,
        packing.must_cover,
        packing.priority_class,
        packing.iteration,
        packing.memory,
    ]
    columns += [packing.max_period(), *packing.stages.T, *packing.per_member, *packing.peak]
    if packing.rules.objective != "efficiency":
        columns += [packing.speed, packing.best]
    weight = own_weights(packing)
    keys = np.vstack([*columns, weight]).T
    unique, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    new_family = (unique[1:, :-1] != unique[:-1, :-1]).any(axis=1)
    family = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(new_family)])[: len(unique)]
    smaller = replace(packing.aggregate(first, of), weight=weight[first])
    return AggregatedProblem(smaller, family, packing, of)


def merge_weights(fine: AggregatedProblem, most: int) -> AggregatedProblem:
    """Return the problem with weights merged until there are about `most` classes.

    A weight is then the mean of the jobs'. All families have the same limit of classes; where none
    exceeds it, everything stays as it is.
    """
    packing = fine.packing
    per_family = np.bincount(fine.family)
    weights_of = max(most // max(len(per_family), 1), parameters.PARAMETERS.min_weights_per_family)
    while np.minimum(per_family, weights_of + 1).sum() <= most and weights_of < per_family.max(
        initial=0
    ):
        weights_of += 1
    if per_family.max(initial=0) <= weights_of:
        return fine
    first_of_family = np.searchsorted(fine.family, fine.family)
    before = np.cumsum(packing.count) - packing.count
    before -= before[first_of_family]
    jobs = np.bincount(fine.family, weights=packing.count)[fine.family].astype(np.int64)
    # Of many weights each part has about as many jobs, of few each is a part.
    part = np.where(
        per_family[fine.family] > weights_of,
        before * weights_of // jobs.clip(min=1),
        np.arange(packing.classes) - first_of_family,
    )
    keys = np.column_stack([fine.family, part])
    _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    unit = max(MAX_SCALED_WEIGHT // int(weights(packing).max(initial=1)), 1)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, of, packing.weight * packing.count)
    smaller = packing.aggregate(first, of)
    mean = total * unit // smaller.count.clip(min=1)
    return AggregatedProblem(
        replace(smaller, weight=mean), fine.family[first], fine.original, of[fine.of], unit
    )


def _rates(packing: PackingProblem, members: Ints) -> Ints:
    """Return the normalised throughput of each member of columns, int64 (columns, 4)."""
    result = np.where(members != ALONE, packing.best[members], 0)
    for some, group in by_size(members):
        result[some, : group.shape[1]] = rates(packing, group, periods(packing, group))
    return result
