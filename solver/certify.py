"""Bounds by weak duality in exact integer arithmetic, and the core of an integer program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from placewright.array_types import Bools, Floats
from placewright.solver.arrays import ALWAYS, Arrays
from placewright.solver.outcome import INFINITE

# Lagrangian prices in integer arithmetic: rounded and scaled so that no sum can overflow.
#
# A Lagrangian bound is valid for any prices of the right sign (weak duality), so duals of a solver
# may be rounded to multiples of 1 / scale, a power of two. All that follows is exact: neither the
# solver nor floating point can make the bound wrong.
PRICE_BITS = 40
"""Largest number of binary digits behind the point of a price."""

SUM_BITS = 61
"""Largest number of binary digits of a sum in 64 bits, which leaves two for rounding and sign."""


def overflow_safe_scale(magnitude: float, bits: int = SUM_BITS) -> int:
    """Return the largest power of two by which sums up to `magnitude` stay below 2^bits.

    It is at least 1 and at most 2^PRICE_BITS. The magnitude, above 0, is that of the largest price
    or partial sum before scaling; prices that are rounded up may exceed it slightly.
    """
    return 1 << max(0, min(PRICE_BITS, bits - int(np.ceil(np.log2(magnitude)))))


def round_to_integers(values: Floats, dtype: npt.DTypeLike = object) -> npt.NDArray[Any]:
    """Return rounded values as exact integers, by default as Python's, which never overflow."""
    return np.array([int(value) for value in np.rint(values).tolist()], dtype=dtype)


# Weak duality in integer arithmetic: bounds from row multipliers, valid whatever they are.
#
# Weak duality, for a maximum over  row_lower <= A x <= row_upper,  lower <= x <= upper:  for any y,
#
#     c x  =  y A x + (c - y A) x  <=  sum_i max over the row's bounds of y[i] r
#                                    + sum_j max over the column's bounds of (c - y A)[j] x
#
# y is what a solver calls the dual; it is rounded to multiples of 2^-40 and everything after that
# is exact integer arithmetic, so neither the solver nor floating point can make the bound wrong.
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

    Returns an upper bound for a maximum, a lower bound for a minimum; None where a column without a
    bound pays at these multipliers, or data are not multiples of 2^-20 or beyond 2^53. `arrays`:
    the model; integrality is not used. `y`: multipliers of its rows, from `multipliers`. `extra`:
    what columns that are not in the model can add at these multipliers, times `SCALE`.
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


# The core of an integer program: the columns that reduced costs do not fix.
#
# For a maximum over  row_lower <= A x <= row_upper,  lower <= x <= upper  and any multipliers y,
#
#     c x  =  y A x + d x  <=  z        d = c - y A,   z: the most that y A x + d x can be
#
# and a point whose whole-number column j is not at the bound that d[j] prefers is worse than z by
# |d[j]| at least. So a search may leave such columns where d has them, if it then counts z less the
# smallest such |d[j]| among the bounds (Balas and Zemel, *An Algorithm for Large Zero-One Knapsack
# Problems*, Operations Research 28, 1980, on the core; reduced-cost fixing in general: Crowder,
# Johnson and Padberg, *Solving Large-Scale Zero-One Linear Programming Problems*, 1983).
AT_BOUND = 1e-6
"""Tolerance within which a column of the relaxation is at a bound."""


@dataclass(frozen=True, slots=True, eq=False)
class ReducedCosts:
    """Reduced costs of columns at given row duals; the objective is oriented to be a maximum.

    `sign`: 1.0 if the objective was a maximum, -1.0 if it was a minimum. `bound`: z, the Lagrangian
    bound: no point of the relaxation is better. `point`: the bound of each column that d prefers,
    shape (n,). `loss`: |d|, shape (n,): least loss of any other whole number; 0 where nothing is
    known.
    """

    sign: float
    bound: float
    point: Floats
    loss: Floats

    def shortfall(self, objective: float) -> float:
        """Return how much worse than z an objective is."""
        return self.bound - self.sign * objective

    def within(self, margin: float) -> Bools:
        """Return which columns may leave their point at a loss of up to `margin`, bool (n,)."""
        return self.loss <= margin


def reduced_costs_of(arrays: Arrays, row_duals: Floats, values: Floats) -> ReducedCosts | None:
    """Return the reduced costs at a relaxation's duals; `values` is its optimum.

    The loss is 0 for continuous columns, and for those whose optimal value is not the bound that d
    prefers. None if d prefers a bound that a column does not have.
    """
    finite = np.isfinite(row_duals)
    dual = np.where(finite, arrays.sign * np.where(finite, row_duals, 0.0), 0.0)
    limit = np.where(dual > 0, arrays.row_upper, arrays.row_lower)
    dual = np.where(np.isfinite(limit) & (arrays.when == ALWAYS), dual, 0.0)
    reduced = arrays.sign * arrays.reduced_costs(arrays.sign * dual)
    point = np.where(reduced > 0, arrays.upper, arrays.lower)
    used = reduced != 0
    if not np.isfinite(point[used]).all():
        return None
    most = float(dual[dual != 0] @ limit[dual != 0] + reduced[used] @ point[used])
    at_bound = arrays.integer & (np.abs(values - point) <= AT_BOUND)
    loss = np.where(at_bound, np.abs(reduced), 0.0)
    return ReducedCosts(arrays.sign, most + arrays.sign * arrays.constant, point, loss)


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """A restriction of a model: some columns are fixed at their point.

    `arrays`: the other columns; what the left ones take is off the row bounds. `kept`: which
    columns those are, shape (n,). `point`: where the left ones are, shape (n,).
    """

    arrays: Arrays
    kept: Bools
    point: Floats

    @classmethod
    def of(cls, arrays: Arrays, kept: Bools, point: Floats) -> Core:
        """Leave the columns that are not `kept` at their point; those of conditions have to be."""
        left = np.where(kept, 0.0, point)
        at = arrays.entry_rows()
        taken = np.bincount(at, weights=arrays.data * left[arrays.indices], minlength=arrays.rows)
        stays = kept[arrays.indices]
        number = np.bincount(at[stays], minlength=arrays.rows)
        position = np.cumsum(kept) - 1
        when, conditional = arrays.when.copy(), arrays.when != ALWAYS
        when[conditional] = position[when[conditional]]
        smaller = replace(
            arrays,
            cost=arrays.cost[kept],
            constant=arrays.objective_of(left),
            lower=arrays.lower[kept],
            upper=arrays.upper[kept],
            integer=arrays.integer[kept],
            row_lower=arrays.row_lower - taken,
            row_upper=arrays.row_upper - taken,
            indptr=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(number)]),
            indices=position[arrays.indices[stays]],
            data=arrays.data[stays],
            when=when,
        )
        return cls(smaller, kept, left)

    def inside(self, values: Floats) -> Floats:
        """Return the part of a whole point that the core has."""
        return values[self.kept]

    def whole(self, values: Floats) -> Floats:
        """Return the whole point of one of the core, shape (n,)."""
        point = self.point.copy()
        point[self.kept] = values
        return point
