"""Reachability: the regions to which a dataset could be copied at all."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.wan.arrays import Wan


def reachable(wan: Wan, dataset: int) -> Bools:
    """Return the regions that a copy of a dataset could reach within the window (regions,).

    Regions with a replica or a copy in progress are included. Budgets count only where they are 0.
    """
    end = wan.round.now + wan.round.geo.window_s
    soon = wan.arriving[dataset] & (wan.ready[dataset] < end)
    links = wan.links_of(dataset) & (wan.budget > 0)
    found: Bools = _closure(links, wan.holds[dataset] | soon) | wan.arriving[dataset]
    return found


def feasible_replicas(wan: Wan) -> Bools:
    """Return where replicas could be after some plan (datasets, regions).

    A replica is there already, or could be created by a single copy within storage and budgets.
    """
    there = wan.holds | wan.arriving
    storage = np.maximum(wan.storage, wan.size @ there)
    found = there.copy()
    for p, size in enumerate(wan.size.tolist()):
        budget = wan.budget * wan.links_of(p)
        # The first copy to be made comes from regions that hold the dataset now.
        if budget[there[p]][:, ~there[p]].sum() < size:
            continue
        # A region that cannot hold a replica may still be on the path of one.
        links = budget > 0
        come = links[_closure(links, there[p])].any(axis=0)
        found[p] |= come & (budget.sum(axis=0) >= size) & (storage >= size)
    return found


def _closure(links: Bools, start: Bools) -> Bools:
    """Return the regions that can be reached from start regions over links (regions,)."""
    found = start.copy()
    while (more := links[found].any(axis=0) & ~found).any():
        found |= more
    return found
