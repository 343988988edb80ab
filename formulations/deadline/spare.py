"""What promises leave of the time until each lease: a quick no to ways that cannot fit.

Until time T a way needs at least the leases that it cannot have after T, whatever runs when. So the
promises of a schedule together never need more than all leases before T have, and a way that would
is turned down without a look at single leases.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.deadline.problem import NONE, Bools, Ints, Problem


def forced(problem: Problem, ways: Ints) -> Ints:
    """Return how many leases each way needs before T (ways, horizon), for T of 1 to the horizon."""
    until = np.arange(1, problem.horizon + 1)
    need, end = problem.need[ways, None], problem.end[ways, None]
    after = end - np.maximum(until, problem.first[ways, None])
    needed: Ints = np.maximum(0, need - np.maximum(0, after))
    return needed


class Spare:
    """Milli-GPU leases that promises leave before each T.

    Attributes
    ----------
    left
        (rows, horizon): for T of 1 to the horizon; negative where the promises cannot all be kept.
    """

    def __init__(self, problem: Problem, way: Ints) -> None:
        self.problem = problem
        self.left: Ints = problem.capacity.cumsum(axis=1)
        ways = way[way != NONE]
        # Ways of unlike size share columns, so that the product is of the columns' number only.
        self.left -= problem.demand[ways].T @ forced(problem, ways)

    def add(self, way: int) -> None:
        """Count one more promise."""
        self.left -= self._asked(way)

    def drop(self, way: int) -> None:
        """Count a promise no longer."""
        self.left += self._asked(way)

    def has(self, way: int) -> bool:
        """Whether one more promise may fit; False is certain."""
        return bool((self.left >= self._asked(way)).all())

    def have(self, ways: Ints) -> Bools:
        """Whether each of the ways alone may fit beside the promises (ways,)."""
        needed, asked = forced(self.problem, ways), self.problem.demand[ways]
        fits = np.ones(len(ways), dtype=np.bool_)
        for row, left in enumerate(self.left):
            fits &= (left >= asked[:, row, None] * needed).all(axis=1)
        return fits

    def _asked(self, way: int) -> Ints:
        asked: Ints = self.problem.demand[way][:, None] * forced(self.problem, np.array([way]))
        return asked
