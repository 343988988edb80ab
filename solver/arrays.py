"""A model as plain NumPy arrays: what backends read and what goes through the pipe to the worker.

The arrays are never changed after `Model.arrays` made them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints

__all__ = ["ALWAYS", "Arrays", "Sense", "csr", "row_slack"]

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

    Returns
    -------
    indptr of shape (rows + 1,), indices and data, sorted by row and column.
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

    Parameters
    ----------
    sense
        Whether the objective is maximised or minimised.
    cost, constant
        The objective is ``cost @ x + constant``; cost has shape (n,).
    lower, upper, integer
        Column bounds and whether the column takes whole values only, shape (n,).
    row_lower, row_upper
        Row bounds, shape (m,).
    indptr, indices, data
        The rows as CSR: row i holds ``data[k] * x[indices[k]]`` for k in
        ``indptr[i]:indptr[i + 1]``; columns ascend within a row and appear once.
    when
        Shape (m,): the 0/1 column that switches the row on, or `ALWAYS`.
    row_block, block_names
        Row i belongs to the block named ``block_names[row_block[i]]``.
    priority
        Shape (n,): branching priorities, larger ones first, for backends that take them (SCIP).
        None: the backend's own order.
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

        Parameters
        ----------
        values
            The point, shape (n,).
        tolerance
            Allowed excess, relative to a bound's size, absolute for bounds below 1. A row with a
            condition counts where its literal is at least ``1 - tolerance``.
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
        """Tell whether a point of shape (n,) keeps bounds, integrality and rows."""
        if values.shape != self.cost.shape or not np.isfinite(values).all():
            return False
        whole = values[self.integer]
        return bool(
            (values >= self.lower - row_slack(self.lower, tolerance)).all()
            and (values <= self.upper + row_slack(self.upper, tolerance)).all()
            and (np.abs(whole - np.rint(whole)) <= tolerance).all()
            and self.violations(values, tolerance).size == 0
        )
