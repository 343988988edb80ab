"""Aggregation of interchangeable jobs into classes, and disaggregation of groupings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    Grouping,
    PackingProblem,
    periods,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.columns import rates, weights, with_values

MAX_SCALED_WEIGHT = 1_000_000
"""Means of weights are scaled to be about as large, so that little is lost when they are rounded.

Then what a column is worth has at most 53 binary digits, and is exact in solvers.
"""


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedProblem:
    """A packing problem with interchangeable classes merged, and its original.

    Attributes
    ----------
    packing
        The classes that are left, those of one kind next to each other.
    kind : int64 (classes of `packing`,)
        Classes of one kind differ in nothing but weight; kinds ascend.
    original
        The packing problem of which they were made.
    of : int64 (classes of `original`,)
        The class in `packing` of each.
    unit
        Factor from original weights to those of `packing`.
    """

    packing: PackingProblem
    kind: Ints
    original: PackingProblem
    of: Ints
    unit: int = 1

    def disaggregate(self, grouping: Grouping) -> Grouping:
        """Return a grouping of the original classes; heavier jobs get the faster places.

        The value is that of the original weights.
        """
        column, place = np.nonzero(grouping.members != ALONE)
        taken = grouping.members[column, place]
        wanted_kind = self.kind[taken]
        order = np.lexsort((-_rates(self.packing, grouping.members)[column, place], wanted_kind))
        jobs = np.repeat(np.arange(self.original.classes), self.original.count)
        kind = self.kind[self.of][jobs]
        jobs = jobs[np.lexsort((-self.original.weight[jobs], kind))]
        # The first place of a kind is for the first job of the kind, the second for the second ...
        rank = np.arange(len(order)) - np.searchsorted(wanted_kind[order], wanted_kind[order])
        chosen = np.full_like(grouping.members, ALONE)
        chosen[column[order], place[order]] = jobs[
            np.searchsorted(np.sort(kind), wanted_kind[order]) + rank
        ]
        members = sort_members(chosen)
        value = int(with_values(self.original, members).value.sum())
        return Grouping(members, value, grouping.source)


def merge_classes(packing: PackingProblem) -> AggregatedProblem:
    """Return the problem with classes merged that the rules cannot tell apart."""
    kinds = [
        packing.separation_key(),
        packing.bucket,
        packing.must_cover,
        packing.iteration,
        packing.memory,
    ]
    kinds += [packing.max_period(), *packing.stages.T, *packing.per_member, *packing.peak]
    if packing.rules.objective != "efficiency":
        kinds += [packing.speed, packing.best]
    weight = weights(packing)
    keys = np.vstack([*kinds, weight]).T
    unique, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    new_kind = (unique[1:, :-1] != unique[:-1, :-1]).any(axis=1)
    kind = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(new_kind)])[: len(unique)]
    smaller = replace(packing.aggregate(first, of), weight=weight[first])
    return AggregatedProblem(smaller, kind, packing, of)


def merge_weights(fine: AggregatedProblem, most: int) -> AggregatedProblem:
    """Return the problem with weights merged until there are about `most` classes.

    A weight is then the mean of the jobs'. No kind has more than as many classes as another may
    have, and where all have so few, everything stays as it is.
    """
    packing = fine.packing
    per_kind = np.bincount(fine.kind)
    weights_of = max(most // max(len(per_kind), 1), parameters.PARAMETERS.min_weights_per_kind)
    while np.minimum(per_kind, weights_of + 1).sum() <= most and weights_of < per_kind.max(
        initial=0
    ):
        weights_of += 1
    if per_kind.max(initial=0) <= weights_of:
        return fine
    first_of_kind = np.searchsorted(fine.kind, fine.kind)
    before = np.cumsum(packing.count) - packing.count
    before -= before[first_of_kind]
    jobs = np.bincount(fine.kind, weights=packing.count)[fine.kind].astype(np.int64)
    # Of many weights each part has about as many jobs, of few each is a part.
    part = np.where(
        per_kind[fine.kind] > weights_of,
        before * weights_of // jobs.clip(min=1),
        np.arange(packing.classes) - first_of_kind,
    )
    keys = np.column_stack([fine.kind, part])
    _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    unit = max(MAX_SCALED_WEIGHT // int(packing.weight.max(initial=1)), 1)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, of, packing.weight * packing.count)
    smaller = packing.aggregate(first, of)
    mean = total * unit // smaller.count.clip(min=1)
    return AggregatedProblem(
        replace(smaller, weight=mean), fine.kind[first], fine.original, of[fine.of], unit
    )


def _rates(packing: PackingProblem, members: Ints) -> Ints:
    """Return the normalised throughput of each member of columns, int64 (columns, 4)."""
    size = (members != ALONE).sum(axis=1)
    result = np.where(members != ALONE, packing.best[members], 0)
    for number in range(2, MAX_MEMBERS + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            result[some, :number] = rates(packing, group, periods(packing, group))
    return result
