"""Cuts of accounts: rounded and lifted, exact by dynamic programming (Balas 1975; Wolsey 1975).

A quota is a knapsack: a relaxation starts 0.4 of a large gang of a tenant, where a plan has none of
it and other jobs in its place. Let the row of an account be sum a[j] y[j] <= b, with whole numbers
0 <= y[j] <= u[j], and y* a point of the relaxation. With the jobs of y* = u in place, b' is left
for the others. For the size d of an option of which a part runs,

    sum floor(a[j] / d) y[j]  <=  best(b')        over j with 0 < y*[j] < u[j]

where best(c) is the most that whole numbers of these reach within c. That is a cut while the jobs
of y* = u are in place. It is lifted: g[j] is the least number with which it also holds when fewer
of j run, and then the largest with which it holds when some run of which y* has none. best(c) is
exact for all j so far, and its last value, at c = b, is the right-hand side. All is in whole
numbers, so a cut holds for all plans, whatever y* is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.variables import AccountRow, AggregateModel
from placewright.solver import Outcome

CUTS = "account cut"


@dataclass
class AccountCuts:
    """The cuts of one relaxation: added as long as they improve its bound.

    Attributes
    ----------
    closed
        Whether no more are added.
    """

    closed: bool
    _bounds: list[float] = field(default_factory=list)

    def add(self, m: AggregateModel, relaxed: Outcome, *, ignored: bool) -> bool:
        """Append the cuts that the point of a relaxation violates; return whether there are any.

        Not if it ignores rows, nor if the last cuts have gained next to nothing.
        """
        tuning = parameters.PARAMETERS.models
        if self.closed or ignored or relaxed.values is None or relaxed.bound is None:
            return False
        self._bounds.append(relaxed.bound)
        before = self._bounds[-1 - tuning.num_idle_cut_rounds :][0]
        idle = len(self._bounds) > tuning.num_idle_cut_rounds
        if idle and abs(before - relaxed.bound) <= tuning.min_cut_gain_rel * abs(before):
            return False
        rows = m.model.row_count
        point = relaxed.values[m.y]
        for row in m.account_rows:
            for weights, most in _cuts(row, m.y_most[row.y], point[row.y]):
                mine = np.flatnonzero(weights)
                cut = m.model.rows(CUTS, 1, upper=float(most))
                m.model.add(cut, m.y[row.y[mine]], weights[mine].astype(np.float64))
        return m.model.row_count > rows

    def priced(self, m: AggregateModel, relaxed: Outcome) -> Outcome:
        """Return the outcome with a dual of 0 for cuts that were added after it."""
        if self.closed or relaxed.row_duals is None:
            return relaxed
        later = m.model.row_count - len(relaxed.row_duals)
        return replace(relaxed, row_duals=np.pad(relaxed.row_duals, (0, later)))


def _cuts(row: AccountRow, upper: Ints, point: Floats) -> list[tuple[Ints, int]]:
    """Return the violated cuts of a row: a weight per y, and the most that they may sum up to."""
    tuning = parameters.PARAMETERS.models
    part = np.abs(point - np.rint(point)) > tuning.min_cut_fraction
    if not part.any():
        return []
    if row.most < 0:
        return []
    # In coarser units, rounded down, the row holds for whole numbers all the same.
    coarse = -(-row.most * len(row.amounts) // tuning.max_account_table_entries)
    unit = max(int(np.gcd.reduce(row.amounts)), coarse)
    size, room = row.amounts // unit, row.most // unit
    upper = np.where(size > 0, np.minimum(upper, room // size.clip(min=1)), upper)
    full = ~part & (np.rint(point) == upper)
    if size[full] @ upper[full] > room:
        return []
    some = ~full & (part | (np.rint(point) > 0))
    found = [
        _lifted(size, upper, room, np.where(some, size // d, 0), full, some)
        for d in np.unique(size[part & (size > 0)]).tolist()
    ]
    none = np.zeros_like(full)
    for j in np.flatnonzero(part & (size > 0)).tolist():
        others = point > upper * (1 - min(point[j], 1)) + tuning.min_cut_fraction
        others[j] = False
        found.append(_lifted(size, upper, room, np.where(others, size, 0), none, others))
    return [cut for cut in found if cut[0] @ point > cut[1] + tuning.min_cut_fraction]


def _lifted(
    size: Ints, upper: Ints, room: int, weights: Ints, full: Ints, some: Ints
) -> tuple[Ints, int]:
    """Lift a cut of the jobs of which `some` run to those that are `full`, then to all others."""
    weights = weights.copy()
    best = np.zeros(room + 1, dtype=np.int64)
    for j in np.flatnonzero(weights).tolist():
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
    left = room - int(size[full] @ upper[full])
    most = int(best[left])
    order = np.argsort(-size, kind="stable")
    for j in order[full[order]].tolist():
        times = np.arange(1, upper[j] + 1)
        gain = best[left + times * size[j]] - most
        weights[j] = int((-(-gain // times)).max(initial=0))
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
        left += int(size[j] * upper[j])
        most = int(best[left])
    for j in order[~(full | some)[order]].tolist():
        times = np.arange(1, upper[j] + 1)
        if len(times):
            weights[j] = int(((most - best[room - times * size[j]]) // times).min())
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
    return weights, int(best[room])


def _with_item(best: Ints, size: int, worth: int, number: int) -> Ints:
    """Return the most that is reached within each room with up to a number of a further item."""
    times = 1
    while number > 0 and worth > 0:
        many = min(times, number)
        better = best.copy()
        if many * size < len(best):
            better[many * size :] = np.maximum(
                best[many * size :], best[: len(best) - many * size] + many * worth
            )
        best, number, times = better, number - many, 2 * times
    return best
