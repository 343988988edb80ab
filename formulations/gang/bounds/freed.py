"""Upper bound on `freed`: a packing bound, and the cost of moving what the freed domains hold.

All running jobs are packed anew on hosts worth as little as possible. Hosts that every packing uses
cannot become free, and a freed domain costs at least the moves of what it holds:

    slack  =   worth of hosts that no packing needs  -  worth of the domains free before
    freed  <=  max sum_d (worth[d] - least cost of emptying d) f[d]
               sum_d worth[d] f[d]  <=  slack,     0 <= f <= 1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.models.aggregate.column_generation import (
    aggregate_models,
    bound_by_relaxation,
)
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.jobs import JobClass
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import PACKED
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session


def freed_bounds(problem: Problem, session: Session) -> Iterator[Bound]:
    """Bound `freed` by the count model in which all running jobs are packed anew."""
    freeing = FreeableDomains(problem)
    state = problem.cleared.copy()
    state.busy[:] = problem.pinned_hosts  # as if the other hosts were free
    packing = replace(problem, state=state, cleared=state)
    # What runs is a point of the model as it is now.
    counts, patterns = next(aggregate_models(packing, Placement(problem)))
    _the_highest_run(counts)
    worth = freeing.worth_of_host
    of_host = counts.host_classes.of_host
    idle = np.flatnonzero(counts.host_classes.idle)
    each = np.array([worth[of_host == a].min() for a in idle], dtype=np.float64)
    counts.model.term(PACKED, counts.opened[idle], each, sense="min")
    most = int(worth[~problem.pinned_hosts].sum()) - int(
        freeing.worth_of_domain[~freeing.busy].sum()
    )
    gain = freeing.worth_of_domain - _least_cost(problem, freeing)
    gain[~freeing.freeable] = 0
    for bound in bound_by_relaxation(session, counts, patterns, PACKED):
        budget = most - int(bound.value)
        yield Bound(
            "freed", _knapsack(gain, freeing.worth_of_domain, budget), certified=bound.certified
        )


def _least_cost(problem: Problem, freeing: FreeableDomains) -> NDArray[np.int64]:
    """Disruption of emptying each domain at least; a job in several counts in each by its part."""
    cost = np.zeros(len(freeing.worth_of_domain), dtype=np.int64)
    for running in problem.running.values():
        job_class = problem.classes[running.job_class]
        groups = job_class.choices[0].groups
        domains = {int(freeing.domain[host]) for _, _, host, _ in running.places}
        stop = running.migrate_cost
        if not _is_highest(problem, job_class):
            stop = min(stop, running.preempt_cost)
        cost[list(domains)] += stop // len(domains)
        for group, _, host, _ in running.places:
            cost[freeing.domain[host]] += problem.shape_gpu[groups[group].shape]
    return cost


def _knapsack(gain: NDArray[np.int64], worth: NDArray[np.int64], budget: int) -> int:
    """Fractional knapsack: the largest gain of domains whose worth adds up to at most `budget`.

    At any price per unit of worth, the price of `budget` and what domains gain beyond their price
    bound it; the price is that of the first domain that is not there whole.
    """
    useful = np.flatnonzero((gain > 0) & (worth > 0))
    useful = useful[np.argsort(-(gain / np.maximum(worth, 1))[useful], kind="stable")]
    first = int(np.searchsorted(np.cumsum(worth[useful]), budget, side="right"))
    each, size = (gain[useful].astype(object), worth[useful].astype(object))
    if first == len(useful):
        return int(sum(each))
    paid, per = each[first], size[first]
    beyond = sum((each * per - paid * size).clip(min=0))
    return int(-(-(paid * max(budget, 0) + beyond) // per))


def _the_highest_run(counts: AggregateModel) -> None:
    """Let no running job stop that no other outranks: no job can take its place."""
    problem = counts.problem
    stays = np.array([c.running and _is_highest(problem, c) for c in problem.classes], dtype=bool)
    mine = np.flatnonzero(stays[counts.y_class])
    rows = counts.model.rows("all run", len(mine), lower=counts.y_most[mine].astype(np.float64))
    counts.model.add(rows, counts.y[mine], 1.0)


def _is_highest(problem: Problem, job_class: JobClass) -> bool:
    """Whether no other job outranks those of a class."""
    rank = problem.shape_rank[job_class.choices[0].groups[0].shape]
    return bool(rank == problem.shape_rank.max(initial=0))
