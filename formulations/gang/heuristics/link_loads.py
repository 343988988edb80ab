"""Loads of the links between domains in a placement, and what moves of groups change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.uplinks import pinned_loads
from placewright.topology.uplinks import NO_LINK_MBPS, uplinks_of

Link: TypeAlias = tuple[int, int]
"""The position of a level among those with links, and a domain."""


class Move(NamedTuple):
    """A group that sends `rate` leaves some hosts for others; hosts are one per task."""

    rate: int
    before: Sequence[int]
    after: Sequence[int]


class LinkLoads:
    """Mbit/s over each link of a placement.

    Attributes
    ----------
    levels : list of int
        The levels whose domains have links, outermost first.
    excess : int
        Load beyond the bandwidth, summed over all links.
    least : int
        That of the kept jobs alone; the term `contention` is what `excess` has beyond.
    overloaded : dict of Link to None
        The links whose load exceeds the bandwidth.
    """

    def __init__(self, placement: Placement) -> None:
        problem = placement.problem
        self._links = uplinks_of(problem.cluster)
        self.levels = [one.level for one in self._links]
        self._domain: list[list[int]] = [one.domain.tolist() for one in self._links]
        self._exists: list[list[bool]] = [one.exists.tolist() for one in self._links]
        self._load: list[list[int]] = [load.tolist() for load in pinned_loads(problem, self._links)]
        every = [start for _, start in placement.started()]
        self._add(problem, (start for start in every if start.in_place))
        self.least = self._sum()
        self._add(problem, (start for start in every if not start.in_place))
        self.excess = self._sum()
        self.overloaded: dict[Link, None] = dict.fromkeys(
            (at, d)
            for at, (one, load) in enumerate(zip(self._links, self._load, strict=True))
            for d in np.flatnonzero(np.array(load) > one.mbps).tolist()
        )

    def spare(self, link: Link) -> int:
        """Return what a link has left, less than nothing if it is overloaded."""
        at, d = link
        if not self._exists[at][d]:
            return NO_LINK_MBPS
        return self._links[at].mbps - self._load[at][d]

    def change(self, moves: Iterable[Move]) -> dict[Link, int]:
        """Return by how much the load of each link changes if groups move."""
        changes: defaultdict[Link, int] = defaultdict(int)
        for move in moves:
            if move.rate:
                for link in self._crossed(move.before):
                    changes[link] -= move.rate
                for link in self._crossed(move.after):
                    changes[link] += move.rate
        return changes

    def gain(self, changes: Mapping[Link, int]) -> int:
        """Return by how much `excess` would change."""
        total = 0
        for (at, d), change in changes.items():
            over = self._load[at][d] - self._links[at].mbps
            total += max(over + change, 0) - max(over, 0)
        return total

    def apply(self, changes: Mapping[Link, int]) -> None:
        """Change the loads."""
        self.excess += self.gain(changes)
        for (at, d), change in changes.items():
            self._load[at][d] += change
            if self._load[at][d] > self._links[at].mbps:
                self.overloaded[at, d] = None
            else:
                self.overloaded.pop((at, d), None)

    def _crossed(self, hosts: Sequence[int]) -> list[Link]:
        found: list[Link] = []
        for at, (domain, exists) in enumerate(zip(self._domain, self._exists, strict=True)):
            used = {domain[h] for h in hosts}
            if len(used) > 1:
                found += [(at, d) for d in used if exists[d]]
        return found

    def _add(self, problem: Problem, starts: Iterable[JobPlacement]) -> None:
        for start in starts:
            groups = problem.classes[start.job_class].choices[start.choice].groups
            for k, group in enumerate(groups):
                if group.rate_mbps:
                    for at, d in self._crossed([put.host for put in start.tasks if put.group == k]):
                        self._load[at][d] += group.rate_mbps

    def _sum(self) -> int:
        return sum(
            max(mbps - one.mbps, 0)
            for one, load in zip(self._links, self._load, strict=True)
            for mbps in load
        )
