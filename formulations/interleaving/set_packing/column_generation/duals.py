"""Duals of jobs and rows, and the bound that they prove: weak duality in integers.

With a price y(c) per job of each class (not negative, unless the class must be covered) and z(r)
per unit of each row (not negative), let

    reduced(q) = value(q) - sum over members c of (y(c) + sum_r z(r) per_member[r, c])
                          - sum_r z(r) per_group[r, bucket]

If no single job has a positive reduced cost, and no group of bucket b more than top(b),

    sum_q value(q) x_q  <=  sum_c y(c) count(c) + sum_r z(r) limit(r) + sum_b groups(b) top(b)

where at most groups(b) groups of the bucket fit. Prices are integers in fractions of a millionth,
so nothing is rounded, whatever the duals are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving.problem.packing_problem import ALONE, PackingProblem
from placewright.formulations.interleaving.set_packing.columns import (
    rate_numerator,
    single_values,
    with_values,
)
from placewright.solver.lagrangian import round_to_integers
from placewright.topology.units import MILLION

MAX_SCALE = 1 << 20
"""Fractions of a unit of value in which prices are counted at most."""

MAX_SCALED_VALUE = 1 << 52
"""Scaled value of a job at most, so that scaled value less prices stays far within 64 bits."""

MAX_PRICE = 1 << 60
"""No price may be larger."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Integer prices, times `scale`, at which no single job has a positive reduced cost.

    Attributes
    ----------
    scale
        Parts into which a unit of value is divided.
    member : int64 (classes,)
        What each member of a column pays: y and its part of the rows.
    group : int64 (buckets,)
        What each column of a bucket pays on top.
    base
        The scaled bound if no group has a positive reduced cost, but for those that run.
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

    def reduced_cost(self, packing: PackingProblem, members: Ints, value: Ints) -> Ints:
        """Return the scaled reduced cost of columns, members int64 (columns, up to 4)."""
        paid = np.where(members != ALONE, self.member[members], 0).sum(axis=1)
        bucket = packing.bucket[members[:, 0]]
        own = self.group[bucket] if packing.buckets else np.zeros_like(paid)
        left: Ints = value * self.scale - paid - np.where(bucket != ALONE, own, 0)
        return left


def rounded_prices(packing: PackingProblem, job: Floats, row: Floats) -> Prices | None:
    """Return integer prices near these duals: right signs, no single job pays; or None.

    Parameters
    ----------
    job : float64 (classes,)
    row : float64 (rows,)

    Returns
    -------
    None where the numbers are too large to be counted in 64 bits.
    """
    own = single_values(packing)
    most = max(int(own.max(initial=0)), int(_max_group_value(packing)), 1)
    scale = min(MAX_SCALE, 1 << max(MAX_SCALED_VALUE // most, 1).bit_length() - 1)
    y = round_to_integers(np.where(packing.must_cover, job, job.clip(min=0.0)) * scale)
    z = round_to_integers(row.clip(min=0.0) * scale)
    in_rows = (
        z @ packing.per_member.astype(object) if len(z) else np.zeros(packing.classes, dtype=object)
    )
    group = (
        z @ packing.per_group.astype(object) if len(z) else np.zeros(packing.buckets, dtype=object)
    )
    shares = packing.bucket != ALONE
    on_top = np.where(shares, np.append(group, 0)[packing.bucket], 0)
    # Raise the dual of a single job until its reduced cost is not positive.
    y = np.maximum(y, own.astype(object) * scale - in_rows - on_top)
    y = np.where(packing.must_cover, y, np.maximum(y, 0))
    member = y + in_rows
    if any(abs(price) > MAX_PRICE for price in (*member, *group, most * scale)):
        return None
    base = int(sum(y * packing.count) + sum(z * packing.limit))
    prices = Prices(
        scale,
        member.astype(np.int64),
        group.astype(np.int64),
        base,
        y.astype(np.float64) / scale,
        z.astype(np.float64) / scale,
    )
    # Frozen groups are columns although the rules forbid them, each once at most.
    frozen = with_values(packing, packing.frozen_groups)
    gained = prices.reduced_cost(packing, frozen.members, frozen.value).clip(min=0)
    return replace(prices, base=base + sum(gained.tolist()))


def _max_group_value(packing: PackingProblem) -> float:
    """Return an upper bound of a job's value in a group."""
    shares = packing.bucket != ALONE
    least = packing.stages.sum(axis=1)[shares].clip(min=1) * (
        min(packing.rules.contention) / MILLION
    )
    return float((rate_numerator(packing)[shares] / least.clip(min=1.0)).max(initial=0.0))


def max_groups(packing: PackingProblem) -> Ints:
    """Return the number of groups of two or more that fit per bucket, int64 (buckets,)."""
    jobs = np.bincount(
        packing.bucket[packing.bucket != ALONE],
        weights=packing.count[packing.bucket != ALONE],
        minlength=packing.buckets,
    )
    fit = jobs.astype(np.int64) // 2
    grows = (packing.per_group >= 0).all(axis=1) & (packing.per_member >= 0).all(axis=1)
    for row in np.flatnonzero(grows):
        takes = packing.per_group[row]
        fit = np.where(takes > 0, np.minimum(fit, packing.limit[row] // takes.clip(min=1)), fit)
    return fit.clip(min=0)
