"""Bounds at prices of rows, in whole numbers: whatever the prices are, no plan is better.

At prices y >= 0 of the rows and w >= 0 of value, each job takes its cheapest way on its own,

    cost of plans worth V  >=  w V - y room
                               + sum_j min over ways of j, or none, of cost + y asks - w value

where a running job that stays costs its reads and what it asks, and one that stops w times its
value. With no costs and w = 1 the same says what value can be at most. Prices are rounded to binary
fractions, and all that follows is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.geo.kinds import Kinds
from placewright.formulations.wan.compile import NONE, Ints

Floats = NDArray[np.float64]

PRICE_DIGITS, SUM_DIGITS = 40, 61
"""Binary digits behind the point of a price, and of the largest number that is reckoned with."""

FAR = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """Rows at prices: what each kind's best way in a region costs (kinds, regions), scaled."""

    kinds: Kinds
    scale: int
    base: Ints
    held: int
    worth: int

    def least(self, costs: Ints, value: int) -> float:
        """Return the least cost of plans of at least this value, `costs` are (jobs, regions)."""
        kinds, problem = self.kinds, self.kinds.problem
        jobs = np.flatnonzero(kinds.of_job != NONE)
        kind = kinds.of_job[jobs]
        may = problem.can[jobs]
        each = np.where(may, costs[jobs] * self.scale + self.base[kind], FAR)
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
        return float(-(-total // self.scale) + fixed)

    def _lost(self) -> Ints:
        """Return what it costs that a job of a kind stops (kinds,)."""
        kinds = self.kinds
        lost = np.zeros(len(kinds.at), dtype=np.int64)
        runs = kinds.at[kinds.way_kind] != NONE
        lost[kinds.way_kind[runs]] = self.worth * kinds.value[runs]
        return lost


def price(kinds: Kinds, prices: Floats, worth: float, largest: float) -> Priced:
    """Return what prices of the rows (rows,) and of value say; `largest` are all costs together."""
    prices = np.maximum(0.0, np.nan_to_num(prices))
    # No sum may overflow: every job could take its dearest way.
    dear = np.zeros(kinds.ways)
    np.add.at(dear, kinds.entry_way, prices[kinds.entry_row] * np.abs(kinds.asks))
    most = float((dear + worth * kinds.value).max(initial=0.0)) * len(kinds.of_job)
    most += float(prices @ np.abs(kinds.room)) + largest + worth * float(kinds.value.sum()) + 1.0
    scale = 1 << max(0, min(PRICE_DIGITS, SUM_DIGITS - 1 - int(np.ceil(np.log2(most)))))
    whole = np.rint(prices * scale).astype(np.int64)
    own = round(worth * scale)
    asked = np.zeros(kinds.ways, dtype=np.int64)
    np.add.at(asked, kinds.entry_way, whole[kinds.entry_row] * kinds.asks)
    runs = kinds.at[kinds.way_kind] != NONE
    asked[~runs] -= own * kinds.value[~runs]
    base = np.full((len(kinds.at), len(kinds.problem.wan.regions)), FAR, dtype=np.int64)
    np.minimum.at(base, (kinds.way_kind, kinds.way_region), asked)
    return Priced(kinds, scale, base, int(whole @ kinds.room), own)


def most_value(kinds: Kinds, prices: Floats) -> float:
    """Return the most value of any plan, as prices of the rows prove it."""
    none = np.zeros_like(kinds.problem.remote)
    return -price(kinds, prices, 1.0, 0.0).least(none, 0)
