"""Prices of quotas: those of which the victims belong to tenants that need their quota back.

A program over counts keeps within all quotas, but it does not say where jobs are. So the jobs that
stop on the hosts of least displacement cost may be those of other tenants than it counts on. The
displacement is repeated at higher prices of quotas that it exceeds, and lower ones of those of
which it leaves some: a subgradient step from the duals of the relaxation (Held and Karp 1971). At a
higher price the jobs of a tenant cost less to stop.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.displace import displace_by_counts
from placewright.formulations.gang.heuristics.quota_knapsack import keep_within_quotas
from placewright.formulations.gang.heuristics.stopping import close_enough
from placewright.formulations.gang.models.aggregate.disruption_budget import budget_prices
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey
from placewright.formulations.session import Session


def displace_within_quotas(
    session: Session,
    counts: AggregateModel,
    patterns: HostPatterns,
    values: NDArray[np.float64],
    duals: Floats | None,
) -> Placement:
    """Return the best placement that starts what it can of the integer counts `values`.

    `duals` are those of the rows of the relaxation.
    """
    tuning = parameters.PARAMETERS.insertion
    problem, until = counts.problem, session.part(tuning.quota_price_share)
    prices, worth = _dual_prices(counts, duals), _worth_of_running(problem)
    of_budget = budget_prices(counts, duals)
    tried: list[Placement] = []
    while len(tried) < tuning.max_quota_price_steps:
        found = displace_by_counts(counts, patterns, values, prices, of_budget)
        excess = {
            key: -left / max(problem.quota[key], 1) for key, left in found.quota_left().items()
        }
        if problem.quota:
            keep_within_quotas(session, found)
        fill_by_policy(found)
        tried.append(found)
        within = max(excess.values(), default=0.0) <= 0
        if within or close_enough(problem, session, found) or until.expired():
            break
        for key, part in excess.items():
            prices[key] = max(0.0, prices.get(key, 0.0) + worth.get(key, 0.0) * part)
    return max(tried, key=lambda placement: placement.value)


def _dual_prices(counts: AggregateModel, duals: Floats | None) -> dict[QuotaKey, float]:
    """Return the dual prices of the rows of quotas and caps."""
    if duals is None:
        return {}
    dual = duals[counts.quota_row].clip(min=0.0).tolist()
    return {key: each for key, each in zip(counts.problem.quota, dual, strict=True) if each}


def _worth_of_running(problem: Problem) -> dict[QuotaKey, float]:
    """Return what running jobs are worth per unit that they hold of each quota or cap."""
    value: defaultdict[QuotaKey, int] = defaultdict(int)
    held: defaultdict[QuotaKey, int] = defaultdict(int)
    for job_class in problem.classes:
        choice = job_class.choices[0]
        for key in problem.quota_keys.get(job_class.accounts, ()) if job_class.running else ():
            value[key] += len(job_class.jobs) * choice.value
            held[key] += len(job_class.jobs) * problem.demand_of(choice, key[1])
    return {key: value[key] / held[key] for key in held if held[key]}
