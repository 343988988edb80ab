"""Models as plain NumPy arrays: what backends read and what goes through the pipe to a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.solver.intervals import Intervals


# A model as plain NumPy arrays: what backends read and what goes through the pipe to the worker.
#
# The arrays are never changed after `Model.arrays` made them.
class UnsupportedModelError(Exception):
    """A backend cannot take this model; the message names the row or the column."""


class BackendUnavailableError(Exception):
    """A backend is unknown or its solver is not installed; the message says what to install."""


Sense: TypeAlias = Literal["max", "min"]

ALWAYS = -1
"""The entry of `Arrays.when` for a row without a condition."""


def row_slack(bound: Floats, tolerance: float) -> Floats:
    """Give how far an activity may pass each bound: relative to the bound, absolute below 1."""
    return tolerance * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))


def csr(
    rows: Ints, columns: Ints, values: Floats, shape: tuple[int, int]
) -> tuple[Ints, Ints, Floats]:
    """Turn coordinates into CSR; repeated entries add up, zeros vanish.

    Returns indptr of shape (rows + 1,), indices and data, sorted by row and column.
    """
    # One sort by the flat position brings repeated entries together.
    flat, place = np.unique(rows * shape[1] + columns, return_inverse=True)
    data = np.bincount(place, weights=values, minlength=len(flat))
    flat, data = flat[data != 0.0], data[data != 0.0]
    counts = np.bincount(flat // max(shape[1], 1), minlength=shape[0])
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
    return indptr, flat % max(shape[1], 1), data


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """One linear model with one objective, n columns and m rows.

    - `sense`: whether the objective is maximised or minimised.
    - `cost`, `constant`: the objective is ``cost @ x + constant``; cost has shape (n,).
    - `lower`, `upper`, `integer`: column bounds and whether the column takes whole values only,
      shape (n,).
    - `row_lower`, `row_upper`: row bounds, shape (m,).
    - `indptr`, `indices`, `data`: the rows as CSR: row i holds ``data[k] * x[indices[k]]`` for k in
      ``indptr[i]:indptr[i + 1]``; columns ascend within a row and appear once.
    - `when`, shape (m,): the 0/1 column that switches the row on, or `ALWAYS`.
    - `row_block`, `block_names`: row i belongs to the block named ``block_names[row_block[i]]``.
    - `priority`, shape (n,): branching priorities, larger ones first, for backends that take them
      (SCIP). None: the backend's own order.
    - `intervals`: interval variables with cumulative constraints, for backends that take them
      (CP-SAT, enumeration). None: none.
    """

    sense: Sense
    cost: Floats
    constant: float
    lower: Floats
    upper: Floats
    integer: Bools
    row_lower: Floats
    row_upper: Floats
    indptr: Ints
    indices: Ints
    data: Floats
    when: Ints
    row_block: Ints
    block_names: tuple[str, ...]
    priority: Ints | None = None
    intervals: Intervals | None = None

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.cost)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.row_lower)

    @property
    def sign(self) -> float:
        """Give +1.0 when larger objectives are better, -1.0 when smaller ones are."""
        return 1.0 if self.sense == "max" else -1.0

    def entry_rows(self) -> Ints:
        """Give the row of each stored coefficient, shape (len(data),)."""
        return np.repeat(np.arange(self.rows, dtype=np.int64), np.diff(self.indptr))

    def row_name(self, row: int) -> str:
        """Name a row for a message, by its block and its index."""
        return f"row {row} of block {self.block_names[self.row_block[row]]!r}"

    def objective_of(self, values: Floats) -> float:
        """Give the objective of a point of shape (n,)."""
        return float(self.cost @ values) + self.constant

    def reduced_costs(self, row_duals: Floats) -> Floats:
        """Give what each column adds to the objective beyond what its rows cost, shape (n,)."""
        paid = self.data * row_duals[self.entry_rows()]
        return self.cost - np.bincount(self.indices, weights=paid, minlength=self.columns)

    def without_columns(self, mask: Bools) -> Arrays:
        """Give the same model with the columns of a mask, shape (n,), fixed at 0."""
        return replace(self, upper=np.where(mask, 0.0, self.upper))

    def violations(self, values: Floats, tolerance: float = 1e-6) -> Ints:
        """Give the indices of the rows that a point breaks.

        `values`: the point, shape (n,). `tolerance`: allowed excess, relative to a bound's size,
        absolute for bounds below 1. A row with a condition counts where its literal is at least ``1
        - tolerance``.
        """
        activity = np.bincount(
            self.entry_rows(), weights=self.data * values[self.indices], minlength=self.rows
        )
        broken = activity < self.row_lower - row_slack(self.row_lower, tolerance)
        broken |= activity > self.row_upper + row_slack(self.row_upper, tolerance)
        conditional = self.when != ALWAYS
        broken[conditional] &= values[self.when[conditional]] >= 1.0 - tolerance
        return np.flatnonzero(broken)

    def feasible(self, values: Floats, tolerance: float = 1e-6) -> bool:
        """Tell whether a point of shape (n,) keeps bounds, integrality, rows and intervals."""
        if values.shape != self.cost.shape or not np.isfinite(values).all():
            return False
        whole = values[self.integer]
        return bool(
            (values >= self.lower - row_slack(self.lower, tolerance)).all()
            and (values <= self.upper + row_slack(self.upper, tolerance)).all()
            and (np.abs(whole - np.rint(whole)) <= tolerance).all()
            and self.violations(values, tolerance).size == 0
            and (self.intervals is None or self.intervals.kept(values))
        )


def big_m(arrays: Arrays) -> Arrays:
    """Rewrite every row ``when z: a x <= u`` as ``a x + M z <= u + M`` with the smallest valid M.

    M is the largest value of ``a x - u`` over the column bounds with z at 0, never below 0; lower
    bounds are treated alike. A conditional row with two finite bounds becomes two rows in its
    place, one without bounds vanishes. The same arrays come back when no row has a condition.
    Raises UnsupportedModelError if the column bounds do not bound the activity of a conditional
    row.
    """
    conditional = arrays.when != ALWAYS
    if not conditional.any():
        return arrays
    above = conditional & np.isfinite(arrays.row_upper)
    below = conditional & np.isfinite(arrays.row_lower)
    copies = np.where(conditional, above.astype(np.int64) + below, 1)

    origin = np.repeat(np.arange(arrays.rows, dtype=np.int64), copies)
    second = np.diff(origin, prepend=-1) == 0
    takes_upper = above[origin] & ~second
    takes_lower = below[origin] & ~takes_upper

    smallest, largest = _activity_without_literal(arrays)
    excess = np.maximum(0.0, largest - np.where(above, arrays.row_upper, 0.0))[origin]
    deficit = np.minimum(0.0, smallest - np.where(below, arrays.row_lower, 0.0))[origin]
    factor = np.where(takes_upper, excess, np.where(takes_lower, deficit, 0.0))
    wrong = np.flatnonzero(~np.isfinite(factor))
    if wrong.size:
        raise UnsupportedModelError(
            f"{arrays.row_name(int(origin[wrong[0]]))} has a condition and an unbounded activity; "
            "finite bounds on its columns were expected"
        )

    row_lower = np.where(takes_upper, -np.inf, arrays.row_lower[origin]) + factor
    row_upper = np.where(takes_lower, np.inf, arrays.row_upper[origin]) + factor
    indptr, indices, data = _with_literals(arrays, origin, factor)
    return replace(
        arrays,
        row_lower=row_lower,
        row_upper=row_upper,
        indptr=indptr,
        indices=indices,
        data=data,
        when=np.full(len(origin), ALWAYS, dtype=np.int64),
        row_block=arrays.row_block[origin],
    )


def _activity_without_literal(arrays: Arrays) -> tuple[Floats, Floats]:
    """Bound each row's activity over the column bounds, its own literal at 0."""
    rows = arrays.entry_rows()
    free: Bools = arrays.indices != arrays.when[rows]
    rows, columns, data = rows[free], arrays.indices[free], arrays.data[free]
    at_lower = data * arrays.lower[columns]
    at_upper = data * arrays.upper[columns]
    smallest, largest = np.zeros(arrays.rows), np.zeros(arrays.rows)
    np.add.at(smallest, rows, np.minimum(at_lower, at_upper))
    np.add.at(largest, rows, np.maximum(at_lower, at_upper))
    return smallest, largest


def _with_literals(arrays: Arrays, origin: Ints, factor: Floats) -> tuple[Ints, Ints, Floats]:
    """Copy the rows named by origin and add factor times the literal to each of them."""
    lengths = np.diff(arrays.indptr)[origin]
    rows = np.repeat(np.arange(len(origin), dtype=np.int64), lengths)
    ends = np.cumsum(lengths)
    source = np.arange(len(rows)) - np.repeat(ends - lengths, lengths)
    source += np.repeat(arrays.indptr[origin], lengths)

    moved = np.flatnonzero(factor)
    return csr(
        np.concatenate([rows, moved]),
        np.concatenate([arrays.indices[source], arrays.when[origin[moved]]]),
        np.concatenate([arrays.data[source], factor[moved]]),
        (len(origin), arrays.columns),
    )
