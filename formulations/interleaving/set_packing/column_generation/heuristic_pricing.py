"""Heuristic pricing: columns in the exchange neighbourhood of given ones."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    PackingProblem,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.column_generation.duals import Prices
from placewright.formulations.interleaving.set_packing.column_value import (
    ValueBound,
    column_values,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    Columns,
    concatenate,
)


def price_neighbours(
    packing: PackingProblem,
    prices: Prices,
    columns: Columns,
    tolerance: int,
    rng: np.random.Generator,
) -> Columns:
    """Return columns above a reduced cost that differ in one member from given ones.

    The member is replaced, left out or added. Of more columns than can be tried, some are drawn.
    """
    value_bound = ValueBound(packing)
    parts = [columns.take(np.zeros(0, dtype=np.int64))]
    for bucket in range(packing.buckets):
        base = columns.members[packing.bucket[columns.members[:, 0]] == bucket]
        jobs = np.append(np.flatnonzero((packing.bucket == bucket) & (packing.count > 0)), ALONE)
        many = max(
            parameters.PARAMETERS.max_neighbour_groups // (len(jobs) * packing.max_members), 1
        )
        if len(base) > many:
            base = base[rng.choice(len(base), many, replace=False)]
        groups = _exchange_neighbours(base, jobs, packing.max_members)
        paid = np.append(prices.member, 0)[groups].sum(axis=1) + prices.group[bucket] + tolerance
        groups = _unique_groups(packing, groups[value_bound.of(groups) * prices.scale > paid])
        some = Columns(groups, column_values(packing, groups))
        # A job that must be covered may have a negative price, at which what is not allowed pays.
        pays = prices.reduced_cost(packing, groups, some.value) > tolerance
        parts.append(some.take(pays & (some.value != NOT_ALLOWED)))
    return concatenate(*parts)


def _exchange_neighbours(base: Ints, jobs: Ints, most: int) -> Ints:
    """Return the columns with each of these jobs, or none, in each place."""
    groups = np.repeat(base, len(jobs) * most, axis=0)
    place = np.tile(np.repeat(np.arange(most), len(jobs)), len(base))
    groups[np.arange(len(groups)), place] = np.tile(jobs, len(base) * most)
    return groups


def _unique_groups(packing: PackingProblem, groups: Ints) -> Ints:
    """Return distinct groups for which there are enough jobs."""
    groups = sort_members(groups[(groups != ALONE).any(axis=1)])
    _, first = np.unique(
        (groups + 1) @ (packing.classes + 1) ** np.arange(MAX_MEMBERS), return_index=True
    )
    groups = groups[first]
    often = (groups[:, :, None] == groups[:, None, :]).sum(axis=2)
    enough = (groups == ALONE) | (often <= packing.count[groups])
    unique: Ints = groups[enough.all(axis=1)]
    return unique
