"""What copies take of links while homes change one by one: sums, not ways.

All links into a region take so much, and all out of it, where what one region alone has leaves it
once at least. What the link between two regions does not take goes over a third region, so of what
all links take together it takes twice as much. How copies get around each other is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from placewright.formulations.replicas.problem import Problem

FULL = 0.8
"""Share of what links take that copies may need: not all of it is where they could use it."""


class Links:
    """What is left of links beside some copies; plain numbers, since they change one by one."""

    def __init__(self, problem: Problem) -> None:
        self._size: list[float] = problem.size.astype(float).tolist()
        # The last entries are of what several regions have, wherever it comes from.
        self._origin: list[int] = problem.origin.tolist()
        self._out: list[float] = [*(FULL * problem.outgoing).tolist(), math.inf]
        self._in: list[float] = (FULL * problem.incoming).tolist()
        budget = problem.wan.budget.astype(float)
        self._link: list[list[float]] = [*budget.tolist(), [math.inf] * problem.regions]
        self._all = FULL * float(budget.sum())
        self._copies = [0] * problem.groups

    def take(self, group: int, region: int) -> None:
        """Copy a group to a region."""
        origin, size = self._origin[group], self._size[group]
        self._all -= self._hops(group, region)
        self._link[origin][region] -= size
        self._in[region] -= size
        if not self._copies[group]:
            self._out[origin] -= size
        self._copies[group] += 1

    def leave(self, group: int, region: int) -> None:
        """Do not copy a group to a region, after all."""
        origin, size = self._origin[group], self._size[group]
        self._copies[group] -= 1
        if not self._copies[group]:
            self._out[origin] += size
        self._in[region] += size
        self._link[origin][region] += size
        self._all += self._hops(group, region)

    def excess(self, groups: Sequence[int], region: int) -> float:
        """Return GiB that links do not take, in one sum or another, of more copies to a region."""
        into = hops = beyond = 0.0
        for group in groups:
            into += self._size[group]
            hops += self._hops(group, region)
            if not self._copies[group]:
                beyond += max(0.0, self._size[group] - max(0.0, self._out[self._origin[group]]))
        beyond += max(0.0, into - max(0.0, self._in[region]))
        return beyond + max(0.0, hops - max(0.0, self._all))

    def _hops(self, group: int, region: int) -> float:
        """Return the GiB that one more copy takes of all links."""
        size, link = self._size[group], self._link[self._origin[group]][region]
        return size + max(0.0, size - max(0.0, link))
