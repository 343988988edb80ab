"""Conditional rows rewritten as plain rows, for solvers that know no conditions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.solver.arrays import ALWAYS, Arrays, csr
from placewright.solver.errors import UnsupportedModelError

__all__ = ["big_m"]


def big_m(arrays: Arrays) -> Arrays:
    """Rewrite every row ``when z: a x <= u`` as ``a x + M z <= u + M`` with the smallest valid M.

    M is the largest value of ``a x - u`` over the column bounds with z at 0, never below 0; lower
    bounds are treated alike. A conditional row with two finite bounds becomes two rows in its
    place, one without bounds vanishes. The same arrays come back when no row has a condition.

    Raises
    ------
    UnsupportedModelError
        When the column bounds do not bound the activity of a conditional row.
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
