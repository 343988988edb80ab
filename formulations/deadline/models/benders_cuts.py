"""What any choice of promises has to pay at given prices of leases: valid rows over the ways.

Let a unit of load f cost u(f,t) >= 0 in lease t (loads: `demand`). A job with way w pays in each of
its leases sum_f weight(f,w) u(f,t), and in all of them at least what the need(w) cheapest of those
that it can use cost. No schedule pays more than all room costs, so that

    sum_w  (the need(w) cheapest of w)  S[w]   <=   sum_{f,t} u(f,t) room(f,t)

for every schedule. With prices 0 and 1 on one load this is the row of the set of dear leases, and
windows [s, T) give the rows of `demand.Demands.broken`. All prices together say what the fluid
relaxation of all loads says, in which a job may run in parts of leases: where a choice of ways has
no fluid schedule, the duals of the linear program

    max   sum  n[w,i]                                  n: leases of span i that way w runs in
    s.t.  sum_i n[w,i]            <=  need(w) S[w]     0 <= n[w,i] <= length(i) S[w]
          sum_w weight(f,w) n[w,i] <=  room(f,i)       weighted by what w asks of all loads

are prices whose row the choice breaks (Benders, "Partitioning procedures for solving
mixed-variables programming problems", Numerische Mathematik 4, 1962). For one load it is a maximal
flow, and its prices are those of a minimal cut.

Where all jobs may begin now and capacity never falls, windows that begin now say as much, for a
single load. Otherwise sets of leases are needed that are no window: of 3, 1, 4, 1 and 3 GPUs every
window has the room for what three jobs of one GPU that need four of the five leases must do in it;
but each of them runs in the second lease or in the fourth, which hold two jobs together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.models.demand_bound import DemandRows, Floats
from placewright.formulations.deadline.models.lease_spans import alike
from placewright.formulations.deadline.models.time_indexed import usable
from placewright.formulations.deadline.problem.problem import (
    MAX_CELLS,
    Ints,
    Problem,
    demand_classes_of,
)
from placewright.formulations.session import Session
from placewright.solver import Model

MOST_COLUMNS = 30_000
"""Ways times spans up to which a fluid schedule is looked for: about a CPU second."""

PRICE = 1 << 12
"""The price of the dearest lease; prices are rounded to whole numbers, which keeps rows valid."""


TOLERANCE = 1e-6
"""Excess of a row that counts, relative to its limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A valid row: the sum of `weight` (ways,) over the promised ways is at most `limit`."""

    weight: Ints
    limit: int


def loaded(demands: DemandRows) -> Problem:
    """Return the problem with a row for each load in the place of its capacity rows."""
    loads = demands.loads
    return replace(
        demands.problem,
        demand=np.column_stack([load.weight for load in loads]),
        capacity=np.array([load.capacity for load in loads]),
    )


def at_prices(problem: Problem, prices: Ints) -> Cut:
    """Return the row of prices >= 0, shape (rows, horizon).

    Ways must be able to run alone, as `demand.possible` says.
    """
    weight = np.zeros(problem.alternatives, dtype=np.int64)
    kinds, kind = demand_classes_of(problem.demand)
    for number, asks in enumerate(kinds):
        alternatives = np.flatnonzero(kind == number)
        fits = (asks[:, None] <= problem.capacity).all(axis=0)
        cost = asks @ prices
        below = 0
        for level in np.unique(cost[fits]).tolist():
            # Whatever a way needs beyond the leases that are cheaper costs this level at least.
            cheaper = np.concatenate([[0], np.cumsum(fits & (cost < level))])
            avoided = cheaper[problem.end[alternatives]] - cheaper[problem.first[alternatives]]
            weight[alternatives] += (level - below) * np.maximum(
                0, problem.need[alternatives] - avoided
            )
            below = level
    unit = max(1, int(np.gcd.reduce(weight)))
    return Cut(weight // unit, int((prices * problem.capacity).sum()) // unit)


def fluid_cut(demands: DemandRows, chosen: Floats, session: Session) -> Cut | None:
    """Return a row that a choice of ways breaks, between 0 and 1 each: (ways,).

    None where the choice has a fluid schedule, or it takes too long to find out.
    """
    if not demands.loads or not _helps(demands.problem):
        return None
    if demands.problem.alternatives * len(demands.loads) > MAX_CELLS:
        return None
    alternatives = np.flatnonzero(chosen > 0)
    problem = loaded(demands)
    span = alike(problem)
    _, sample, length = np.unique(span, return_index=True, return_counts=True)
    alternative, at = np.nonzero(usable(problem.restrict(alternatives))[:, sample])
    if len(alternative) > MOST_COLUMNS:
        return None
    model = Model()
    share = chosen[alternatives]
    runs = model.variables(
        "runs", len(alternative), upper=length[at] * share[alternative], integer=False
    )
    done = model.rows("done", len(alternatives), upper=problem.need[alternatives] * share)
    model.add(done[alternative], runs, 1.0)
    rows = []
    for load, (weight, room) in enumerate(zip(problem.demand.T, problem.capacity, strict=True)):
        rows.append(model.rows(f"room {load}", len(length), upper=room[sample] * length))
        model.add(rows[load][at], runs, weight[alternatives][alternative])
    model.term("work", runs, problem.demand[alternatives].sum(axis=1)[alternative], sense="max")
    outcome = session.optimise(model.arrays("work"))
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.array([outcome.row_duals[row] for row in rows]).clip(min=0)
    if not duals.any():
        return None
    cut = at_prices(problem, np.rint(duals / duals.max() * PRICE).astype(np.int64)[:, span])
    return cut if cut.weight @ chosen > cut.limit * (1 + TOLERANCE) else None


def _helps(problem: Problem) -> bool:
    """Tell whether windows that begin now leave something to be said."""
    falls = bool((np.diff(problem.capacity, axis=1) < 0).any())
    return falls or bool(problem.first.any()) or len(problem.capacity) > 1
