"""Prices of jobs and rows, and the bound that they prove: weak duality in whole numbers.

With a price y(c) per job of each class (not negative, but where the class must be covered) and z(r)
per unit of each row (not negative), let

    reduced(q) = worth(q) - sum over members c of (y(c) + sum_r z(r) per_member[r, c])
                          - sum_r z(r) per_group[r, bucket]

If no column on its own has a positive reduced worth, and no group of bucket b more than top(b),

    sum_q worth(q) x_q  <=  sum_c y(c) count(c) + sum_r z(r) limit(r) + sum_b groups(b) top(b)

where at most groups(b) groups of the bucket fit. Prices are whole multiples of a fraction of a
millionth, so nothing in this is rounded, whoever the prices come from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.interleaving.set_packing.columns import alone, valued, weights
from placewright.formulations.interleaving.set_packing.problem import ALONE, MILLION, Ints, Pool

Floats = NDArray[np.float64]

FINEST = 1 << 20
"""Fractions of a unit of worth in which prices are counted at most."""

LARGEST = 1 << 52
"""Scaled worth of a job at most, so that scaled worth less prices stays far within 64 bits."""

SAFE = 1 << 60
"""No price may be larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices at which no job on its own pays, times `scale`.

    Attributes
    ----------
    scale
        Parts into which a unit of worth is divided.
    member : int64 (classes,)
        What each member of a column pays: y and its part of the rows.
    group : int64 (buckets,)
        What each column of a bucket pays on top.
    base
        The scaled bound if no group has a positive reduced worth, but for those that run.
    job : float64 (classes,)
        y, unscaled.
    row : float64 (rows,)
        z, unscaled.
    """

    scale: int
    member: Ints
    group: Ints
    base: int
    job: Floats
    row: Floats

    def reduced(self, pool: Pool, members: Ints, worth: Ints) -> Ints:
        """Return the scaled reduced worth of columns, members int64 (columns, up to 4)."""
        paid = np.where(members != ALONE, self.member[members], 0).sum(axis=1)
        bucket = pool.bucket[members[:, 0]]
        own = self.group[bucket] if pool.buckets else np.zeros_like(paid)
        left: Ints = worth * self.scale - paid - np.where(bucket != ALONE, own, 0)
        return left


def prices_of(pool: Pool, job: Floats, row: Floats) -> Prices | None:
    """Return usable prices next to these: rounded, with the right sign, no job alone pays.

    Parameters
    ----------
    job : float64 (classes,)
    row : float64 (rows,)

    Returns
    -------
    None where the numbers are too large to be counted in 64 bits.
    """
    own = alone(pool)
    most = max(int(own.max(initial=0)), int(_most_in_groups(pool)), 1)
    scale = min(FINEST, 1 << max(LARGEST // most, 1).bit_length() - 1)
    y = _whole(np.where(pool.must, job, job.clip(min=0.0)) * scale)
    z = _whole(row.clip(min=0.0) * scale)
    in_rows = z @ pool.per_member.astype(object) if len(z) else np.zeros(pool.classes, dtype=object)
    group = z @ pool.per_group.astype(object) if len(z) else np.zeros(pool.buckets, dtype=object)
    shares = pool.bucket != ALONE
    on_top = np.where(shares, np.append(group, 0)[pool.bucket], 0)
    # A job on its own that pays becomes dearer until it does not.
    y = np.maximum(y, own.astype(object) * scale - in_rows - on_top)
    y = np.where(pool.must, y, np.maximum(y, 0))
    member = y + in_rows
    if any(abs(price) > SAFE for price in (*member, *group, most * scale)):
        return None
    base = int(sum(y * pool.count) + sum(z * pool.limit))
    prices = Prices(
        scale,
        member.astype(np.int64),
        group.astype(np.int64),
        base,
        y.astype(np.float64) / scale,
        z.astype(np.float64) / scale,
    )
    # Groups that run are columns whatever the rules say, each once at most.
    standing = valued(pool, pool.standing)
    gained = prices.reduced(pool, standing.members, standing.worth).clip(min=0)
    return replace(prices, base=base + sum(gained.tolist()))


def reach(pool: Pool) -> Floats:
    """Return the numerators of worth: a member's worth is at most this over the period.

    float64 (classes,), right to a relative 10^-15.
    """
    if pool.rules.objective == "efficiency":
        busy: Floats = pool.stages.sum(axis=1).astype(np.float64) * MILLION / pool.slots
        return busy
    moved: Floats = pool.speed.astype(np.float64) * pool.iteration * weights(pool)
    return moved


def _most_in_groups(pool: Pool) -> float:
    """Return the most that a job can be worth in a group: no period is below its own stages."""
    shares = pool.bucket != ALONE
    least = pool.stages.sum(axis=1)[shares].clip(min=1) * (min(pool.rules.contention) / MILLION)
    return float((reach(pool)[shares] / least.clip(min=1.0)).max(initial=0.0))


def groups_that_fit(pool: Pool) -> Ints:
    """Return how many groups of at least two jobs each bucket can have, int64 (buckets,)."""
    jobs = np.bincount(
        pool.bucket[pool.bucket != ALONE],
        weights=pool.count[pool.bucket != ALONE],
        minlength=pool.buckets,
    )
    fit = jobs.astype(np.int64) // 2
    grows = (pool.per_group >= 0).all(axis=1) & (pool.per_member >= 0).all(axis=1)
    for row in np.flatnonzero(grows):
        takes = pool.per_group[row]
        fit = np.where(takes > 0, np.minimum(fit, pool.limit[row] // takes.clip(min=1)), fit)
    return fit.clip(min=0)


def _whole(values: Floats) -> NDArray[np.object_]:
    return np.array([int(value) for value in np.rint(values)], dtype=object)
