"""Checks of what a backend returned against the arrays: nothing unchecked leaves this package."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.outcome import Outcome, Status

__all__ = ["TOLERANCE", "audit", "checked_point", "known_objective"]

TOLERANCE = 1e-6
"""Relative feasibility tolerance, and by how much an objective may pass a bound."""

INTEGRALITY = 1e-5
"""How far from a whole number a solver's value of an integer column may lie."""

ROUNDING = 2.0**-44
"""What floats lose of an objective, relative to the sizes of the numbers that it is the sum of."""

INFINITE = 1e20
"""Solvers take numbers from here on for infinite."""


def checked_point(arrays: Arrays, values: Floats) -> Floats | None:
    """Round a solver's point to exact integers, clip it to its bounds, and check its rows.

    Returns
    -------
    The point, shape (columns,), or None when it is not integral or not feasible.
    """
    if values.shape != arrays.cost.shape or not np.isfinite(values).all():
        return None
    whole = np.rint(values)
    if (np.abs(values - whole)[arrays.integer] > INTEGRALITY).any():
        return None
    point = np.where(arrays.integer, whole, values)
    if not arrays.feasible(point, TOLERANCE):
        return None
    return np.clip(point, arrays.lower, arrays.upper)


def known_objective(arrays: Arrays, start: Floats | None) -> float | None:
    """Give the objective of a start of shape (columns,), or None when it is not feasible."""
    point = None if start is None else checked_point(arrays, start)
    return None if point is None else arrays.objective_of(point)


def audit(arrays: Arrays, outcome: Outcome, known: float | None = None) -> Outcome:
    """Check an outcome that was not verified yet.

    Parameters
    ----------
    arrays
        The model that was solved.
    outcome
        What the backend returned.
    known
        The best objective among feasible points known from elsewhere (a start, streamed points).

    Returns
    -------
    The outcome with a checked point, its objective recomputed and a bound that no known point
    beats; or status FAILED with a message that names the backend and its lie.
    """
    objective, values = outcome.objective, outcome.values
    if values is not None:
        values = checked_point(arrays, values)
        if values is None:
            return _failed(outcome, "returned a point that is not feasible")
        objective = arrays.objective_of(values)
        claimed = outcome.objective
        if claimed is None or not abs(claimed - objective) <= _slack(arrays, objective, values):
            return _failed(outcome, f"claimed the objective {claimed} of a point of {objective}")
    duals = outcome.row_duals
    if duals is not None and not (
        duals.shape == arrays.row_lower.shape and (np.abs(duals) < INFINITE).all()
    ):
        return _failed(outcome, "returned duals that are not a finite number per row")
    points = [point for point in (objective, known) if point is not None]
    best = max(points, key=lambda point: arrays.sign * point, default=None)
    if best is not None and outcome.status is Status.INFEASIBLE:
        return _failed(outcome, "claimed infeasibility although a feasible point is known")

    bound = outcome.bound
    if bound is not None:
        if not math.isfinite(bound):
            return _failed(outcome, f"returned the bound {bound}, which is not finite")
        if best is not None and arrays.sign * (best - bound) > _slack(arrays, best, values):
            return _failed(outcome, f"claimed the bound {bound}, which the point {best} beats")
        if best is not None and arrays.sign * (best - bound) > 0:
            bound = best
    return replace(outcome, values=values, objective=objective, bound=bound)


def _failed(outcome: Outcome, lie: str) -> Outcome:
    return replace(
        outcome,
        status=Status.FAILED,
        values=None,
        objective=None,
        bound=None,
        row_duals=None,
        message=f"backend {outcome.backend!r} lied: it {lie}",
    )


def _slack(arrays: Arrays, objective: float, values: Floats | None) -> float:
    """Return by how much two numbers may differ that both stand for this objective.

    Where a constant of 10^12 and costs all but cancel, both are rounded in its last digits.
    """
    parts = abs(arrays.constant)
    if values is not None:
        parts += float(np.abs(arrays.cost) @ np.abs(values))
    return max(TOLERANCE * max(1.0, abs(objective)), ROUNDING * parts)
