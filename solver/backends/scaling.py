"""An integer model written in integers: what CP-SAT needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.solver.arrays import ALWAYS, Arrays
from placewright.solver.errors import UnsupportedModelError

__all__ = ["Scaled", "scaled"]

LARGEST_SCALE = 10**6
"""The largest factor by which a row or the objective is multiplied."""

LARGEST_NUMBER = 2.0**53
"""Bounds and coefficients beyond this are not exact as floats."""

LARGEST_ACTIVITY = 2.0**61
"""CP-SAT refuses rows whose activity can overflow 64 bits."""

_UNREACHED = 2**62
"""Beyond every activity."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """The integers of a model; `cost` is to be minimised and is `objective_scale` times ours."""

    lower: Ints
    upper: Ints
    row_lower: Ints
    row_upper: Ints
    data: Ints
    cost: Ints
    objective_scale: int


def scaled(arrays: Arrays) -> Scaled:
    """Scale rows and objective to integers; row bounds go to the next integer inside.

    A row bound may be missed by a relative 1e-9 before it is rounded, so that 2.9999999999 is
    read as 3. Unbounded columns take the bounds that the rows imply.

    Raises
    ------
    UnsupportedModelError
        When a column is continuous, or unbounded after a look at the rows, when a number has no
        denominator up to `LARGEST_SCALE`, or when the integers grow too large.
    """
    if not arrays.integer.all():
        column = int(np.flatnonzero(~arrays.integer)[0])
        raise UnsupportedModelError(f"column {column} is continuous; CP-SAT needs integers")
    lower, upper = _implied_bounds(arrays)
    unbounded = ~((np.abs(lower) <= LARGEST_NUMBER) & (np.abs(upper) <= LARGEST_NUMBER))
    if unbounded.any():
        column = int(np.flatnonzero(unbounded)[0])
        raise UnsupportedModelError(
            f"column {column} has bounds {lower[column]} to {upper[column]}; finite bounds within "
            f"{LARGEST_NUMBER:g} were expected"
        )
    rows = arrays.entry_rows()
    row_scale = np.ones(arrays.rows)
    for row in np.unique(rows[arrays.data != np.rint(arrays.data)]).tolist():
        numbers = arrays.data[arrays.indptr[row] : arrays.indptr[row + 1]]
        row_scale[row] = _scale(numbers, arrays.row_name(row))
    data = arrays.data * row_scale[rows]
    objective_scale = _scale(arrays.cost, "the objective")
    cost = -arrays.sign * arrays.cost * objective_scale

    reach = np.maximum(np.abs(lower), np.abs(upper))
    activity = np.zeros(arrays.rows)
    np.add.at(activity, rows, np.abs(data) * reach[arrays.indices])
    wide = np.flatnonzero(activity > LARGEST_ACTIVITY)
    if wide.size:
        raise UnsupportedModelError(
            f"{arrays.row_name(int(wide[0]))} reaches {activity[wide[0]]:g} in integers; at most "
            f"{LARGEST_ACTIVITY:g} was expected"
        )
    if np.abs(cost) @ reach > LARGEST_ACTIVITY:
        raise UnsupportedModelError(
            f"the objective reaches {np.abs(cost) @ reach:g} in integers; at most "
            f"{LARGEST_ACTIVITY:g} was expected"
        )
    row_lower = _inside(arrays.row_lower * row_scale, -1)
    row_upper = _inside(arrays.row_upper * row_scale, +1)
    # An interval without an integer is not a domain; a place that no activity reaches is.
    empty = row_lower > row_upper
    row_lower[empty] = row_upper[empty] = _UNREACHED
    return Scaled(
        lower=lower.astype(np.int64),
        upper=upper.astype(np.int64),
        row_lower=row_lower,
        row_upper=row_upper,
        data=np.rint(data).astype(np.int64),
        cost=np.rint(cost).astype(np.int64),
        objective_scale=objective_scale,
    )


def _scale(numbers: Floats, where: str) -> int:
    """Find the smallest factor that makes all these numbers whole."""
    factor = 1
    for number in np.unique(np.abs(numbers[numbers != np.rint(numbers)])).tolist():
        fraction = Fraction(number).limit_denominator(LARGEST_SCALE)
        if abs(float(fraction) - number) > 1e-14 * number:
            raise UnsupportedModelError(
                f"coefficient {number} of {where} is not a fraction with a denominator up to "
                f"{LARGEST_SCALE}; a number that scales to an integer was expected"
            )
        factor = math.lcm(factor, fraction.denominator)
        if factor > LARGEST_SCALE:
            raise UnsupportedModelError(
                f"coefficients of {where} need the common denominator {factor}; at most "
                f"{LARGEST_SCALE} was expected"
            )
    return factor


def _inside(bounds: Floats, direction: int) -> Ints:
    finite = np.abs(bounds) < LARGEST_ACTIVITY
    close = np.where(finite, bounds, 0.0)
    close = close + direction * _SLACK * np.maximum(1.0, np.abs(close))
    rounded = np.floor(close) if direction > 0 else np.ceil(close)
    infinite = np.where(bounds > 0, _UNREACHED, -_UNREACHED)
    return np.where(finite, rounded.astype(np.int64), infinite)


def _implied_bounds(arrays: Arrays) -> tuple[Floats, Floats]:
    """Bound the infinite columns by the rows that always count, as often as that helps."""
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    rows = arrays.entry_rows()
    counts = arrays.when[rows] == ALWAYS
    rows, columns, data = rows[counts], arrays.indices[counts], arrays.data[counts]
    open_columns = ~(np.isfinite(lower) & np.isfinite(upper))
    while open_columns.any():
        for sign, limit in ((1.0, arrays.row_upper), (-1.0, -arrays.row_lower)):
            _tighten(lower, upper, (rows, columns, sign * data), limit)
        still = ~(np.isfinite(lower) & np.isfinite(upper))
        if still.sum() == open_columns.sum():
            break
        open_columns = still
    return lower, upper


def _tighten(
    lower: Floats, upper: Floats, entries: tuple[Ints, Ints, Floats], limit: Floats
) -> None:
    """Use rows ``a x <= limit``: a column takes what the others leave at their least."""
    rows, columns, data = entries
    least = np.minimum(data * lower[columns], data * upper[columns])
    endless = np.isinf(least)
    finite_sum, endless_count = np.zeros(len(limit)), np.zeros(len(limit))
    np.add.at(finite_sum, rows, np.where(endless, 0.0, least))
    np.add.at(endless_count, rows, endless)
    others_finite = endless_count[rows] - endless == 0
    left = limit[rows] - finite_sum[rows] + np.where(endless, 0.0, least)
    usable = others_finite & np.isfinite(left)
    # Only infinite ends move: a finite bound is the model's own and stays what it is.
    quotient = left[usable] / data[usable]
    up, down = data[usable] > 0, data[usable] < 0
    was_open_up, was_open_down = np.isinf(upper), np.isinf(lower)
    ceiling, floor = np.full(len(upper), np.inf), np.full(len(lower), -np.inf)
    np.minimum.at(ceiling, columns[usable][up], np.floor(quotient[up] + _SLACK))
    np.maximum.at(floor, columns[usable][down], np.ceil(quotient[down] - _SLACK))
    # Ends that cross would mean an infeasible model: that is for the rows to say.
    upper[was_open_up] = np.maximum(ceiling, lower)[was_open_up]
    lower[was_open_down] = np.minimum(floor, upper)[was_open_down]
