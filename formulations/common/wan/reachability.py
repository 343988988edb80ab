"""Where copies of data could come at all."""

from __future__ import annotations

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Wan


def reachable(wan: Wan, dataset: int) -> Bools:
    """Return the regions to which a copy of a dataset could come in the window (regions,).

    Those that hold it or get it already are among them; budgets count where they are 0.
    """
    end = wan.round.now + wan.round.geo.window_s
    soon = wan.arriving[dataset] & (wan.ready[dataset] < end)
    links = wan.links_of(dataset) & (wan.budget > 0)
    found: Bools = _closure(links, wan.holds[dataset] | soon) | wan.arriving[dataset]
    return found


def feasible_replicas(wan: Wan) -> Bools:
    """Return where replicas could be after some plan (datasets, regions).

    They are there now or under way, or each could come alone, as far as storage and links say.
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
    """Return the regions (regions,) from where links start, and those to which they lead."""
    found = start.copy()
    while (more := links[found].any(axis=0) & ~found).any():
        found |= more
    return found
