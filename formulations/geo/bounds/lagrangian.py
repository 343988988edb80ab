"""Bounds at prices of rows, in whole numbers: whatever the prices are, no plan is better.

At prices y >= 0 of the rows and w >= 0 of value, each job takes its cheapest way on its own,

    cost of plans worth V  >=  w V - y room
                               + sum_j min over ways of j, or none, of cost + y asks - w value

where a running job that stays costs its reads and what it asks, and one that stops w times its
value. With no costs and w = 1 the same says what value can be at most. Prices are rounded to binary
fractions, and all that follows is exact: in Python's integers where 64 bits could be too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.common.wan.arrays import NONE, Ints
from placewright.formulations.geo.problem.class_arrays import Kinds
from placewright.formulations.session import outward

Floats = NDArray[np.float64]

PRICE_DIGITS, SUM_DIGITS = 40, 61
"""Binary digits behind the point of a price, and of the largest number in 64 bits."""

FAR = 2**62
"""What a way costs that is not there. What costs more counts as this: a lower bound, too."""

MOST_PRICE = 2.0**62
"""Of a row: with larger ones a bound is no better, and floats may be infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """Rows at prices: what each kind's best way in a region costs (kinds, regions), scaled.

    Arrays are of 64 bits where no sum can be larger, else of Python's integers.
    """

    kinds: Kinds
    scale: int
    base: Ints
    held: int
    worth: int

    def least(self, costs: Ints, value: int) -> float:
        """Return the least cost of plans of at least this value, as a float that is no larger.

        Parameters
        ----------
        costs
            (jobs, regions).
        """
        kinds, problem = self.kinds, self.kinds.problem
        jobs = np.flatnonzero(kinds.of_job != NONE)
        kind = kinds.of_job[jobs]
        may = problem.can[jobs]
        each = np.where(
            may, costs[jobs].astype(self.base.dtype) * self.scale + self.base[kind], FAR
        )
        each[self.base[kind] >= FAR] = FAR
        best = each.min(axis=1, initial=FAR)
        runs = kinds.at[kind] != NONE
        lost = self._lost()[kind]
        best[~runs] = np.minimum(best[~runs], 0)
        # Who runs stays, or stops and is worth nothing.
        stops = runs & kinds.may_stop[kind]
        best[stops] = np.minimum(best[stops], lost[stops])
        pinned = np.flatnonzero((kinds.of_job == NONE) & (problem.at != NONE))
        fixed = int(costs[pinned, problem.at[pinned]].sum())
        total = int(best.sum()) - self.held + self.worth * value
        return outward(-(-total // self.scale) + fixed, "min")

    def _lost(self) -> Ints:
        """Return what it costs that a job of a kind stops (kinds,)."""
        kinds = self.kinds
        lost = np.zeros(len(kinds.at), dtype=self.base.dtype)
        runs = kinds.at[kinds.way_kind] != NONE
        lost[kinds.way_kind[runs]] = self.worth * kinds.value[runs].astype(self.base.dtype)
        return lost


def price(kinds: Kinds, prices: Floats, worth: float, largest: float) -> Priced:
    """Return what prices of the rows (rows,) and of value say; `largest` are all costs together."""
    prices = np.clip(np.nan_to_num(prices), 0.0, MOST_PRICE)
    worth = min(float(np.nan_to_num(worth)), MOST_PRICE)
    most = largest + _most(kinds, prices, worth)
    scale = 1 << max(0, min(PRICE_DIGITS, SUM_DIGITS - 1 - int(np.ceil(np.log2(most)))))
    prices, own = np.rint(prices * scale), round(worth * scale)
    # Prices that were rounded up may be larger than those that the scale was chosen for.
    fits = scale * largest + _most(kinds, prices, own) < 2.0**SUM_DIGITS
    number = np.dtype(np.int64 if fits else object)
    whole = np.array([int(p) for p in prices.tolist()], dtype=number)
    asked = np.zeros(kinds.ways, dtype=number)
    np.add.at(asked, kinds.entry_way, whole[kinds.entry_row] * kinds.asks.astype(number))
    runs = kinds.at[kinds.way_kind] != NONE
    asked[~runs] -= own * kinds.value[~runs].astype(number)
    base = np.full((len(kinds.at), len(kinds.problem.wan.regions)), FAR, dtype=number)
    np.minimum.at(base, (kinds.way_kind, kinds.way_region), asked)
    return Priced(kinds, scale, base, int((whole * kinds.room.astype(number)).sum()), own)


def _most(kinds: Kinds, prices: Floats, worth: float) -> float:
    """Return no less than any price and any sum, costs aside: all jobs may go their dearest way.

    It is a sum of floats, so only nearly so.
    """
    dear = np.zeros(kinds.ways)
    np.add.at(dear, kinds.entry_way, prices[kinds.entry_row] * np.abs(kinds.asks))
    ways = float((dear + worth * kinds.value).max(initial=0.0)) * len(kinds.of_job)
    value = kinds.value.astype(np.float64).sum()
    room = float(prices @ (1 + np.abs(kinds.room)))
    return ways + room + worth * (1.0 + float(value)) + 1.0


def most_value(kinds: Kinds, prices: Floats) -> float:
    """Return the most value of any plan, as prices of the rows prove it."""
    none = np.zeros_like(kinds.problem.remote)
    return -price(kinds, prices, 1.0, 0.0).least(none, 0)
