"""Columns one member away from others: the quick part of pricing."""

from __future__ import annotations

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.column_value import (
    Hope,
    judged,
)
from placewright.formulations.interleaving.set_packing.column_generation.duals import Prices
from placewright.formulations.interleaving.set_packing.columns import NOTHING, Columns, joined
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    MOST,
    Ints,
    Pool,
    ascending,
)

GROUPS = 400_000
"""Groups that are looked at per bucket at most."""


def neighbours(
    pool: Pool, prices: Prices, columns: Columns, tolerance: int, rng: np.random.Generator
) -> Columns:
    """Return columns with a scaled reduced worth above a tolerance, one member away from others.

    The member is replaced, left out or added. Of more columns than can be tried, some are drawn.
    """
    hope = Hope(pool)
    parts = [columns.take(np.zeros(0, dtype=np.int64))]
    for bucket in range(pool.buckets):
        base = columns.members[pool.bucket[columns.members[:, 0]] == bucket]
        jobs = np.append(np.flatnonzero((pool.bucket == bucket) & (pool.count > 0)), ALONE)
        many = max(GROUPS // (len(jobs) * pool.most), 1)
        if len(base) > many:
            base = base[rng.choice(len(base), many, replace=False)]
        groups = _one_away(base, jobs, pool.most)
        paid = np.append(prices.member, 0)[groups].sum(axis=1) + prices.group[bucket] + tolerance
        groups = _distinct(pool, groups[hope.of(groups) * prices.scale > paid])
        some = Columns(groups, judged(pool, groups))
        # A job that must be covered may have a negative price, at which what is not allowed pays.
        pays = prices.reduced(pool, groups, some.worth) > tolerance
        parts.append(some.take(pays & (some.worth != NOTHING)))
    return joined(*parts)


def _one_away(base: Ints, jobs: Ints, most: int) -> Ints:
    """Return the columns with each of these jobs, or nobody, in each place."""
    groups = np.repeat(base, len(jobs) * most, axis=0)
    place = np.tile(np.repeat(np.arange(most), len(jobs)), len(base))
    groups[np.arange(len(groups)), place] = np.tile(jobs, len(base) * most)
    return groups


def _distinct(pool: Pool, groups: Ints) -> Ints:
    """Return groups in order and once each, those for which there are jobs enough."""
    groups = ascending(groups[(groups != ALONE).any(axis=1)])
    _, first = np.unique((groups + 1) @ (pool.classes + 1) ** np.arange(MOST), return_index=True)
    groups = groups[first]
    often = (groups[:, :, None] == groups[:, None, :]).sum(axis=2)
    enough = (groups == ALONE) | (often <= pool.count[groups])
    distinct: Ints = groups[enough.all(axis=1)]
    return distinct
