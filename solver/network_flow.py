"""Minimum-cost flow in a network, by OR-Tools' cost-scaling push-relabel method (Goldberg 1997).

The package is imported when it is needed.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Ints

MAX_COST = 2**60
"""Largest cost times number of nodes, which the method scales costs by."""


def min_cost_flow(tail: Ints, head: Ints, capacity: Ints, cost: Ints, supply: Ints) -> Ints | None:
    """Return an integer flow of minimum cost that ships all supply (arcs,).

    Returns None if no flow ships all supply, or costs are too large for 64 bits. `tail`, `head`,
    (arcs,): the nodes that each arc leaves and enters. `capacity`, `cost`, (arcs,): upper bound of
    the flow, and cost of one unit. `supply`, (nodes,): units that a node provides, negative for
    demand; their sum is 0.
    """
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    solver = SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    if solver.solve() != solver.OPTIMAL:
        return None
    flow: Ints = np.asarray(solver.flows(arcs), dtype=np.int64)
    return flow


def transportation(
    supply: Ints, demand: Ints, cost: Ints, allowed: Bools, current: Ints
) -> Ints | None:
    """Return a transportation plan of minimum cost, of these one that changes the least.

    Returns units shipped (sources, sinks); None if there is no plan, or costs are too large.
    `supply`, `demand`, (sources,), (sinks,): units to ship, with equal sums. `cost`, (sources,
    sinks): non-negative cost of one unit. `allowed`, (sources, sinks): pairs that may ship.
    `current`, (sources, sinks): units shipped now. As many of them are kept as the minimum cost
    allows; where costs are too large for 64 bits together with that, only the cost counts.
    """
    source, sink = np.nonzero(allowed)
    unit = cost[source, sink] // max(1, int(np.gcd.reduce(cost[source, sink], initial=0)))
    kept = current[source, sink]
    stays = np.flatnonzero(kept)
    tail = np.concatenate([source, source[stays]])
    head = np.concatenate([sink, sink[stays]]) + len(supply)
    capacity = np.concatenate([supply[source], kept[stays]])
    largest = MAX_COST // (len(supply) + len(demand) + 1)
    # A change costs one, and all changes together less than any difference in cost.
    for weight, change in ((int(supply.sum()) + 1, 1), (1, 0)):
        if int(unit.max(initial=0)) > largest // weight - 1:
            continue
        price = np.concatenate([unit * weight + change, unit[stays] * weight])
        flow = min_cost_flow(tail, head, capacity, price, np.concatenate([supply, -demand]))
        if flow is None:
            return None
        plan = np.zeros_like(cost)
        np.add.at(plan, (tail, head - len(supply)), flow)
        return plan
    return None
