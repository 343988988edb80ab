"""The best checked point and bound of one search, updated by callbacks of the solver."""

from __future__ import annotations

import math

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.audit import checked_point
from placewright.solver.outcome import Progress

__all__ = ["Incumbent"]


class Incumbent:
    """Callback of a search: keeps checked points and better bounds.

    Attributes
    ----------
    values, objective, bound
        The best so far, or None.
    trajectory
        The improvements, as `Outcome.trajectory` has them.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.values: Floats | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.trajectory: list[tuple[float, float, float]] = []

    def hear(self, seconds: float, values: Floats | None, bound: float | None) -> Progress | None:
        """Take an unchecked point of shape (columns,) and an unchecked bound.

        Returns
        -------
        What is new: an improving point with its objective, if there is one, and the best bound;
        or None when neither got better.
        """
        point = self._improving(values)
        tighter = (
            bound is not None
            and math.isfinite(bound)
            and (self.bound is None or self._arrays.sign * (bound - self.bound) < 0)
        )
        if tighter:
            self.bound = bound
        if point is None and not tighter:
            return None
        self.trajectory.append((seconds, _number(self.objective), _number(self.bound)))
        return Progress(seconds, point, None if point is None else self.objective, self.bound)

    def _improving(self, values: Floats | None) -> Floats | None:
        point = None if values is None else checked_point(self._arrays, values)
        if point is None:
            return None
        objective = self._arrays.objective_of(point)
        if self.objective is not None and self._arrays.sign * (objective - self.objective) <= 0:
            return None
        self.values, self.objective = point, objective
        return point


def _number(value: float | None) -> float:
    return math.nan if value is None else value
