"""The exact model: a 0/1 variable for each way and lease.

    S[w] in {0,1}      way w is promised            sum over the ways of a job S[w] <= 1
    X[w,t] in {0,1}    it runs in lease t           sum_t X[w,t] = need(w) S[w],   X[w,t] <= S[w]
                                                    sum_w demand(w,r) X[w,t] <= capacity(r,t)

for the leases t that w can use. Exact for every `Problem`. Its columns grow with ways times leases,
so that it is for small rounds, and for tests.

Ways that ask the least that any way asks *flow*: once all else is whole, their leases are a flow
through whole capacities, and the vertices of that are whole. Such X need no branching, and most
jobs of a round ask for a single GPU.

Gao et al. (Chronus, SoCC'21) and their artifact solve a model of this kind, with neither the rows
X <= S nor, in the usual tightened variant, variables of their own for each deadline of a job. Both
sharpen the relaxation: sharing the leases of a job among its deadlines loosens it by 0.5 % on
rounds of a hundred jobs of their trace, for it lets half a promise run in the time of the other.

Leases may be counted together in *spans* of leases that are alike: X[w,i] is then how many leases
of span i the way runs in, at most its length. `intervals` says what that loses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.models.demand_bound import by_demand_class
from placewright.formulations.deadline.problem.problem import NONE, Bools, Ints, Problem, Schedule
from placewright.solver import Arrays, Model
from placewright.solver.arrays import Floats

BROKEN, ADMITTED = "broken", "admitted"
"""The model's terms."""

ABSENT = -1
"""The column of a way in a span that it cannot use."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndexedModel:
    """The model of a problem, and where its variables are.

    Attributes
    ----------
    problem, model
        The terms of the model are `broken` and `admitted`.
    span : int64 (horizon,)
        The span of each lease.
    promised : int64 (ways,)
        The column of each way.
    runs : int64 (ways, spans)
        The column of each way and span, `ABSENT` where it cannot run.
    """

    problem: Problem
    model: Model
    span: Ints
    promised: Ints
    runs: Ints

    def minimise_broken(self) -> Arrays:
        """Return the model that breaks the least value."""
        return self.model.arrays(BROKEN)

    def maximise_admitted(self, broken: int) -> Arrays:
        """Return the model that promises the most value and breaks no more than so much."""
        if self.problem.loss.any():
            self.model.hold(BROKEN, broken)
        return self.model.arrays(ADMITTED)

    def relax_flow(self, arrays: Arrays) -> Arrays:
        """Return a model of these in which the leases of ways that flow need not be whole.

        Its optimum is the same, but not each of its points is a schedule.
        """
        columns = self.runs[is_flow(self.problem)]
        integer = arrays.integer.copy()
        integer[columns[columns != ABSENT]] = False
        return replace(arrays, integer=integer)

    def values_of(self, schedule: Schedule) -> Floats:
        """Return a schedule as values of the columns, to start a solver from."""
        values = np.zeros(self.model.columns)
        has = np.flatnonzero(schedule.alternative != NONE)
        alternatives = schedule.alternative[has]
        values[self.promised[alternatives]] = 1.0
        at, lease = np.nonzero(schedule.runs[has])
        np.add.at(values, self.runs[alternatives[at], self.span[lease]], 1.0)
        return values

    def alternatives(self, values: Floats) -> Ints:
        """Return the way of each job at a whole point, or `NONE`: int64 (jobs,)."""
        chosen = np.flatnonzero(values[self.promised] > 0.5)
        alternative = np.full(self.problem.jobs, NONE, dtype=np.int64)
        alternative[self.problem.job[chosen]] = chosen
        return alternative

    def counts(self, values: Floats) -> Ints:
        """Return how many leases of each span each job runs in at a whole point (jobs, spans)."""
        alternative = self.alternatives(values)
        has = np.flatnonzero(alternative != NONE)
        columns = self.runs[alternative[has]]
        counts = np.zeros((self.problem.jobs, self.runs.shape[1]), dtype=np.int64)
        counts[has] = np.where(columns == ABSENT, 0, np.rint(values[columns]))
        return counts


def usable(problem: Problem) -> Bools:
    """Tell which leases each way can use: inside its window, with enough capacity (ways, horizon).

    A way with fewer of them than it needs has none.
    """
    leases = np.arange(problem.horizon)
    can = (problem.first[:, None] <= leases) & (leases < problem.end[:, None])
    for row, demand in zip(problem.capacity, problem.demand.T, strict=True):
        can &= demand[:, None] <= row
    can &= (can.sum(axis=1) >= problem.need)[:, None]
    return can


def size(problem: Problem) -> int:
    """Return how many leases the ways can use together: variables of the model, but for `S`."""
    total = 0
    for alternatives, leases in by_demand_class(problem):
        before = np.append(0, np.cumsum(leases))
        number = before[problem.end[alternatives]] - before[problem.first[alternatives]]
        total += int(number[number >= problem.need[alternatives]].sum())
    return total


def is_flow(problem: Problem) -> Bools:
    """Tell which ways have leases that are a flow, once all other variables are whole (ways,).

    They ask one unit of a row, or nothing, and the rows that they ask of are nested or disjoint:
    then each lease is a tree of capacities, and each way a sum of its leases (two laminar families,
    whose matrix is totally unimodular; Schrijver, Combinatorial Optimization, 2003, section 41.4).
    """
    unit = np.gcd.reduce(problem.demand, axis=0, initial=0)
    single: Bools = ((problem.demand == unit) | (problem.demand == 0)).all(axis=1)
    asks = problem.demand[single] > 0
    both = asks.T.astype(np.int64) @ asks
    alone = np.diag(both)
    nested = (both == 0) | (both == alone[:, None]) | (both == alone)
    return single & bool(nested.all())


def build(problem: Problem, span: Ints | None = None) -> TimeIndexedModel:
    """State the model of a problem.

    Parameters
    ----------
    span
        The span of each lease (horizon,), from 0 on; leases of one span are alike to every way and
        have the same capacity. None: each lease is a span.
    """
    span = np.arange(problem.horizon) if span is None else span
    _, sample, length = np.unique(span, return_index=True, return_counts=True)
    can = usable(problem)[:, sample]
    alternative, at = np.nonzero(can)
    model = Model()
    promised = model.variables("promised", problem.alternatives, upper=can.any(axis=1))
    runs = np.full(can.shape, ABSENT, dtype=np.int64)
    run = model.variables("runs", len(alternative), upper=length[at])
    runs[alternative, at] = run
    one = model.rows("one", problem.jobs, upper=1)
    model.add(one[problem.job], promised, 1.0)
    done = model.rows("done", problem.alternatives, lower=0, upper=0)
    model.add(done[alternative], run, 1.0)
    model.add(done, promised, -problem.need)
    inside = model.rows("inside", len(alternative), upper=0)
    model.add(inside, run, 1.0)
    model.add(inside, promised[alternative], -length[at])
    for row, asked in enumerate(problem.demand.T):
        # In units of what all demands have in common: small numbers, and sharper rows.
        unit = max(1, int(np.gcd.reduce(asked)))
        limit = problem.capacity[row, sample] // unit * length
        rows = model.rows(f"capacity {row}", len(length), upper=limit)
        model.add(rows[at], run, asked[alternative] // unit)
    kept = problem.loss[problem.job] - problem.lost
    model.term(BROKEN, promised, -kept, sense="min", constant=float(problem.loss.sum()))
    model.term(ADMITTED, promised, problem.value, sense="max")
    return TimeIndexedModel(problem, model, span, promised, runs)


def read(indexed: TimeIndexedModel, values: Floats) -> Schedule:
    """Return the schedule at a whole point of a model in which each lease is a span."""
    return Schedule(indexed.alternatives(values), indexed.counts(values) > 0)
