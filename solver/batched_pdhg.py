"""Restarted Halpern PDHG for a batch of LPs that differ in a few column bounds, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.solver import Arrays
from placewright.solver.compiled import compiled

Floats32: TypeAlias = NDArray[np.float32]

SCALINGS, POWER = 10, 40
"""How often rows and columns are brought to like sizes, and steps to find the norm of A."""

SLACK = 1e-9
"""Of a row's limit, what counts as none."""


class Sparse(NamedTuple):
    """A sparse matrix by rows (CSR) or by columns (CSC): first entry of each, indices, values."""

    first: NDArray[np.int32]
    other: NDArray[np.int32]
    value: Floats32


class ScaledLp(NamedTuple):
    """The presolved, scaled LP in single precision."""

    by_row: Sparse
    by_column: Sparse
    cost: Floats32
    row_lower: Floats32
    row_upper: Floats32


class PresolvedLp:
    """An LP that is to be minimised, without redundant rows and fixed columns, and equilibrated.

    - `used`, `live`: (columns,) and (rows,) of the arrays that remain.
    - `at`, (columns,): the number of a column among those that remain.
    - `constant`: cost of the columns that presolve removed.
    - `row_scale`, `column_scale`: scaling factors of the remaining rows and columns; values of
      columns are divided by theirs.
    - `lp`: the scaled LP.
    - `lower`, `upper`: scaled bounds of its columns.
    - `norm`: largest singular value of its matrix.
    """

    def __init__(self, arrays: Arrays) -> None:
        row, column, data = arrays.entry_rows(), arrays.indices, arrays.data
        lower, upper = _tightened(arrays)
        least, most = _activity(arrays, lower, upper)
        slack = SLACK * np.maximum(1.0, np.abs(np.stack([arrays.row_lower, arrays.row_upper])))
        slack[~np.isfinite(slack)] = 0.0
        live = (least < arrays.row_lower - slack[0]) | (most > arrays.row_upper + slack[1])
        is_open = lower < upper
        shut = ~is_open[column]
        given = np.bincount(row[shut], data[shut] * lower[column[shut]], minlength=arrays.rows)
        kept = live[row] & is_open[column]
        self.used = np.zeros(arrays.columns, dtype=np.bool_)
        self.used[column[kept]] = True
        ends = np.minimum(arrays.cost * lower, arrays.cost * upper)
        self.constant = arrays.constant + float(ends[~self.used].sum())
        self.live, self.at = live, np.cumsum(self.used) - 1
        row, column, data = (np.cumsum(live) - 1)[row[kept]], self.at[column[kept]], data[kept]
        shape = int(live.sum()), int(self.used.sum())
        self.row_scale, self.column_scale = _scales(row, column, data, shape)
        data = data * self.row_scale[row] * self.column_scale[column]
        self.norm = _norm(row, column, data, shape)
        self.lower, self.upper = (ends[self.used] / self.column_scale for ends in (lower, upper))
        self._cost = arrays.cost[self.used] * self.column_scale
        self._limits = [
            (limit - given)[live] * self.row_scale for limit in (arrays.row_lower, arrays.row_upper)
        ]
        self._entries = row, column, data
        self.lp = ScaledLp(
            _sorted(row, column, data, shape[0]),
            _sorted(column, row, data, shape[1]),
            self._cost.astype(np.float32),
            *(limit.astype(np.float32) for limit in self._limits),
        )

    def bound(self, y: Floats32, lower: Floats, upper: Floats) -> float:
        """Return the dual bound of y (rows,) in double precision, with these column bounds."""
        row, column, data = self._entries
        reduced = self._cost - np.bincount(column, data * y[row], minlength=len(lower))
        limit = np.where(y > 0, *self._limits)
        rows = float((y[y != 0] * limit[y != 0]).sum())
        return self.constant + rows + float(np.minimum(reduced * lower, reduced * upper).sum())


def _activity(arrays: Arrays, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the least and largest activity of rows (rows,)."""
    row, column, data = arrays.entry_rows(), arrays.indices, arrays.data
    low, high = data * lower[column], data * upper[column]
    least = np.bincount(row, np.minimum(low, high), minlength=arrays.rows)
    most = np.bincount(row, np.maximum(low, high), minlength=arrays.rows)
    return least.astype(np.float64), most.astype(np.float64)


def _tightened(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return bounds of columns (columns,) that some optimum satisfies.

    Dual fixing: a column of no positive cost that relaxes every row it is in is at its upper bound.
    Activity bounds: no column exceeds what a row leaves at the least activity of the others.
    """
    row, column, data = arrays.entry_rows(), arrays.indices, arrays.data
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    hurts = np.where(
        data > 0, np.isfinite(arrays.row_upper)[row], np.isfinite(arrays.row_lower)[row]
    )
    eases = np.bincount(column, hurts, minlength=arrays.columns) == 0
    eases &= (arrays.cost <= 0) & np.isfinite(upper)
    lower[eases] = upper[eases]
    least, _ = _activity(arrays, lower, upper)
    adds = (data > 0) & np.isfinite(arrays.row_upper)[row] & np.isfinite(least)[row]
    k = np.flatnonzero(adds)
    left = (arrays.row_upper - least)[row[k]].clip(0.0)
    np.minimum.at(upper, column[k], lower[column[k]] + left / data[k])
    return lower, upper


def _scales(row: Ints, column: Ints, data: Floats, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return scaling factors of rows and columns.

    Ruiz equilibration (Ruiz 2001) by largest entries, then one step by sums (Pock and Chambolle
    2011), as in PDLP.
    """
    scales = [np.ones(count) for count in shape]
    for last in [False] * SCALINGS + [True]:
        entries = np.abs(data) * scales[0][row] * scales[1][column]
        sizes = [np.zeros(count) for count in shape]
        for size, of in zip(sizes, (row, column), strict=True):
            if last:
                np.add.at(size, of, entries)
            else:
                np.maximum.at(size, of, entries)
        for scale, size in zip(scales, sizes, strict=True):
            scale /= np.sqrt(np.where(size > 0, size, 1.0))
    return scales[0], scales[1]


def _norm(row: Ints, column: Ints, data: Floats, shape: tuple[int, int]) -> float:
    """Return the largest singular value, by power iteration."""
    x = np.random.default_rng(0).standard_normal(shape[1])
    size = 1.0
    for _ in range(POWER):
        y = np.bincount(row, data * x[column], minlength=shape[0])
        x = np.bincount(column, data * y[row], minlength=shape[1]).astype(np.float64)
        size = float(np.linalg.norm(x))
        x /= max(size, np.finfo(np.float64).tiny)
    return max(float(np.sqrt(size)), np.finfo(np.float64).tiny)


def _sorted(by: Ints, other: Ints, data: Floats, count: int) -> Sparse:
    order = np.argsort(by, kind="stable")
    first = np.searchsorted(by[order], np.arange(count + 1))
    return Sparse(
        first.astype(np.int32), other[order].astype(np.int32), data[order].astype(np.float32)
    )


# Restarted Halpern PDHG for a batch of LPs that differ in a few column bounds, compiled.
#
#     min c x   where   row_lower <= A x <= row_upper,  lower <= x <= upper
#
# Any y gives a bound by weak duality (`solver/certify.py`). Here y comes from the primal-dual
# hybrid gradient method, warm-started from the iterate of a similar LP:
#
#     x' = x - tau (c - y A), projected onto the bounds
#     v = y - sigma A (2 x' - x),   y' = v + sigma (projection of -v / sigma onto the row limits)
#
# with reflection, Halpern anchoring at the iterate of the last restart, and adaptive restarts
# (PDLP: Applegate et al., "Practical large-scale linear programming using primal-dual hybrid
# gradient", 2021, and "Faster first-order primal-dual methods for linear programming using restarts
# and sharpness", Mathematical Programming 201, 2023; Lu and Yang, "Restarted Halpern PDHG for
# linear programming", 2024). It needs a thousand iterations where an interior-point method needs
# seventy. But an iteration is two products with A, which take little longer for eight LPs at once
# than for one; and some hundred iterations from the optimum of a parent LP prove half of the
# increase by one more fixed column.
WIDTH = 8
"""Relaxations at once: as many numbers as a processor multiplies at once."""

STEP = 0.998
"""Step sizes, of the largest for which the method is known to converge."""

LOOK = 50
"""Steps between looks at bounds, and at whether to begin anew."""

SUFFICIENT_DECAY, NECESSARY_DECAY, MAX_RESTART_SHARE = 0.2, 0.8, 0.36
"""Restart criteria: sufficient decay of the step, necessary decay once steps grow, and the largest
fraction of all iterations between restarts (Applegate et al. 2023)."""

BALANCE, LIGHT, HEAVY = 30.0, 3.0, 100.0
"""Weight of y beside x at first, and at least and at most."""


class Iterates(NamedTuple):
    """Iterates (columns or rows, lanes): anchors, present ones, and those of the last step."""

    x_from: Floats32
    x: Floats32
    x_next: Floats32
    y_from: Floats32
    y: Floats32
    y_next: Floats32
    lower: Floats32
    upper: Floats32


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """A scaled iterate: x (columns,), y (rows,), and the primal weight."""

    x: Floats32
    y: Floats32
    weight: float


class BatchedPdhg:
    """PDHG for one LP that is to be minimised, with columns fixed differently in each lane."""

    def __init__(self, arrays: Arrays) -> None:
        self._model = PresolvedLp(arrays)

    def scaled_iterate(self, point: Floats, prices: Floats) -> Iterate:
        """Return the scaled iterate of a point (columns,) and of prices (rows,)."""
        x = point[self._model.used] / self._model.column_scale
        y = -prices[self._model.live] / self._model.row_scale
        return Iterate(x.astype(np.float32), y.astype(np.float32), BALANCE)

    def point(self, iterate: Iterate) -> Floats:
        """Return the point (columns,) of an iterate; 0 for columns that presolve removed."""
        x = np.zeros(len(self._model.used))
        x[self._model.used] = iterate.x * self._model.column_scale
        return x

    def run(
        self,
        fixings: Sequence[Mapping[int, float]],
        iterates: Sequence[Iterate],
        steps: int,
        cutoff: float,
    ) -> list[tuple[float, Iterate]]:
        """Return a bound of each of up to `WIDTH` LPs, and its last iterate.

        `fixings`: of each LP, columns of the arrays and their values. `iterates`: of each LP, where
        to start. `steps`: largest number of iterations. `cutoff`: bounds need not be better.
        """
        model, count = self._model, len(fixings)
        lower, upper = (
            np.repeat(end[:, None], WIDTH, axis=1) for end in (model.lower, model.upper)
        )
        lanes = [min(lane, count - 1) for lane in range(WIDTH)]
        for lane, mine in enumerate(lanes):
            for column, value in fixings[mine].items():
                if model.used[column]:
                    at = model.at[column]
                    lower[at, lane] = upper[at, lane] = value / model.column_scale[at]
        ends = lower.astype(np.float32), upper.astype(np.float32)
        x = np.stack([iterates[mine].x for mine in lanes], axis=1).clip(*ends)
        y = np.stack([iterates[mine].y for mine in lanes], axis=1)
        state = Iterates(x.copy(), x, x.copy(), y.copy(), y, y.copy(), *ends)
        weight = np.array([iterates[mine].weight for mine in lanes])
        best, last = self._iterate(state, weight, steps, cutoff - model.constant)
        return [
            (
                # In single precision multipliers do, but no sums of what they prove.
                model.bound(best[:, lane], lower[:, lane], upper[:, lane]),
                Iterate(x[:, lane].copy(), last[:, lane].copy(), float(weight[lane])),
            )
            for lane in range(count)
        ]

    def _iterate(
        self, state: Iterates, weight: Floats, steps: int, cutoff: float
    ) -> tuple[Floats32, Floats32]:
        """Return the best y (rows, lanes), and those to continue from; change `weight` (lanes,).

        The latter are the best, or the last ones if no iteration improved on the start.
        """
        first, far = self._bounds(state), np.zeros((2, WIDTH))
        best, prices, size = first.copy(), state.y.copy(), STEP / self._model.norm
        length = np.full(WIDTH, np.nan)
        before = np.full(WIDTH, np.inf)
        since = np.zeros(WIDTH)
        for number in range(1, steps + 1):
            back = (1.0 / (since + 2.0)).astype(np.float32)
            sizes = np.stack([size / weight, size * weight]).astype(np.float32)
            pdhg_step(self._model.lp, state, sizes, back, far)
            moved = np.sqrt(far[0] * weight + far[1] / weight)
            fresh = np.isnan(length)
            length[fresh] = moved[fresh]
            since += 1.0
            if number % LOOK:
                continue
            sufficient = moved <= SUFFICIENT_DECAY * length
            necessary = (moved <= NECESSARY_DECAY * length) & (moved > before)
            anew = ~fresh & (sufficient | necessary | (since >= MAX_RESTART_SHARE * number))
            before = np.where(anew, np.inf, moved)
            for lane in np.flatnonzero(anew):
                x, y = (
                    float(np.linalg.norm(now[:, lane] - began[:, lane]))
                    for now, began in ((state.x, state.x_from), (state.y_next, state.y_from))
                )
                if min(x, y) > 0.0:
                    weight[lane] = np.sqrt(weight[lane] * y / x).clip(LIGHT, HEAVY)
                state.y[:, lane] = state.y_next[:, lane]
                state.x_from[:, lane], state.y_from[:, lane] = state.x[:, lane], state.y[:, lane]
            length[anew], since[anew] = np.nan, 0.0
            found = self._bounds(state)
            better = found > best
            best[better], prices[:, better] = found[better], state.y_next[:, better]
            if (best >= cutoff).all():
                break
        return prices, np.where(best > first, prices, state.y_next)

    def _bounds(self, state: Iterates) -> Floats:
        found = np.zeros(WIDTH)
        dual_values(self._model.lp, state, found)
        return found


def prepare() -> None:
    """Load the compiled functions, or compile them."""
    first, none = np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.int32)
    singles, lanes = np.empty(0, dtype=np.float32), np.empty((0, WIDTH), dtype=np.float32)
    sparse = Sparse(first, none, singles)
    lp = ScaledLp(sparse, sparse, singles, singles, singles)
    state = Iterates(lanes, lanes, lanes, lanes, lanes, lanes, lanes, lanes)
    sizes, found = np.ones((2, WIDTH), dtype=np.float32), np.empty((2, WIDTH))
    pdhg_step(lp, state, sizes, sizes[0], found)
    dual_values(lp, state, found[0])


@compiled
def pdhg_step(
    lp: ScaledLp, state: Iterates, sizes: Floats32, back: Floats32, moved: Floats
) -> None:
    """Make one iteration in all lanes.

    `sizes`, `back`, (2, lanes) and (lanes,): step sizes tau and sigma, and the weight of the
    Halpern anchor. `moved`, (2, lanes): squared lengths of the steps of x and y, written for the
    caller.
    """
    sums = np.zeros(WIDTH, dtype=np.float32)
    far_x = np.zeros(WIDTH, dtype=np.float32)
    far_y = np.zeros(WIDTH, dtype=np.float32)
    two, stay = np.float32(2.0), np.float32(1.0) - back
    for j in range(lp.cost.size):
        for lane in range(WIDTH):
            sums[lane] = lp.cost[j]
        for k in range(lp.by_column.first[j], lp.by_column.first[j + 1]):
            entry, i = lp.by_column.value[k], lp.by_column.other[k]
            for lane in range(WIDTH):
                sums[lane] -= entry * state.y[i, lane]
        for lane in range(WIDTH):
            to = state.x[j, lane] - sizes[0, lane] * sums[lane]
            to = min(max(to, state.lower[j, lane]), state.upper[j, lane])
            far = to - state.x[j, lane]
            far_x[lane] += far * far
            state.x_next[j, lane] = state.x[j, lane] + two * far
    for i in range(lp.row_lower.size):
        for lane in range(WIDTH):
            sums[lane] = np.float32(0.0)
        for k in range(lp.by_row.first[i], lp.by_row.first[i + 1]):
            entry, j = lp.by_row.value[k], lp.by_row.other[k]
            for lane in range(WIDTH):
                sums[lane] += entry * state.x_next[j, lane]
        low, high = lp.row_lower[i], lp.row_upper[i]
        for lane in range(WIDTH):
            size = sizes[1, lane]
            to = state.y[i, lane] - size * sums[lane]
            to += min(max(-to, size * low), size * high)
            state.y_next[i, lane] = to
            far = to - state.y[i, lane]
            far_y[lane] += far * far
            reflected = state.y[i, lane] + two * far
            state.y[i, lane] = stay[lane] * reflected + back[lane] * state.y_from[i, lane]
    for j in range(lp.cost.size):
        for lane in range(WIDTH):
            state.x[j, lane] = (
                stay[lane] * state.x_next[j, lane] + back[lane] * state.x_from[j, lane]
            )
    for lane in range(WIDTH):
        moved[0, lane], moved[1, lane] = far_x[lane], far_y[lane]


@compiled
def dual_values(lp: ScaledLp, state: Iterates, found: Floats) -> None:
    """Write the dual bound of `y_next` in each lane into `found` (lanes,)."""
    sums = np.zeros(WIDTH, dtype=np.float64)
    for lane in range(WIDTH):
        found[lane] = 0.0
    for j in range(lp.cost.size):
        for lane in range(WIDTH):
            sums[lane] = lp.cost[j]
        for k in range(lp.by_column.first[j], lp.by_column.first[j + 1]):
            entry, i = np.float64(lp.by_column.value[k]), lp.by_column.other[k]
            for lane in range(WIDTH):
                sums[lane] -= entry * state.y_next[i, lane]
        for lane in range(WIDTH):
            end = state.lower[j, lane] if sums[lane] > 0.0 else state.upper[j, lane]
            found[lane] += sums[lane] * end
    for i in range(lp.row_lower.size):
        for lane in range(WIDTH):
            y = np.float64(state.y_next[i, lane])
            if y > 0.0:
                found[lane] += y * lp.row_lower[i]
            elif y < 0.0:
                found[lane] += y * lp.row_upper[i]
