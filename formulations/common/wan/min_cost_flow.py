"""Routing of a copy: minimum-cost flow under link budgets, decomposed into paths.

A copy is a flow from all regions with a replica to the target region. Integer budgets admit integer
flows of minimum cost (solver/network_flow.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan import parameters
from placewright.formulations.common.wan.step_function import MEGABITS
from placewright.solver.network_flow import min_cost_flow

_COST_SCALE = 2**20
"""Costs of one GiB are rounded to this fraction."""


@dataclass(frozen=True, slots=True)
class PathFlow:
    """The GiB of a copy that take one path of regions."""

    path: tuple[int, ...]
    gib: int


@dataclass(slots=True, eq=False)
class ResidualNetwork:
    """What routed copies leave of the WAN.

    Attributes
    ----------
    residual : Ints
        (regions, regions): GiB left of the budget of each link.
    bandwidth : Ints
        (regions, regions): Mbit/s.
    cost : Floats
        (regions, regions): cost of one GiB over a link, at least 1. Links that are neither slow nor
        congested cost at most 2, so no relayed path is cheaper.
    backlog_s : Floats
        (regions, regions): seconds that a link needs for the copies routed over it.
    """

    residual: Ints
    bandwidth: Ints
    cost: Floats
    backlog_s: Floats

    def can_carry(self, flows: Sequence[PathFlow], source_cost: Floats) -> bool:
        """Whether the flows of a copy have their sources and enough budget."""
        needed: Counter[tuple[int, int]] = Counter()
        for flow in flows:
            needed.update(dict.fromkeys(pairwise(flow.path), flow.gib))
        sources = [flow.path[0] for flow in flows]
        sufficient = all(self.residual[link] >= gib for link, gib in needed.items())
        return sufficient and bool(np.isfinite(source_cost[sources]).all())

    def reserve(self, flows: Sequence[PathFlow], sign: int = 1) -> None:
        """Subtract the flows of a copy from budgets; `sign` -1 gives them back."""
        for flow in flows:
            for link in pairwise(flow.path):
                self.residual[link] -= sign * flow.gib
                self.backlog_s[link] += sign * flow.gib * MEGABITS / self.bandwidth[link]


def route_copy(
    network: ResidualNetwork,
    gib: int,
    source_cost: Floats,
    target: int,
    allowed_links: Bools,
    *,
    allow_relays: bool = True,
) -> tuple[PathFlow, ...] | None:
    """Return the path flows of a copy at minimum cost, or None if budgets do not suffice.

    Parameters
    ----------
    network
        Residual network.
    gib
        Size of the copy.
    source_cost
        (regions,): cost of reading the dataset in a region, below 1; infinite without a replica.
    target
        The region that receives the copy.
    allowed_links
        (regions, regions): links that may carry it.
    allow_relays
        Whether it may pass through other regions.
    """
    residual = np.where(allowed_links, network.residual, 0)
    has_replica = np.isfinite(source_cost)
    if residual[:, target].sum() < gib or residual[has_replica].sum() < gib:
        return None
    direct = np.flatnonzero(has_replica & (residual[:, target] > 0))
    sufficient = residual[direct, target].sum() >= gib
    if sufficient and (
        not allow_relays or _direct_is_cheapest(residual, network.cost, has_replica, target, direct)
    ):
        return _split_over_sources(network, gib, source_cost, target, direct)
    return (
        _min_cost_flow(residual, network.cost, gib, source_cost, target) if allow_relays else None
    )


def _direct_is_cheapest(
    residual: Ints, cost: Floats, has_replica: Bools, target: int, sources: Ints
) -> bool:
    """Whether direct links cost about the same and no path over one relay costs less."""
    most, least = float(cost[sources, target].max()), float(cost[sources, target].min())
    if most <= 2:
        return True
    first_leg = np.where(residual[has_replica] > 0, cost[has_replica], np.inf).min(
        axis=0, initial=np.inf
    )
    first_leg[has_replica] = np.inf  # what is there comes from there
    relay_cost = float(
        (first_leg + np.where(residual[:, target] > 0, cost[:, target], np.inf)).min()
    )
    return most <= relay_cost and most - least < parameters.PARAMETERS.egress_cost_range


def _split_over_sources(
    network: ResidualNetwork, gib: int, source_cost: Floats, target: int, sources: Ints
) -> tuple[PathFlow, ...]:
    """Return flows over direct links that finish at the same time, from the cheapest sources first.

    More expensive sources are used only if the cheaper ones lack budget.
    """
    flows: list[PathFlow] = []
    for cost in np.unique(source_cost[sources]):
        equal_sources = sources[source_cost[sources] == cost]
        capacity = network.residual[equal_sources, target]
        for source, amount in zip(
            equal_sources,
            _balanced_split(network, min(gib, int(capacity.sum())), equal_sources, target),
            strict=True,
        ):
            if amount:
                flows.append(PathFlow((int(source), target), int(amount)))
        gib -= min(gib, int(capacity.sum()))
        if not gib:
            break
    return tuple(flows)


def _balanced_split(network: ResidualNetwork, gib: int, sources: Ints, target: int) -> Ints:
    """Return the GiB from each source such that all finish at about the same time (sources,)."""
    capacity = network.residual[sources, target]
    if len(sources) == 1:
        return np.array([gib], dtype=np.int64)
    rate = network.bandwidth[sources, target] / MEGABITS
    backlog_s = network.backlog_s[sources, target]
    low, high = float(backlog_s.min()), float(backlog_s.max() + gib / rate.min())
    for _ in range(60):
        middle = (low + high) / 2
        sufficient = np.minimum(np.maximum(middle - backlog_s, 0) * rate, capacity).sum() >= gib
        low, high = (low, middle) if sufficient else (middle, high)
    shares: Ints = np.minimum(
        np.floor(np.maximum(high - backlog_s, 0) * rate).astype(np.int64), capacity
    )
    for i in np.argsort(-rate, kind="stable"):
        rest = gib - int(shares.sum())
        shares[i] += min(max(rest, -int(shares[i])), int(capacity[i] - shares[i]))
    return shares


def _min_cost_flow(
    residual: Ints, cost: Floats, gib: int, source_cost: Floats, target: int
) -> tuple[PathFlow, ...] | None:
    """Return the minimum-cost flow of a copy as paths, or None if there is none."""
    root = len(source_cost)
    has_replica = np.isfinite(source_cost)
    usable = residual > 0
    # A region that holds a replica receives none of it from other regions.
    usable[:, has_replica] = False
    usable[target] = False
    tail, head = usable.nonzero()
    sources = np.flatnonzero(has_replica)
    scarcity = parameters.PARAMETERS.scarcity_cost * np.minimum(1.0, gib / residual[tail, head])
    arc_cost = np.rint(_COST_SCALE * np.append(cost[tail, head] + scarcity, source_cost[sources]))
    tails = np.append(tail, np.full(len(sources), root))
    heads = np.append(head, sources)
    capacity = np.append(np.minimum(residual[tail, head], gib), np.full(len(sources), gib))
    supply = np.zeros(root + 1, dtype=np.int64)
    supply[root], supply[target] = gib, -gib
    arcs = min_cost_flow(tails, heads, capacity, arc_cost.astype(np.int64), supply)
    if arcs is None:
        return None
    flow = np.zeros((root + 1, root + 1), dtype=np.int64)
    flow[tails, heads] = arcs
    return _paths(flow, target)


def _paths(flow: Ints, target: int) -> tuple[PathFlow, ...]:
    """Return a flow decomposed into paths to its target, sorted by source."""
    root, flows = len(flow) - 1, []
    while flow[root].any():
        path = [root]
        while path[-1] != target:
            path.append(int(np.flatnonzero(flow[path[-1]])[0]))
        links = list(pairwise(path))
        gib = min(int(flow[link]) for link in links)
        for link in links:
            flow[link] -= gib
        flows.append(PathFlow(tuple(path[1:]), gib))
    return tuple(flows)
