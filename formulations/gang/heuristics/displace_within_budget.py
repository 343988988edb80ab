"""Displacement by the scarce limit of a disruption budget: a Lagrangian search for its price.

The limit that displacement would exceed most gets a price per unit, which victims cost on top of
their value (`victim_sets.py`): where work lost is scarce those stop that lose little. While the
limit is used up at a price, it is raised, and lowered otherwise; each time, what is left of the
budget then serves displacement without a price. The best placement of all is returned, among them
the one without prices, and the one beyond the budget once it is repaired.
"""

from __future__ import annotations

from math import sqrt

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.placement.disruption_budget import (
    disruption_of,
    repair_disruptions,
)
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.disruption_budget import (
    NO_BUDGET_PRICES,
    NOTHING,
    BudgetPrices,
    DisruptionBudget,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session


def displaced(problem: Problem, session: Session) -> Placement:
    """Return a placement after greedy displacement; unlawful preemptions are undone."""
    best = _displaced(problem, NO_BUDGET_PRICES)
    if problem.budget is None:
        return best
    beyond = Placement(problem)
    displace_greedily(beyond, beyond_budget=True)
    scarce = _scarce_limit(problem.budget, beyond)
    repair_disruptions(beyond)
    if scarce < 0 or session.expired():
        return max(best, beyond, key=lambda placement: placement.value)
    found = _priced(problem, session, problem.budget, scarce, best)
    return max(best, beyond, found, key=lambda placement: placement.value)


def displaced_at(problem: Problem, prices: BudgetPrices) -> Placement:
    """Return a placement after greedy displacement at some prices, then without any."""
    placement = Placement(problem)
    displace_greedily(placement, prices)
    displace_greedily(placement)
    repair_disruptions(placement)
    return placement


def _displaced(problem: Problem, prices: BudgetPrices) -> Placement:
    placement = Placement(problem)
    displace_greedily(placement, prices)
    repair_disruptions(placement)
    return placement


def _scarce_limit(budget: DisruptionBudget, beyond: Placement) -> int:
    """Return the limit that a placement exceeds by most, relative to it; -1 if it exceeds none.

    Limits of 0 need no price, and displacement does not choose who migrates.
    """
    used = disruption_of(beyond, budget)
    over = [
        0.0 if not most or name == "migrated_jobs" else has / most
        for has, most, name in zip(used, budget.limits, NOTHING._fields, strict=True)
    ]
    scarce = max(range(len(over)), key=over.__getitem__)
    return scarce if over[scarce] > 1 else -1


def _priced(
    problem: Problem, session: Session, budget: DisruptionBudget, scarce: int, best: Placement
) -> Placement:
    """Return the best placement of a search for the price of a limit."""
    tuning = parameters.PARAMETERS.insertion
    greedy = Placement(problem)
    fill_by_policy(greedy)
    most = budget.limits[scarce] or 1
    price = max(best.value - greedy.value, 1) / most
    factor, raised = tuning.budget_price_factor, True
    for _ in range(tuning.max_budget_price_steps):
        if session.expired():
            break
        prices = tuple(price if k == scarce else 0.0 for k in range(len(NOTHING)))
        placement = Placement(problem)
        displace_greedily(placement, prices)
        full = disruption_of(placement, budget)[scarce] >= tuning.used_up_share * most
        displace_greedily(placement)
        repair_disruptions(placement)
        best = max(best, placement, key=lambda one: one.value)
        if full != raised:
            factor, raised = sqrt(factor), full
        price = price * factor if full else price / factor
    return best
