"""Prices raised until few groups pay: what a search found becomes part of the bound.

After a search every group of a bucket that was not found has a reduced worth of at most `rest`. All
groups may pay up to a threshold, which costs the threshold times the groups that fit; whatever
exceeds it is taken away by raising prices of members, which costs the raise times the jobs. Prices
that rise make no other group pay. The cheapest of some thresholds is taken, the largest first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.pricing import Priced
from placewright.formulations.interleaving.set_packing.problem import ALONE, Ints, Pool

SHARES = (0.5, 0.25, 0.1, 0.05, 0.0)
"""Thresholds that are tried, between what was not found (0) and the most that was (1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Raise:
    """How prices of one bucket's classes are raised.

    Attributes
    ----------
    added : int64 (classes,)
        What is added to the scaled price of a job of each class.
    threshold
        No group has a greater scaled reduced worth at the raised prices.
    cost
        By how much the scaled bound exceeds that of the prices before, if no group paid.
    """

    added: Ints
    threshold: int
    cost: int


def raised(pool: Pool, found: Priced, fit: int) -> Raise:
    """Return the cheapest raise of some; at most `fit` groups of the bucket fit."""
    top = max(int(found.reduced.max(initial=found.rest)), found.rest)
    best = Raise(np.zeros(pool.classes, dtype=np.int64), top, top * fit)
    for share in SHARES:
        threshold = found.rest + int((top - found.rest) * share)
        if threshold * fit >= best.cost:
            continue
        added = covering(pool, found, threshold)
        cost = threshold * fit + sum((added.astype(object) * pool.count).tolist())
        best = min(best, Raise(added, threshold, cost), key=lambda r: r.cost)
    return best


def covering(pool: Pool, found: Priced, threshold: int) -> Ints:
    """Return raises of prices at which no found group exceeds a threshold, int64 (classes,).

    Always that class is raised that most takes part, by as much as the worst of its groups needs.
    """
    some = found.reduced > threshold
    members, over = found.columns.members[some], found.reduced[some] - threshold
    added = np.zeros(pool.classes, dtype=np.int64)
    while len(over):
        present = members != ALONE
        part = np.repeat(over, present.sum(axis=1)).astype(np.float64)
        mass = np.bincount(members[present], weights=part, minlength=pool.classes)
        raising = int((mass / pool.count.clip(min=1)).argmax())
        times = (members == raising).sum(axis=1)
        more = int((-(-over // times.clip(min=1)))[times > 0].max())
        added[raising] += more
        over = over - more * times
        members, over = members[over > 0], over[over > 0]
    return added
