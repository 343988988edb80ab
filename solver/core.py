"""The core of an integer program: the columns that reduced costs do not fix.

For a maximum over  row_lower <= A x <= row_upper,  lower <= x <= upper  and any multipliers y,

    c x  =  y A x + d x  <=  z        d = c - y A,   z: the most that y A x + d x can be

and a point whose whole-number column j is not at the bound that d[j] prefers is worse than z by
|d[j]| at least. So a search may leave such columns where d has them, if it then counts z less the
smallest such |d[j]| among the bounds (Balas and Zemel, *An Algorithm for Large Zero-One Knapsack
Problems*, Operations Research 28, 1980, on the core; reduced-cost fixing in general: Crowder,
Johnson and Padberg, *Solving Large-Scale Zero-One Linear Programming Problems*, 1983).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.solver.arrays import ALWAYS, Arrays

__all__ = ["Core", "ReducedCosts", "reduced_costs_of"]

AT_BOUND = 1e-6
"""Tolerance within which a column of the relaxation is at a bound."""


@dataclass(frozen=True, slots=True, eq=False)
class ReducedCosts:
    """Reduced costs of columns at given row duals; the objective is oriented to be a maximum.

    Attributes
    ----------
    sign
        1.0 if the objective was a maximum, -1.0 if it was a minimum.
    bound
        z, the Lagrangian bound: no point of the relaxation is better.
    point
        The bound of each column that d prefers, shape (n,).
    loss
        |d|, shape (n,): least loss of any other whole number; 0 where nothing is known.
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

    Attributes
    ----------
    arrays
        The other columns; what the left ones take is off the row bounds.
    kept
        Which columns those are, shape (n,).
    point
        Where the left ones are, shape (n,).
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
