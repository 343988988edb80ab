"""The exact MIP of a neighbourhood; the rest of a solution is fixed.

With n[w,r,m] jobs of class w in region r on GPU model m, d[w] of its jobs without a home, and
x[p,r] in {0, 1} where dataset class p has a replica after the plan:

    sum_{r,m} n[w,r,m] + d[w] = count_w
    sum_r x[p,r] >= 1                                      for a dataset class with a replica now
    sum_m n[w,r,m] - q[w,p,r] <= count_w x[p,r]            for each read; q = 0 if it must be local
    sum_m n[w,r,m] <= count_w (x[p,r] + sum of x[p,s] over regions s with a link to r)
    sum_p size_p x[p,r] <= storage_r                       or what is there now, if that is more
    sum_p size_p x[p,r] over new replicas <= budgets of all links into r
    D - sum_k over[k,r,m] <= S                             D = sum_w demand_w n[w,r,m]

or, where overload is held at its minimum, the bounds on D of `problem/overload_curve.py`.

All five terms are linear, `imbalance` and `hottest` with integer variables for their rounding. It
is a relaxation only of transfers: which links copies use, and when.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED
from placewright.formulations.replicas.problem.overload_curve import (
    LeastOverload,
    demand_unit,
    overload_pieces,
)
from placewright.formulations.replicas.problem.problem import HOMELESS, Problem
from placewright.formulations.replicas.solution import Solution
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """What is free; all else is fixed at the incumbent.

    Attributes
    ----------
    job_classes, dataset_classes : Bools
        (job classes,) and (dataset classes,).
    homes : Bools
        (job classes, regions, models): homes that free job classes may have.
    holds : Bools
        (dataset classes, regions): replicas that free dataset classes may have.
    least_reads : bool
        Whether free job classes read remotely only what cannot be in their region.
    """

    job_classes: Bools
    dataset_classes: Bools
    homes: Bools
    holds: Bools
    least_reads: bool = False


def whole_problem(problem: Problem) -> Neighbourhood:
    """Return the neighbourhood in which everything is free."""
    return Neighbourhood(
        job_classes=np.ones(problem.job_classes, dtype=np.bool_),
        dataset_classes=np.ones(problem.dataset_classes, dtype=np.bool_),
        homes=problem.allowed_homes,
        holds=problem.may_hold,
    )


class NeighbourhoodMip:
    """The `Model` of a neighbourhood, with the terms of the policy.

    With `least` overload is held at its minimum, for which there are no columns.
    """

    def __init__(
        self,
        problem: Problem,
        neighbourhood: Neighbourhood,
        solution: Solution,
        terms: tuple[str, ...],
        least: LeastOverload | None = None,
    ) -> None:
        self._problem, self._free, self._solution, self._least = (
            problem,
            neighbourhood,
            solution,
            least,
        )
        self.model = Model()
        self._homes()
        self._replicas()
        self._reads()
        self._overload()
        if "imbalance" in terms:
            self._imbalance()
        if "hottest" in terms:
            self._hottest()

    def solution(self, values: Floats) -> Solution:
        """Return the solution of a point of the model."""
        jobs, replicas = self._solution.jobs.copy(), self._solution.replicas.copy()
        jobs[self._free.job_classes] = 0
        replicas[self._free.dataset_classes] = False
        jobs[self._at] = np.rint(values[self._n]).astype(np.int64)
        replicas[self._where] = values[self._x[self._where]] > 0.5
        return Solution(jobs, replicas)

    def point(self, solution: Solution) -> Floats:
        """Return the jobs and replicas of a solution at their columns, 0 at all others."""
        values = np.zeros(self.model.columns)
        values[self._n] = solution.jobs[self._at]
        values[self._x[self._where]] = solution.replicas[self._where]
        return values

    def fractions(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the jobs and replicas of a point, in the shapes of a `Solution`."""
        jobs, replicas = self._solution.jobs.astype(float), self._solution.replicas.astype(float)
        jobs[self._free.job_classes] = 0
        replicas[self._free.dataset_classes] = 0
        jobs[self._at] = values[self._n]
        replicas[self._where] = values[self._x[self._where]]
        return jobs, replicas

    def _homes(self) -> None:
        problem, model, neighbourhood = self._problem, self.model, self._free
        may = neighbourhood.homes & neighbourhood.job_classes[:, None, None]
        self._at = np.nonzero(may)
        w = self._at[0]
        self._n = model.variables("jobs", len(w), upper=problem.count[w].astype(float))
        self._number = np.full(may.shape, -1, dtype=np.int64)
        self._number[self._at] = self._n
        free = np.flatnonzero(neighbourhood.job_classes)
        count = problem.count[free].astype(float)
        self._none = model.variables("homeless", len(free), upper=count)
        rows = np.zeros(problem.job_classes, dtype=np.int64)
        rows[free] = model.rows("homes", len(free), lower=count, upper=count)
        model.add(rows[w], self._n, 1.0)
        model.add(rows[free], self._none, 1.0)
        gib = np.bincount(
            problem.read_class, weights=problem.read_gib, minlength=problem.job_classes
        )
        cost = HOMELESS * problem.demand[free].astype(float)
        model.term("overload", self._none, cost, sense="min")
        model.term("remote_reads", self._none, gib[free], sense="min")

    def _replicas(self) -> None:
        problem, model, neighbourhood = self._problem, self.model, self._free
        may = neighbourhood.holds & neighbourhood.dataset_classes[:, None]
        self._where = np.nonzero(may)
        p, r = self._where
        self._x = np.full(may.shape, -1, dtype=np.int64)
        self._x[self._where] = model.variables(
            "replicas", len(p), lower=problem.fixed[p, r].astype(float), upper=1.0
        )
        x, size = self._x[self._where], problem.size[p].astype(float)
        some = np.flatnonzero(neighbourhood.dataset_classes & problem.current.any(axis=1))
        rows = np.full(problem.dataset_classes, -1, dtype=np.int64)
        rows[some] = model.rows("kept", len(some), lower=1.0)
        model.add(rows[p], x, 1.0)
        held = problem.current.T.astype(np.int64) @ problem.size
        fixed = self._solution.replicas & ~neighbourhood.dataset_classes[:, None]
        residual = np.maximum(problem.storage, held) - fixed.T.astype(np.int64) @ problem.size
        limited = np.flatnonzero(problem.storage < UNLIMITED)
        rows = np.full(problem.regions, -1, dtype=np.int64)
        rows[limited] = model.rows("storage", len(limited), upper=residual[limited].astype(float))
        here = rows[r] >= 0
        model.add(rows[r[here]], x[here], size[here])
        arrived = (fixed & ~problem.current).T.astype(np.int64) @ problem.size
        rows = model.rows(
            "incoming", problem.regions, upper=(problem.incoming - arrived).astype(float)
        )
        new = ~problem.current[p, r]
        model.add(rows[r[new]], x[new], size[new])
        model.term("copies", x[new], size[new], sense="min", constant=float(arrived.sum()))

    def _reads(self) -> None:
        """Add the rows of local and remote reads, and the term `remote_reads`."""
        problem, neighbourhood, fixed = self._problem, self._free, self._solution
        w, p = problem.read_class, problem.read_dataset_class
        there = fixed.jobs.sum(axis=2)
        free = neighbourhood.job_classes[w]
        settled = ~free & ~neighbourhood.dataset_classes[p]
        near = np.where(fixed.replicas[p[settled]], there[w[settled]], 0).sum(axis=1)
        rest = (problem.count[w[settled]] - near) * problem.read_gib[settled]
        lost = (problem.count - there.sum(axis=1))[w] * problem.read_gib
        lost = lost[~free & ~settled].sum() + rest.sum()
        self.model.term("remote_reads", [], [], sense="min", constant=float(lost))
        # A free job class sends at most all its jobs to a region, a fixed one those that it has.
        most = np.where(
            free[:, None],
            np.where(np.sum(neighbourhood.homes, axis=2)[w], problem.count[w, None], 0),
            there[w],
        )
        sure: Bools = fixed.replicas[p] & ~neighbourhood.dataset_classes[p, None]
        i, r = np.nonzero((most > 0) & np.logical_not(settled)[:, None] & ~sure)
        rows = self._add_local_reads(self._read_rows("local", i, r, most), i, r, most)
        may = ~(problem.may_hold[p[i], r] & free[i] & neighbourhood.least_reads)
        far = problem.read_remote[i] & may
        gib = problem.read_gib[i[far]].astype(float)
        away = self.model.variables("away", len(gib), upper=most[i, r][far], integer=False)
        self.model.add(rows[far], away, -1.0)
        self.model.term("remote_reads", away, gib, sense="min")
        # Where every place of a replica has a link to the region, one replica is enough.
        i, r = i[far], r[far]
        tree: Bools = np.where(
            neighbourhood.dataset_classes[p, None], neighbourhood.holds[p], fixed.replicas[p]
        )
        short = (tree[i] & ~problem.linked.T[r]).any(axis=1)
        short &= np.logical_not((sure[i] & problem.linked.T[r]).any(axis=1))
        i, r = i[short], r[short]
        rows = self._add_local_reads(self._read_rows("linked", i, r, most), i, r, most)
        for s in range(problem.regions):
            x = self._x[p[i], s]
            on = problem.linked[s, r] & (x >= 0)
            self.model.add(rows[on], x[on], -most[i[on], r[on]])

    def _read_rows(self, name: str, i: Ints, r: Ints, most: Ints) -> Ints:
        """Append rows n - ... <= 0, less the jobs that are fixed."""
        free = self._free.job_classes[self._problem.read_class[i]]
        return self.model.rows(name, len(i), upper=np.where(free, 0, -most[i, r]).astype(float))

    def _add_local_reads(self, rows: Ints, i: Ints, r: Ints, most: Ints) -> Ints:
        """Add n - most * x to rows of reads and regions, where these are free."""
        w, p = self._problem.read_class[i], self._problem.read_dataset_class[i]
        number, x = self._number[w, r], self._x[p, r]
        for m in range(number.shape[1]):
            on = number[:, m] >= 0
            self.model.add(rows[on], number[on, m], 1.0)
        on = x >= 0
        self.model.add(rows[on], x[on], -most[i[on], r[on]])
        return rows

    def _overload(self) -> None:
        """Add the term `overload`: demand beyond supply, piecewise linear in units of demand."""
        problem, model = self._problem, self.model
        unit = demand_unit(problem.demand)
        rest = np.where(self._free.job_classes[:, None, None], 0, self._solution.jobs)
        fixed = np.tensordot(problem.demand // unit, rest, axes=1)
        least = self._least
        upper = problem.supply // unit if least is None else least.upper
        lower = np.full(upper.shape, -np.inf) if least is None else least.lower
        limits = {"lower": (lower - fixed).ravel(), "upper": (upper - fixed).ravel()}
        row = model.rows("fits", upper.size, **limits).reshape(upper.shape)
        w, r, m = self._at
        model.add(row[r, m], self._n, problem.demand[w] // unit)
        if least is not None:
            model.term("overload", [], [], sense="min", constant=float(least.overload))
            return
        length, cost = overload_pieces(
            problem.supply, unit, int(problem.count @ problem.demand) // unit
        )
        piece, r, m = np.nonzero(length * cost)
        over = model.variables("over", len(r), upper=length[piece, r, m], integer=False)
        model.add(row[r, m], over, -1.0)
        model.term("overload", over, cost[piece, r, m], sense="min")

    def _imbalance(self) -> None:
        problem, model = self._problem, self.model
        limited = np.flatnonzero(problem.storage < UNLIMITED)
        beyond = model.variables("beyond", len(limited))
        model.term("imbalance", beyond, 1.0, sense="min")
        neighbourhood = problem.storage[limited] / max(1.0, float(problem.storage[limited].sum()))
        fixed = (self._solution.replicas & ~self._free.dataset_classes[:, None]).T.astype(
            np.int64
        ) @ problem.size
        rows = model.rows(
            "beyond", len(limited), upper=neighbourhood * fixed[limited].sum() - fixed[limited]
        )
        model.add(rows, beyond, -1.0)
        p, r = self._where
        here = np.isin(r, limited)
        p, r, x = p[here], r[here], self._x[self._where][here]
        for k, region in enumerate(limited.tolist()):
            weight = np.where(r == region, 1.0, 0.0) - neighbourhood[k]
            model.add(rows[k], x, weight * problem.size[p])

    def _hottest(self) -> None:
        problem, model = self._problem, self.model
        supply = problem.supply.sum(axis=1)
        supply = np.where(supply == 0, WHOLE_GPU, supply).astype(float)
        rest = np.where(self._free.job_classes[:, None, None], 0, self._solution.jobs)
        fixed = np.tensordot(problem.demand, rest, axes=1).sum(axis=1)
        most = model.variables("hottest", 1)
        model.term("hottest", most, 1.0, sense="min")
        rows = model.rows("hottest", problem.regions, upper=-1000.0 * fixed / supply)
        model.add(rows, most, -1.0)
        w, r, _ = self._at
        model.add(rows[r], self._n, 1000.0 * problem.demand[w] / supply[r])
