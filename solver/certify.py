"""Weak duality in integer arithmetic: bounds from row multipliers, valid whatever they are.

Weak duality, for a maximum over  row_lower <= A x <= row_upper,  lower <= x <= upper:  for any y,

    c x  =  y A x + (c - y A) x  <=  sum_i max over the row's bounds of y[i] r
                                   + sum_j max over the column's bounds of (c - y A)[j] x

y is what a solver calls the dual; it is rounded to multiples of 2^-40 and everything after that is
exact integer arithmetic, so neither the solver nor floating point can make the bound wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from placewright.array_types import Floats
from placewright.solver.arrays import ALWAYS, Arrays
from placewright.solver.audit import INFINITE
from placewright.solver.lagrangian import PRICE_BITS, round_to_integers

__all__ = ["SCALE", "certified_bound", "multipliers"]

SCALE = 1 << PRICE_BITS
DATA_SCALE = 1 << 20
"""Data that are not multiples of 2^-20 are not certified."""

LARGEST = 1 << 53
"""Nor are larger ones: they may have been rounded before they came here."""

Whole = npt.NDArray[Any]
"""Python integers in an object array, which cannot overflow."""


def multipliers(arrays: Arrays, row_duals: Floats) -> Whole:
    """Round a solver's row duals to usable multipliers, times `SCALE`.

    They are oriented so that the objective is a maximum. One that is not finite or would need an
    infinite row bound is set to 0, as is that of a conditional row.
    """
    dual = arrays.sign * np.where(np.abs(row_duals) < INFINITE, row_duals, 0.0)
    usable = np.where(dual > 0, np.isfinite(arrays.row_upper), np.isfinite(arrays.row_lower))
    dual = np.where(usable & (arrays.when == ALWAYS), dual, 0.0)
    return round_to_integers(dual * SCALE)


def certified_bound(arrays: Arrays, y: Whole, extra: int = 0) -> Fraction | None:
    """Bound the objective by weak duality, exactly.

    Parameters
    ----------
    arrays
        The model; integrality is not used.
    y
        Multipliers of its rows, from `multipliers`.
    extra
        What columns that are not in the model can add at these multipliers, times `SCALE`.

    Returns
    -------
    An upper bound for a maximum, a lower bound for a minimum; None where a column without a bound
    pays at these multipliers, or data are not multiples of 2^-20 or beyond 2^53.
    """
    pieces = [arrays.data, arrays.cost, np.array([arrays.constant])]
    limits = [arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper]
    if not all(_is_whole(part) for part in (*pieces, *limits)):
        return None
    cost = _scaled(arrays.sign * arrays.cost)
    paid = np.zeros(arrays.columns, dtype=object)
    products = _scaled(arrays.data) * y[arrays.entry_rows()]
    np.add.at(paid, arrays.indices, products)
    reduced = cost * SCALE - paid
    rows = _most(y, arrays.row_lower, arrays.row_upper)
    columns = _most(reduced, arrays.lower, arrays.upper)
    if rows is None or columns is None:
        return None
    # rows carry SCALE * DATA_SCALE, columns SCALE * DATA_SCALE^2.
    total = Fraction(rows, SCALE * DATA_SCALE) + Fraction(columns, SCALE * DATA_SCALE**2)
    bound = total + Fraction(extra, SCALE) + int(arrays.sign) * Fraction(arrays.constant)
    return bound if arrays.sense == "max" else -bound


def _most(coefficient: Whole, lower: Floats, upper: Floats) -> int | None:
    """Sum of the most that coefficient times a value between the bounds can be, scaled."""
    up = coefficient > 0
    down = coefficient < 0
    if not (np.isfinite(upper[up]).all() and np.isfinite(lower[down]).all()):
        return None
    total: int = sum(coefficient[up] * _scaled(upper[up])) + sum(
        coefficient[down] * _scaled(lower[down])
    )
    return total


def _is_whole(part: Floats) -> bool:
    finite = part[np.isfinite(part)]
    steps = finite * DATA_SCALE
    return bool((steps == np.rint(steps)).all() and (np.abs(finite) <= LARGEST).all())


def _scaled(part: Floats) -> Whole:
    return _whole(part * DATA_SCALE)


def _whole(part: Floats | Sequence[float]) -> Whole:
    return np.array([int(value) for value in part], dtype=object)
