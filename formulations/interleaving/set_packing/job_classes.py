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
from placewright.formulations.interleaving.set_packing.columns import (
    own_weights,
    rates,
    weights,
    with_values,
)

MAX_SCALED_WEIGHT = 1_000_000
"""Means of weights are scaled to be about as large, so that little is lost when they are rounded.

Then the value of a column has at most 53 binary digits, and is exact in solvers.
"""


@dataclass(frozen=True, slots=True, eq=False)
class AggregatedProblem:
    """A packing problem with interchangeable classes merged, and its original.

    Attributes
    ----------
    packing
        The classes that are left, those of one family next to each other.
    family : int64 (classes of `packing`,)
        Classes of one family differ in nothing but weight; families ascend.
    original
        The packing problem of which they were made.
    of : int64 (classes of `original`,)
        The class in `packing` of each.
    unit
        Factor from original weights to those of `packing`.
    """

    packing: PackingProblem
    family: Ints
    original: PackingProblem
    of: Ints
    unit: int = 1

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
    size = (members != ALONE).sum(axis=1)
    result = np.where(members != ALONE, packing.best[members], 0)
    for number in range(2, MAX_MEMBERS + 1):
        some = np.flatnonzero(size == number)
        if len(some):
            group = members[some, :number]
            result[some, :number] = rates(packing, group, periods(packing, group))
    return result
