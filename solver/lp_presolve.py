"""Presolve and equilibration of an LP for a first-order method."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.solver import Arrays

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

    Attributes
    ----------
    used, live : Bools
        (columns,) and (rows,) of the arrays that remain.
    at : Ints
        (columns,): the number of a column among those that remain.
    constant : float
        Cost of the columns that presolve removed.
    row_scale, column_scale : Floats
        Scaling factors of the remaining rows and columns; values of columns are divided by theirs.
    lp : ScaledLp
        The scaled LP.
    lower, upper : Floats
        Scaled bounds of its columns.
    norm : float
        Largest singular value of its matrix.
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
