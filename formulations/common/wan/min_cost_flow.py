"""Over which links a copy comes: a cheapest flow under budgets, split over paths.

A copy is a flow from all regions that hold a dataset to the one that gets it. Whole budgets give
whole flows (Ford and Fulkerson), the cheapest by successive shortest paths (Busacker and Gowen).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.common.wan.step_function import MEGABITS

Floats = NDArray[np.float64]

_ALIKE = 0.5
"""Costs of links that differ by less differ by their egress prices only."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many GiB of a copy on a path of regions."""

    path: tuple[int, ...]
    gib: int


@dataclass(slots=True, eq=False)
class Roads:
    """What copies have left of the WAN.

    Attributes
    ----------
    left : Ints
        (regions, regions): GiB of the budget of each link.
    bandwidth : Ints
        (regions, regions): Mbit/s.
    cost : Floats
        (regions, regions): what one GiB over a link costs, at least 1; at most 2, so that no
        detour is cheaper, where the link is not slow and nobody competes for it.
    queued : Floats
        (regions, regions): seconds that a link needs for what has been routed over it.
    """

    left: Ints
    bandwidth: Ints
    cost: Floats
    queued: Floats

    def carries(self, parts: Sequence[Part], entry: Floats) -> bool:
        """Whether the parts of a copy find their sources and budgets."""
        asked: Counter[tuple[int, int]] = Counter()
        for part in parts:
            asked.update(dict.fromkeys(pairwise(part.path), part.gib))
        sources = [part.path[0] for part in parts]
        enough = all(self.left[link] >= gib for link, gib in asked.items())
        return enough and bool(np.isfinite(entry[sources]).all())

    def take(self, parts: Sequence[Part], sign: int = 1) -> None:
        """Take what parts of a copy need of budgets, or give it back."""
        for part in parts:
            for link in pairwise(part.path):
                self.left[link] -= sign * part.gib
                self.queued[link] += sign * part.gib * MEGABITS / self.bandwidth[link]


def route(
    roads: Roads, gib: int, entry: Floats, target: int, within: Bools, *, detours: bool = True
) -> tuple[Part, ...] | None:
    """Return the parts of a copy by what it costs, or None when budgets do not carry it.

    Parameters
    ----------
    roads
        What is left.
    gib
        Size of the copy.
    entry
        (regions,): what it costs to read the dataset there, below 1; infinite where it is not.
    target
        The region that gets it.
    within
        (regions, regions): links that may carry it.
    detours
        Whether it may pass other regions.
    """
    left = np.where(within, roads.left, 0)
    held = np.isfinite(entry)
    if left[:, target].sum() < gib or left[held].sum() < gib:
        return None
    direct = np.flatnonzero(held & (left[:, target] > 0))
    enough = left[direct, target].sum() >= gib
    if enough and (not detours or _are_best(left, roads.cost, held, target, direct)):
        return _share(roads, gib, entry, target, direct)
    return _flow(left, roads.cost, gib, entry, target) if detours else None


def _are_best(left: Ints, cost: Floats, held: Bools, target: int, sources: Ints) -> bool:
    """Whether direct links cost about the same, and no way by one other region costs less."""
    most, least = float(cost[sources, target].max()), float(cost[sources, target].min())
    if most <= 2:
        return True
    first = np.where(left[held] > 0, cost[held], np.inf).min(axis=0, initial=np.inf)
    first[held] = np.inf  # what is there comes from there
    detour = float((first + np.where(left[:, target] > 0, cost[:, target], np.inf)).min())
    return most <= detour and most - least < _ALIKE


def _share(roads: Roads, gib: int, entry: Floats, target: int, sources: Ints) -> tuple[Part, ...]:
    """Return the parts over direct links that are through at the same time, cheapest first.

    Sources that cost more are used when the cheaper ones do not have the budget.
    """
    parts: list[Part] = []
    for cost in np.unique(entry[sources]):
        alike = sources[entry[sources] == cost]
        room = roads.left[alike, target]
        for source, part in zip(
            alike, _even(roads, min(gib, int(room.sum())), alike, target), strict=True
        ):
            if part:
                parts.append(Part((int(source), target), int(part)))
        gib -= min(gib, int(room.sum()))
        if not gib:
            break
    return tuple(parts)


def _even(roads: Roads, gib: int, sources: Ints, target: int) -> Ints:
    """Return how many GiB come from each source so that all are through at about one time."""
    room = roads.left[sources, target]
    if len(sources) == 1:
        return np.array([gib], dtype=np.int64)
    pace = roads.bandwidth[sources, target] / MEGABITS
    queued = roads.queued[sources, target]
    low, high = float(queued.min()), float(queued.max() + gib / pace.min())
    for _ in range(60):
        middle = (low + high) / 2
        enough = np.minimum(np.maximum(middle - queued, 0) * pace, room).sum() >= gib
        low, high = (low, middle) if enough else (middle, high)
    shares: Ints = np.minimum(np.floor(np.maximum(high - queued, 0) * pace).astype(np.int64), room)
    for i in np.argsort(-pace, kind="stable"):
        rest = gib - int(shares.sum())
        shares[i] += min(max(rest, -int(shares[i])), int(room[i] - shares[i]))
    return shares


def _flow(
    capacity: Ints, cost: Floats, gib: int, entry: Floats, target: int
) -> tuple[Part, ...] | None:
    """Return the cheapest flow of so many GiB as paths, or None if there is none."""
    count = len(entry)
    room = np.zeros((count + 1, count + 1), dtype=np.int64)
    price = np.zeros((count + 1, count + 1))
    room[:count, :count], price[:count, :count] = capacity, cost
    held = np.flatnonzero(np.isfinite(entry))
    room[count, held], price[count, held] = gib, entry[held]
    room[:, held] *= np.arange(count + 1)[:, None] == count  # what is there comes from there
    room[target] = 0
    flow = np.zeros_like(room)
    while gib:
        before = _shortest(room - flow, flow, price, count)
        if before[target] < 0:
            return None
        path = _trace(before, target)
        links = list(pairwise(path))
        most = min(gib, *(int(flow[b, a] or room[a, b] - flow[a, b]) for a, b in links))
        for a, b in links:
            if flow[b, a]:
                flow[b, a] -= most
            else:
                flow[a, b] += most
        gib -= most
    return _paths(flow, target)


def _shortest(room: Ints, flow: Ints, price: Floats, root: int) -> Ints:
    """Return the region before each one on a cheapest path that has room, -1 without (Bellman)."""
    step = np.where(room > 0, price, np.inf)
    np.minimum(step, np.where(flow.T > 0, -price.T, np.inf), out=step)
    distance = np.full(len(room), np.inf)
    distance[root] = 0.0
    before = np.full(len(room), -1, dtype=np.int64)
    for _ in range(len(room)):
        by = distance[:, None] + step
        source = by.argmin(axis=0)
        found = by[source, np.arange(len(room))]
        better = found < distance - 1e-9
        if not better.any():
            break
        distance[better], before[better] = found[better], source[better]
    return before


def _trace(before: Ints, target: int) -> tuple[int, ...]:
    """Return the path to a region."""
    path = [target]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return tuple(reversed(path))


def _paths(flow: Ints, target: int) -> tuple[Part, ...]:
    """Return a flow as paths to its target, in the order of their sources."""
    root, parts = len(flow) - 1, []
    while flow[root].any():
        path = [root]
        while path[-1] != target:
            path.append(int(np.flatnonzero(flow[path[-1]])[0]))
        links = list(pairwise(path))
        gib = min(int(flow[link]) for link in links)
        for link in links:
            flow[link] -= gib
        parts.append(Part(tuple(path[1:]), gib))
    return tuple(parts)
