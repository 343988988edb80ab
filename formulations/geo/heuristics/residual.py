"""What is left of the rows while jobs are given to regions one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

import numpy as np

from placewright.formulations.common.wan.arrays import Ints
from placewright.formulations.geo.problem.class_arrays import Kinds


class Room:
    """What is left of each row (rows,)."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.left = kinds.room.copy()
        by_way = np.argsort(kinds.entry_way, kind="stable")
        cuts = np.searchsorted(kinds.entry_way[by_way], np.arange(1, kinds.ways))
        self._rows = np.split(kinds.entry_row[by_way], cuts)
        self._asks = np.split(kinds.asks[by_way], cuts)

    @cached_property
    def ways(self) -> list[list[int]]:
        """The ways of each kind."""
        found: list[list[int]] = [[] for _ in self.kinds.at]
        for way, kind in enumerate(self.kinds.way_kind.tolist()):
            found[kind].append(way)
        return found

    def take(self, way: int, many: int = 1) -> None:
        """Take what so many jobs ask that go a way."""
        self.left[self._rows[way]] -= many * self._asks[way]

    def fits(self, way: int) -> bool:
        """Whether one more job can go a way, as far as rows say."""
        return bool((self.left[self._rows[way]] >= self._asks[way]).all())

    @cached_property
    def _open(self) -> list[list[int]]:
        """The ways of each kind that had room when they were last looked at."""
        return [list(ways) for ways in self.ways]

    def offer(
        self, jobs: Iterable[int], costs: Ints, tried: Collection[tuple[int, int]] = ()
    ) -> Iterator[tuple[int, int]]:
        """Yield jobs with a way that has room for them, the cheapest.

        Those come first that the fewest regions can run, and of these those of most worth.
        """
        kinds, can = self.kinds, self.kinds.problem.can
        full: set[tuple[int, bytes]] = set()
        where = kinds.way_region.tolist()
        regions = can.sum(axis=1).tolist()
        of_job = kinds.of_job.tolist()
        for j in sorted(jobs, key=lambda j: (regions[j], -self._worth[of_job[j]], j)):
            kind = int(kinds.of_job[j])
            key = kind, can[j].tobytes()
            if key in full:
                continue
            may, cost = can[j].tolist(), costs[j].tolist()
            # What is taken is not given back, so a way without room has none later either.
            ways = [way for way in self._open[kind] if may[where[way]]]
            if not ways:
                full.add(key)
            fresh = [(cost[where[way]], way) for way in ways if (j, where[way]) not in tried]
            for _, way in sorted(fresh):
                if self.fits(way):
                    self.take(way)
                    yield j, way
                    break
                self._open[kind].remove(way)

    @cached_property
    def _worth(self) -> list[int]:
        return [max((int(self.kinds.value[w]) for w in mine), default=0) for mine in self.ways]
