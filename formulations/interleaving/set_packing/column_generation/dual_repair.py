"""Dual repair: raise duals until few groups have positive reduced cost, to tighten the bound.

After exact pricing every group of a bucket that was not found has a reduced cost of at most
`rest_bound`. A threshold of reduced cost may remain, which costs the threshold times the groups
that fit; what exceeds it is removed by raising the duals of members, which costs the increase times
the jobs. Raised duals give no other group a positive reduced cost. The cheapest of some thresholds
is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import ALONE, PackingProblem
from placewright.formulations.interleaving.set_packing.column_generation.pricing import (
    PricingResult,
)


@dataclass(frozen=True, slots=True, eq=False)
class DualRepair:
    """Increases of the duals of one bucket's classes, and what they cost.

    Attributes
    ----------
    increase : int64 (classes,)
        What is added to the scaled price of a job of each class.
    threshold
        No group has a greater scaled reduced cost at the raised prices.
    cost
        By how much the scaled bound exceeds that of the prices before, if no group paid.
    """

    increase: Ints
    threshold: int
    cost: int


def repair_duals(packing: PackingProblem, found: PricingResult, group_limit: int) -> DualRepair:
    """Return the cheapest of some repairs; at most `group_limit` groups of the bucket fit."""
    top = max(int(found.reduced.max(initial=found.rest_bound)), found.rest_bound)
    best = DualRepair(np.zeros(packing.classes, dtype=np.int64), top, top * group_limit)
    for share in parameters.PARAMETERS.dual_repair_threshold_shares:
        threshold = found.rest_bound + int((top - found.rest_bound) * share)
        if threshold * group_limit >= best.cost:
            continue
        increase = member_increases(packing, found, threshold)
        cost = threshold * group_limit + sum((increase.astype(object) * packing.count).tolist())
        best = min(best, DualRepair(increase, threshold, cost), key=lambda r: r.cost)
    return best


def member_increases(packing: PackingProblem, found: PricingResult, threshold: int) -> Ints:
    """Return increases at which no found group exceeds the threshold, int64 (classes,).

    Always that class is raised that most takes part, by as much as the worst of its groups needs.
    """
    some = found.reduced > threshold
    members, over = found.columns.members[some], found.reduced[some] - threshold
    increase = np.zeros(packing.classes, dtype=np.int64)
    while len(over):
        present = members != ALONE
        part = np.repeat(over, present.sum(axis=1)).astype(np.float64)
        mass = np.bincount(members[present], weights=part, minlength=packing.classes)
        raised_class = int((mass / packing.count.clip(min=1)).argmax())
        times = (members == raised_class).sum(axis=1)
        more = int((-(-over // times.clip(min=1)))[times > 0].max())
        increase[raised_class] += more
        over = over - more * times
        members, over = members[over > 0], over[over > 0]
    return increase
