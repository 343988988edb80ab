"""The exact model: a 0/1 variable for each job and lease.

    S[w] in {0,1}      way w is promised                sum over the ways of a job S[w] <= 1
    X[p,t] in {0,1}    trail p runs in lease t          sum_t X[p,t] = sum_{w of p} need(w) S[w]
                                                        X[p,t] <= sum_{w of p that can use t} S[w]
                                                        sum_p demand(p,r) X[p,t] <= capacity(r,t)

A *trail* is a job with one of its demands: its ways that ask the same of each row share their
leases, for at most one of them is promised. Where one of a trail's windows holds others, the work
of those lies inside it; these rows change no whole solution, and sharpen the relaxation.

Exact for every `Problem`. Its columns grow with jobs times leases (Gao et al., Chronus, SoCC'21,
and its artifact solve a model of this kind), so that it is for small rounds, and for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.formulations.deadline.problem import NONE, Bools, Ints, Problem, Schedule
from placewright.solver import Arrays, Model
from placewright.solver.arrays import Floats

BROKEN, ADMITTED = "broken", "admitted"
"""The model's terms."""


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """The model of a problem, and where its variables are.

    Attributes
    ----------
    problem, model
        The terms of the model are `broken` and `admitted`.
    trail : int64 (ways,)
        The trail of each way.
    usable : bool (trails, horizon)
        The leases that some way of the trail can use.
    promised : int64 (ways,)
        The column of each way.
    runs : int64 (trails, horizon)
        The column of each trail and lease, -1 where it cannot run.
    """

    problem: Problem
    model: Model
    trail: Ints
    usable: Bools
    promised: Ints
    runs: Ints

    def first_term(self) -> Arrays:
        """Return the model that breaks the least value."""
        return self.model.arrays(BROKEN)

    def second_term(self, broken: int) -> Arrays:
        """Return the model that promises the most value and breaks no more than so much."""
        if not self.problem.loss.any():
            return self.model.arrays(ADMITTED)
        self.model.hold(BROKEN, broken)
        return self.model.arrays(ADMITTED)

    def point(self, schedule: Schedule) -> Floats:
        """Return a schedule as values of the columns, to start a solver from."""
        values = np.zeros(self.model.columns)
        has = np.flatnonzero(schedule.way != NONE)
        ways = schedule.way[has]
        values[self.promised[ways]] = 1.0
        at, lease = np.nonzero(schedule.runs[has])
        values[self.runs[self.trail[ways[at]], lease]] = 1.0
        return values

    def read(self, values: Floats) -> Schedule:
        """Return the schedule at a whole point, shape (columns,)."""
        problem = self.problem
        chosen = np.flatnonzero(values[self.promised] > 0.5)
        way = np.full(problem.jobs, NONE, dtype=np.int64)
        way[problem.job[chosen]] = chosen
        runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        columns = self.runs[self.trail[chosen]]
        runs[problem.job[chosen]] = (columns >= 0) & (values[columns] > 0.5)
        return Schedule(way, runs)


def trails(problem: Problem) -> Ints:
    """Return the trail of each way: its job with its demand, (ways,)."""
    keys = np.column_stack([problem.job, problem.demand])
    _, trail = np.unique(keys, axis=0, return_inverse=True)
    return np.asarray(trail, dtype=np.int64).reshape(-1)


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
    """Return how many columns the model has for leases."""
    return int(_any_of(trails(problem), usable(problem)).sum())


def build(problem: Problem) -> Indexed:
    """State the model of a problem."""
    trail, can = trails(problem), usable(problem)
    able = can.any(axis=1)
    open_ = _any_of(trail, can)
    model = Model()
    promised = model.variables("promised", problem.ways, upper=able.astype(np.float64))
    runs = np.full(open_.shape, -1, dtype=np.int64)
    runs[open_] = model.variables("runs", int(open_.sum()), upper=1)
    indexed = Indexed(problem, model, trail, open_, promised, runs)
    one = model.rows("one", problem.jobs, upper=1)
    model.add(one[problem.job], promised, 1.0)
    _work(indexed, can)
    _capacity(indexed)
    lost = (problem.loss[problem.job] - problem.lost).astype(np.float64)
    model.term(BROKEN, promised, -lost, sense="min", constant=float(problem.loss.sum()))
    model.term(ADMITTED, promised, problem.value.astype(np.float64), sense="max")
    return indexed


def _work(indexed: Indexed, can: Bools) -> None:
    """Say that a trail runs as long as its promised way needs, where that way can."""
    problem, model, runs = indexed.problem, indexed.model, indexed.runs
    trail, open_ = indexed.trail, indexed.usable
    able = np.flatnonzero(can.any(axis=1))
    at, lease = np.nonzero(open_)
    done = model.rows("done", len(open_), lower=0, upper=0)
    model.add(done[at], runs[at, lease], 1.0)
    model.add(done[trail[able]], indexed.promised[able], -problem.need[able])
    inside = np.full(open_.shape, -1, dtype=np.int64)
    inside[open_] = model.rows("inside", len(at), upper=0)
    model.add(inside[at, lease], runs[at, lease], 1.0)
    way, lease = np.nonzero(can)
    model.add(inside[trail[way], lease], indexed.promised[way], -1.0)
    for holder, held in _nested(trail, can):
        row = model.rows("within", 1, lower=0)
        model.add(row, runs[trail[holder], np.flatnonzero(can[holder])], 1.0)
        model.add(row, indexed.promised[held], -problem.need[held])


def _nested(trail: Ints, can: Bools) -> Iterator[tuple[int, Ints]]:
    """Yield ways whose window is not all of their trail's, with the ways inside that window."""
    order = np.argsort(trail, kind="stable")
    starts = np.flatnonzero(np.diff(trail[order], prepend=-1))
    for ways in np.split(order, starts[1:]):
        windows = can[ways]
        whole = windows.any(axis=0)
        for way, window in zip(ways, windows, strict=True):
            if window.any() and (window != whole).any():
                held = windows.any(axis=1) & ~(windows & ~window).any(axis=1)
                yield int(way), ways[held]


def _capacity(indexed: Indexed) -> None:
    """Keep each row in each lease; in units of what all demands have in common."""
    problem, model = indexed.problem, indexed.model
    at, lease = np.nonzero(indexed.usable)
    demand = np.zeros((len(indexed.usable), len(problem.capacity)), dtype=np.int64)
    demand[indexed.trail] = problem.demand
    for name, room, asked in zip(
        range(len(problem.capacity)), problem.capacity, demand.T, strict=True
    ):
        unit = max(1, int(np.gcd.reduce(asked)))
        rows = model.rows(f"capacity {name}", problem.horizon, upper=room // unit)
        uses = asked[at] > 0
        model.add(rows[lease[uses]], indexed.runs[at[uses], lease[uses]], asked[at[uses]] // unit)


def _any_of(trail: Ints, can: Bools) -> Bools:
    """Join the leases of the ways of each trail (trails, horizon)."""
    joined = np.zeros((int(trail.max(initial=-1)) + 1, can.shape[1]), dtype=np.bool_)
    np.logical_or.at(joined, trail, can)
    return joined
