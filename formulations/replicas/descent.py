"""Multipliers of many relaxations at once that differ in a few columns only, compiled.

    min c x   where   row_lower <= A x <= row_upper,  lower <= x <= upper

For any y, weak duality (`solver/certify.py`) makes a bound of it. Here y comes from the
primal-dual hybrid gradient method, from where a relaxation like it ended:

    x' = x - tau (c - y A), within bounds
    v = y - sigma A (2 x' - x),   y' = v + sigma (what rows may be, nearest to -v / sigma)

reflected, drawn back to where it began less and less (Halpern), and begun anew where it is when it
slows down (Lu and Yang, "Restarted Halpern PDHG for linear programming", 2024). It needs a thousand
steps where an interior point needs seventy. But a step is two products with A, and of eight
relaxations at once they take little longer than of one; and after some hundred steps from the
optimum of a relaxation, half of what it costs to say one more column is proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.replicas.moves import compiled
from placewright.formulations.wan.compile import Ints
from placewright.solver import Arrays
from placewright.solver.arrays import Floats

Singles: TypeAlias = NDArray[np.float32]

WIDTH = 8
"""Relaxations at once: as many numbers as a processor multiplies at once."""

SCALINGS, POWER = 10, 40
"""How often rows and columns are brought to like sizes, and steps to find the norm of A."""

STEP = 0.998
"""Step sizes, of the largest for which the method is known to converge."""

LOOK = 50
"""Steps between looks at bounds, and at whether to begin anew."""

MUCH, LITTLE, LONG = 0.2, 0.8, 0.36
"""It begins anew when steps are so much shorter than the first one was; or so much, and grow; or
after so many of all steps."""

BALANCE, LIGHT, HEAVY = 30.0, 3.0, 3000.0
"""Weight of y beside x at first, and at least and at most."""

SLACK = 1e-9
"""Of a row's limit, what counts as none."""


class Sparse(NamedTuple):
    """A matrix by its rows, or by its columns: where each begins, and entries."""

    first: NDArray[np.int32]
    other: NDArray[np.int32]
    value: Singles


class State(NamedTuple):
    """Iterates (columns or rows, lanes): where they began, are, and what the last step made."""

    x_from: Singles
    x: Singles
    x_next: Singles
    y_from: Singles
    y: Singles
    y_next: Singles
    lower: Singles
    upper: Singles


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where a descent begins or ended, scaled: x (columns,), y (rows,), and the weight of y."""

    x: Singles
    y: Singles
    weight: float


class Descent:
    """A relaxation to be minimised, scaled, without what cannot matter."""

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
        self._used = np.zeros(arrays.columns, dtype=np.bool_)
        self._used[column[kept]] = True
        ends = np.minimum(arrays.cost * lower, arrays.cost * upper)
        self._constant = arrays.constant + float(ends[~self._used].sum())
        self._live, self._at = live, np.cumsum(self._used) - 1
        row, column, data = (np.cumsum(live) - 1)[row[kept]], self._at[column[kept]], data[kept]
        shape = int(live.sum()), int(self._used.sum())
        self._row_scale, self._column_scale = _scales(row, column, data, shape)
        data = data * self._row_scale[row] * self._column_scale[column]
        self._step = STEP / _norm(row, column, data, shape)
        self._by_row = _sorted(row, column, data, shape[0])
        self._by_column = _sorted(column, row, data, shape[1])
        self._cost = (arrays.cost[self._used] * self._column_scale).astype(np.float32)
        self._ends = [ends[self._used] / self._column_scale for ends in (lower, upper)]
        self._row_lower, self._row_upper = (
            ((limit - given)[live] * self._row_scale).astype(np.float32)
            for limit in (arrays.row_lower, arrays.row_upper)
        )

    def start(self, point: Floats, prices: Floats) -> Start:
        """Return a start from a point (columns,) and prices (rows,) as `Relaxed` has them."""
        x = point[self._used] / self._column_scale
        y = -prices[self._live] / self._row_scale
        return Start(x.astype(np.float32), y.astype(np.float32), BALANCE)

    def point(self, start: Start) -> Floats:
        """Return the point (columns,) of a start; 0 for columns that are not in it."""
        x = np.zeros(len(self._used))
        x[self._used] = start.x * self._column_scale
        return x

    def run(
        self,
        said: Sequence[Mapping[int, float]],
        starts: Sequence[Start],
        steps: int,
        cutoff: float,
    ) -> list[tuple[float, Start]]:
        """Return a bound of each of up to `WIDTH` relaxations, and where it ended.

        Parameters
        ----------
        said
            Of each, columns of the arrays and their values.
        starts
            Of each, where to begin.
        cutoff
            Bounds need not be better.
        """
        lanes = [min(lane, len(said) - 1) for lane in range(WIDTH)]
        lower, upper = (np.repeat(e.astype(np.float32)[:, None], WIDTH, 1) for e in self._ends)
        for lane, mine in enumerate(lanes):
            for column, value in said[mine].items():
                if self._used[column]:
                    at = self._at[column]
                    lower[at, lane] = upper[at, lane] = value / self._column_scale[at]
        x = np.stack([starts[mine].x for mine in lanes], axis=1).clip(lower, upper)
        y = np.stack([starts[mine].y for mine in lanes], axis=1)
        state = State(x.copy(), x, x.copy(), y.copy(), y, y.copy(), lower, upper)
        weight = np.array([starts[mine].weight for mine in lanes])
        best, prices = self._descend(state, weight, steps, cutoff - self._constant)
        weight = weight.clip(LIGHT, HEAVY)
        return [
            (
                float(best[lane]) + self._constant,
                Start(x[:, lane].copy(), prices[:, lane].copy(), float(weight[lane])),
            )
            for lane in range(len(said))
        ]

    def _descend(
        self, state: State, weight: Floats, steps: int, cutoff: float
    ) -> tuple[Floats, Singles]:
        """Return the best bounds (lanes,), and their y (rows, lanes); change `weight` (lanes,).

        Where nothing better was found, y is the last one.
        """
        first, far = self._bounds(state), np.zeros((2, WIDTH))
        best, prices = first.copy(), state.y.copy()
        length = np.full(WIDTH, np.nan)
        before = np.full(WIDTH, np.inf)
        since = np.zeros(WIDTH)
        for number in range(1, steps + 1):
            back = (1.0 / (since + 2.0)).astype(np.float32)
            sizes = np.stack([self._step / weight, self._step * weight]).astype(np.float32)
            step(
                self._by_row,
                self._by_column,
                self._cost,
                self._row_lower,
                self._row_upper,
                state,
                sizes,
                back,
                far,
            )
            moved = np.sqrt(far[0] * weight + far[1] / weight)
            fresh = np.isnan(length)
            length[fresh] = moved[fresh]
            since += 1.0
            if number % LOOK:
                continue
            slow = (moved <= LITTLE * length) & (moved > before) | (moved <= MUCH * length)
            anew = ~fresh & (slow | (since >= LONG * number))
            before = np.where(anew, np.inf, moved)
            for lane in np.flatnonzero(anew):
                x, y = (
                    float(np.linalg.norm(now[:, lane] - began[:, lane]))
                    for now, began in ((state.x, state.x_from), (state.y_next, state.y_from))
                )
                if min(x, y) > 0.0:
                    weight[lane] = np.sqrt(weight[lane] * y / x)
                state.y[:, lane] = state.y_next[:, lane]
                state.x_from[:, lane], state.y_from[:, lane] = state.x[:, lane], state.y[:, lane]
            length[anew], since[anew] = np.nan, 0.0
            found = self._bounds(state)
            better = found > best
            best[better], prices[:, better] = found[better], state.y_next[:, better]
            if (best >= cutoff).all():
                break
        same = best <= first
        prices[:, same] = state.y_next[:, same]
        return best, prices

    def _bounds(self, state: State) -> Floats:
        found = np.zeros(WIDTH)
        value(self._by_column, self._cost, self._row_lower, self._row_upper, state, found)
        return found


@compiled
def step(
    by_row: Sparse,
    by_column: Sparse,
    cost: Singles,
    row_lower: Singles,
    row_upper: Singles,
    state: State,
    sizes: Singles,
    back: Singles,
    moved: Floats,
) -> None:
    """Make one step in all lanes.

    Parameters
    ----------
    sizes, back
        (2, lanes) and (lanes,): tau and sigma, and how much of where it began comes back.
    moved
        (2, lanes): squares of how far x and y went, for the caller.
    """
    sums = np.zeros(WIDTH, dtype=np.float32)
    far_x = np.zeros(WIDTH, dtype=np.float32)
    far_y = np.zeros(WIDTH, dtype=np.float32)
    two, stay = np.float32(2.0), np.float32(1.0) - back
    for j in range(cost.size):
        for lane in range(WIDTH):
            sums[lane] = cost[j]
        for k in range(by_column.first[j], by_column.first[j + 1]):
            entry, i = by_column.value[k], by_column.other[k]
            for lane in range(WIDTH):
                sums[lane] -= entry * state.y[i, lane]
        for lane in range(WIDTH):
            to = state.x[j, lane] - sizes[0, lane] * sums[lane]
            to = min(max(to, state.lower[j, lane]), state.upper[j, lane])
            far = to - state.x[j, lane]
            far_x[lane] += far * far
            state.x_next[j, lane] = state.x[j, lane] + two * far
    for i in range(row_lower.size):
        for lane in range(WIDTH):
            sums[lane] = np.float32(0.0)
        for k in range(by_row.first[i], by_row.first[i + 1]):
            entry, j = by_row.value[k], by_row.other[k]
            for lane in range(WIDTH):
                sums[lane] += entry * state.x_next[j, lane]
        low, high = row_lower[i], row_upper[i]
        for lane in range(WIDTH):
            size = sizes[1, lane]
            to = state.y[i, lane] - size * sums[lane]
            to += min(max(-to, size * low), size * high)
            state.y_next[i, lane] = to
            far = to - state.y[i, lane]
            far_y[lane] += far * far
            reflected = state.y[i, lane] + two * far
            state.y[i, lane] = stay[lane] * reflected + back[lane] * state.y_from[i, lane]
    for j in range(cost.size):
        for lane in range(WIDTH):
            state.x[j, lane] = (
                stay[lane] * state.x_next[j, lane] + back[lane] * state.x_from[j, lane]
            )
    for lane in range(WIDTH):
        moved[0, lane], moved[1, lane] = far_x[lane], far_y[lane]


@compiled
def value(
    by_column: Sparse,
    cost: Singles,
    row_lower: Singles,
    row_upper: Singles,
    state: State,
    found: Floats,
) -> None:
    """Write the bound that `y_next` proves in each lane into `found` (lanes,)."""
    sums = np.zeros(WIDTH, dtype=np.float64)
    for lane in range(WIDTH):
        found[lane] = 0.0
    for j in range(cost.size):
        for lane in range(WIDTH):
            sums[lane] = cost[j]
        for k in range(by_column.first[j], by_column.first[j + 1]):
            entry, i = np.float64(by_column.value[k]), by_column.other[k]
            for lane in range(WIDTH):
                sums[lane] -= entry * state.y_next[i, lane]
        for lane in range(WIDTH):
            end = state.lower[j, lane] if sums[lane] > 0.0 else state.upper[j, lane]
            found[lane] += sums[lane] * end
    for i in range(row_lower.size):
        for lane in range(WIDTH):
            y = np.float64(state.y_next[i, lane])
            if y > 0.0:
                found[lane] += y * row_lower[i]
            elif y < 0.0:
                found[lane] += y * row_upper[i]


def _activity(arrays: Arrays, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the least and the most that rows can be (rows,)."""
    row, column, data = arrays.entry_rows(), arrays.indices, arrays.data
    low, high = data * lower[column], data * upper[column]
    least = np.bincount(row, np.minimum(low, high), minlength=arrays.rows)
    most = np.bincount(row, np.maximum(low, high), minlength=arrays.rows)
    return least.astype(np.float64), most.astype(np.float64)


def _tightened(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return bounds of columns (columns,) that some optimum keeps.

    A column that costs nothing and eases every row that it is in is as large as it may be; and no
    column is so large that the rest of a row cannot make good for it.
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
    """Return factors of rows and columns that bring entries near 1 (Ruiz; Pock and Chambolle)."""
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
    """Return the largest singular value, about."""
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
