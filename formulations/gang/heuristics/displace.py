"""Displacement: pending jobs start where stopping running jobs costs least.

`displace_by_counts` disaggregates the counts of an aggregate model: gangs go first, into the
domains that the counts chose, then each pattern of one-task jobs goes to the hosts of least
displacement cost. `displace_greedily` inserts jobs in the order of value per GPU without a model.
The displacement cost of a host is that of its cheapest victim set: value first, then what stopping
costs (`displacement_cost.py`). In the end the greedy places stopped and pending jobs that fit.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.class_packing import StartCounts
from placewright.formulations.gang.heuristics.disaggregate import domain_masks, gangs_of
from placewright.formulations.gang.heuristics.displacement_cost import DisplacementCost
from placewright.formulations.gang.heuristics.preemptive_insertion import PreemptiveInsertion
from placewright.formulations.gang.heuristics.victim_sets import NO_QUOTA_PRICES, QuotaPrices
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.gang_hosts import cheapest_hosts, compact_hosts
from placewright.formulations.gang.placement.greedy import greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.disruption_budget import (
    NO_BUDGET_PRICES,
    BudgetPrices,
)


def displace_by_counts(
    counts: AggregateModel,
    patterns: HostPatterns,
    values: NDArray[np.float64],
    prices: QuotaPrices = NO_QUOTA_PRICES,
    budget_prices: BudgetPrices = NO_BUDGET_PRICES,
) -> Placement:
    """Return a placement that starts the integer counts `values`, maybe beyond quotas.

    `prices` are what a unit of a quota is worth, `budget_prices` of the disruption budget.
    """
    number = np.rint(values).astype(np.int64)
    starts = counted_starts(counts, values)
    cost = DisplacementCost(Placement(counts.problem), prices, budget_prices)
    insertion = PreemptiveInsertion(cost, starts, compact_hosts, prices)
    for c, o, inside in gangs_of(counts, number, starts):
        insertion.insert_gang(c, o, domain_masks(counts, inside).get(0))
    insertion.insert_columns(counts, patterns, number)
    insertion.insert_remaining()
    return insertion.placement


def counted_starts(counts: AggregateModel, values: NDArray[np.float64]) -> StartCounts:
    """Return how many pending jobs of each class and choice the integer counts `values` start."""
    number = np.rint(values).astype(np.int64)
    starts: StartCounts = defaultdict(int)
    for c, o, n in zip(counts.y_class, counts.y_choice, number[counts.y], strict=True):
        if n and not counts.problem.classes[c].running:
            starts[int(c), int(o)] += int(n)
    return starts


def displace_greedily(
    placement: Placement,
    budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    *,
    beyond_budget: bool = False,
) -> None:
    """Start waiting jobs where their displacement cost is below their value, then run the greedy.

    Jobs start in the order of their value per GPU.

    Parameters
    ----------
    budget_prices
        What a unit of each limit of the disruption budget is worth.
    beyond_budget
        Whether victims may exceed the disruption budget.
    """
    cost = DisplacementCost(placement, budget_prices=budget_prices, beyond_budget=beyond_budget)
    insertion = PreemptiveInsertion(cost, defaultdict(int), cheapest_hosts)
    before = placement.value
    for _ in range(parameters.PARAMETERS.insertion.max_displacement_passes):
        _displacement_pass(placement, insertion)
        if placement.value <= before:
            break
        before = placement.value
        insertion.cost.refresh()
    fill_by_policy(placement)


def _displacement_pass(placement: Placement, insertion: PreemptiveInsertion) -> None:
    """Insert waiting jobs; on each host tasks arrive at most once."""
    problem = placement.problem
    for c, o in greedy_order(problem):
        choice, waiting = problem.classes[c].choices[o], placement.waiting[c]
        if not waiting or not problem.shape_rank[choice.groups[0].shape]:
            continue
        insertion.starts[c, o] = waiting
        if choice.is_single_task:
            insertion.insert_singles(c, o)
        else:
            while insertion.starts[c, o] and insertion.insert_gang(c, o, None):
                pass
        insertion.starts[c, o] = 0
