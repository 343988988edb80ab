"""The time-indexed model, which is exact: a binary column for each alternative and lease.

    S[w] in {0,1}      alternative w is promised    sum over the alternatives of a job S[w] <= 1
    X[w,t] in {0,1}    it runs in lease t           sum_t X[w,t] = need(w) S[w],   X[w,t] <= S[w]
                                                    sum_w demand(w,r) X[w,t] <= capacity(r,t)

for the leases t that w can use. Exact for every `Problem`. Its size grows with alternatives times
leases, so it is for small rounds, and for tests.

Alternatives of the smallest demand *flow*: once all else is integral, their leases are a flow
through integral capacities, whose vertices are integral. Such X need no branching, and most jobs of
a round ask for a single GPU.

References
----------
Gao et al. (Chronus, SoCC'21) and their artifact solve a model of this kind, with neither the rows
X <= S nor, in the usual tightened variant, columns of their own for each deadline of a job. Both
sharpen the relaxation: sharing the leases of a job among its deadlines loosens it by 0.5 % on
rounds of a hundred jobs of their trace, since half a promise may then run in the time of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.deadline.models.demand_bound import usable_in_window
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BROKEN,
    NONE,
    Problem,
    Schedule,
)
from placewright.solver import Arrays, Model

ABSENT = -1
"""The column of an alternative in a lease that it cannot use."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndexedModel:
    """The time-indexed model of a problem, and the columns of its variables."""

    # problem, model: The terms of the model are `broken` and `admitted`.
    problem: Problem
    model: Model
    promised: Ints  # (alternatives,): The column S of each alternative
    # (alternatives, horizon): The column X of each alternative and lease, `ABSENT` where it cannot
    # run.
    runs: Ints

    def maximise_admitted(self, broken: int) -> Arrays:
        """Return the model that maximises `admitted` with at most this much `broken`."""
        if self.problem.loss.any():
            self.model.hold(BROKEN, broken)
        return self.model.arrays(ADMITTED)

    def relax_flow(self, arrays: Arrays) -> Arrays:
        """Return the model with the leases of flow alternatives continuous.

        Its optimum is the same, but not each of its points is a schedule.
        """
        columns = self.runs[is_flow(self.problem)]
        integer = arrays.integer.copy()
        integer[columns[columns != ABSENT]] = False
        return replace(arrays, integer=integer)

    def values_of(self, schedule: Schedule) -> Floats:
        """Return a schedule as values of the columns, as a start for a solver."""
        values = np.zeros(self.model.columns)
        has = np.flatnonzero(schedule.alternative != NONE)
        alternatives = schedule.alternative[has]
        values[self.promised[alternatives]] = 1.0
        at, lease = np.nonzero(schedule.runs[has])
        values[self.runs[alternatives[at], lease]] = 1.0
        return values


def usable(problem: Problem) -> Bools:
    """Return which leases each alternative can use, bool (alternatives, horizon).

    An alternative with fewer of them than it needs has none.
    """
    leases = np.arange(problem.horizon)
    can = (problem.first[:, None] <= leases) & (leases < problem.end[:, None])
    for row, demand in zip(problem.capacity, problem.demand.T, strict=True):
        can &= demand[:, None] <= row
    can &= (can.sum(axis=1) >= problem.need)[:, None]
    return can


def size(problem: Problem) -> int:
    """Return the number of usable (alternative, lease) pairs: the columns other than `S`."""
    number = usable_in_window(problem)
    return int(number[number >= problem.need].sum())


def is_flow(problem: Problem) -> Bools:
    """Return which alternatives have leases that are a flow, all else fixed (alternatives,).

    They ask one unit of a row, or nothing, and the rows that they ask of are nested or disjoint:
    then each lease is a tree of capacities, and each alternative a sum of its leases (two laminar
    families, whose matrix is totally unimodular; Schrijver, Combinatorial Optimization, 2003,
    section 41.4).
    """
    unit = np.gcd.reduce(problem.demand, axis=0, initial=0)
    single: Bools = ((problem.demand == unit) | (problem.demand == 0)).all(axis=1)
    asks = problem.demand[single] > 0
    both = asks.T.astype(np.int64) @ asks
    alone = np.diag(both)
    nested = (both == 0) | (both == alone[:, None]) | (both == alone)
    return single & bool(nested.all())


def build(problem: Problem) -> TimeIndexedModel:
    """Return the time-indexed model of a problem."""
    can = usable(problem)
    alternative, lease = np.nonzero(can)
    model = Model()
    promised = model.variables("promised", problem.alternatives, upper=can.any(axis=1))
    runs = np.full(can.shape, ABSENT, dtype=np.int64)
    run = model.variables("runs", len(alternative), upper=1)
    runs[alternative, lease] = run
    one = model.rows("one", problem.jobs, upper=1)
    model.add(one[problem.job], promised, 1.0)
    done = model.rows("done", problem.alternatives, lower=0, upper=0)
    model.add(done[alternative], run, 1.0)
    model.add(done, promised, -problem.need)
    inside = model.rows("inside", len(alternative), upper=0)
    model.add(inside, run, 1.0)
    model.add(inside, promised[alternative], -1.0)
    for row, asked in enumerate(problem.demand.T):
        # In units of what all demands have in common: small numbers, and sharper rows.
        unit = max(1, int(np.gcd.reduce(asked)))
        rows = model.rows(f"capacity {row}", problem.horizon, upper=problem.capacity[row] // unit)
        model.add(rows[lease], run, asked[alternative] // unit)
    kept = problem.loss[problem.job] - problem.lost
    model.term(BROKEN, promised, -kept, sense="min", constant=float(problem.loss.sum()))
    model.term(ADMITTED, promised, problem.counted, sense="max")
    return TimeIndexedModel(problem, model, promised, runs)


def read(indexed: TimeIndexedModel, values: Floats) -> Schedule:
    """Return the schedule at an integral point of the model."""
    problem, chosen = indexed.problem, np.flatnonzero(values[indexed.promised] > 0.5)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternative[problem.job[chosen]] = chosen
    has = np.flatnonzero(alternative != NONE)
    columns = indexed.runs[alternative[has]]
    runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
    runs[has] = (columns != ABSENT) & (values[columns] > 0.5)
    return Schedule(alternative, runs)
