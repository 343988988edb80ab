"""Interval variables and cumulative constraints beside the rows of a model, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals of fixed sizes, and what they take of resources while they last.

    - `start`, `size`: the column with the start of each interval, and how long it lasts,
      shape (k,).
    - `present`, shape (k,): the 0/1 column that says whether there is the interval, or -1 if there
      always is.
    - `demand`, `capacity`: shape (k, resources) and (resources,): at no time do intervals take more
      of a resource than its capacity (Aggoun and Beldiceanu, "Extending CHIP in order to solve
      complex scheduling and placement problems", Mathematical and Computer Modelling 17, 1993).
    """

    start: Ints
    size: Ints
    present: Ints
    demand: Ints
    capacity: Ints

    def kept(self, values: Floats) -> bool:
        """Tell whether a point of shape (columns,) keeps the capacities."""
        there = (self.present < 0) | (values[self.present] > 0.5)
        begin = np.rint(values[self.start[there]]).astype(np.int64)
        demand = self.demand[there]
        at = np.concatenate([begin, begin + self.size[there]])
        change = np.concatenate([demand, -demand])
        # What ends makes room for what begins at the same time.
        ends = np.repeat([1, 0], len(begin))
        used = change[np.lexsort((ends, at))].cumsum(axis=0)
        return bool((used <= self.capacity).all())
