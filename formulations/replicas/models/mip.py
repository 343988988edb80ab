"""The exact MIPs of replica placement: of a neighbourhood, of all terms, of the relaxation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED
from placewright.formulations.plan_messages import HOLD_SLACK, Bound, proven_whole
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.relaxation import (
    Relaxation,
    RelaxationResult,
    build_relaxation,
)
from placewright.formulations.replicas.problem.compile import AggregateProblem
from placewright.formulations.replicas.problem.problem import (
    HOMELESS,
    LeastOverload,
    Problem,
    Solution,
    demand_unit,
    overload_pieces,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model, Status
from placewright.topology.units import WHOLE_GPU

# The relaxation with integer replicas, as a MIP with branching priorities and a cutoff.
#
#     y[p] in {0, 1}     whether dataset p is copied at all:   x[p,r] <= y[p] <= sum_r x[p,r]
#
# over copies. The LP copies most datasets in fractions to several regions; whether there is a
# copy at all is a disjunction over many columns, and most of the bound depends on it for the
# largest datasets. So y has branching priorities by size.
#
# With an objective cutoff at the value of a plan less an acceptable gap, nodes beyond it are
# pruned, so the tree is far smaller than one that proves the optimum.


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """A restriction of the MIP."""

    free: Bools  # (datasets, regions): copies that may be made or not
    copied: Bools  # (datasets, regions): copies that are fixed to be made; all others are not
    integer: Bools  # (datasets,): whose replicas are integer


@dataclass(frozen=True, slots=True, eq=False)
class IntegerProgram:
    """A relaxation with the columns y."""

    relaxation: Relaxation
    copied: Ints  # (datasets,): the columns y, -1 where a dataset cannot be copied

    @classmethod
    def of(cls, aggregate: AggregateProblem) -> Self:
        """Return the MIP of an aggregate problem."""
        relaxation = build_relaxation(aggregate)
        model = relaxation.model
        some = np.flatnonzero(aggregate.copyable.any(axis=1))
        copied = np.full(len(aggregate.has_replica), -1, dtype=np.int64)
        copied[some] = model.variables("copied", len(some), upper=1.0)
        p, r = np.nonzero(aggregate.copyable)
        rows = model.rows("copies", len(p), upper=0.0)
        model.add(rows, relaxation.replica[p, r], 1.0)
        model.add(rows, copied[p], -1.0)
        rows = np.full(len(copied), -1, dtype=np.int64)
        rows[some] = model.rows("uncopied", len(some), lower=0.0)
        model.add(rows[p], relaxation.replica[p, r], 1.0)
        model.add(rows[some], copied[some], -1.0)
        return cls(relaxation, copied)

    def arrays(
        self,
        term: str,
        holds: Mapping[str, int],
        choice: Restriction | None = None,
        numbers: Floats | None = None,
    ) -> Arrays:
        """Return the arrays; all copies are free and integer if no choice is given.

        Current replicas may be dropped in part.
        `numbers` (datasets,): copies of each in the relaxation; fractional ones are branched on
        first.
        """
        tuning = parameters.PARAMETERS
        relaxation, aggregate = self.relaxation, self.relaxation.aggregate
        arrays = relaxation.arrays(term, holds, relax=False)
        order = np.zeros(arrays.columns, dtype=np.int64)
        size = aggregate.wan.size
        p, r = np.nonzero(aggregate.copyable)
        order[relaxation.replica[p, r]] = size[p]
        some = np.flatnonzero(self.copied >= 0)
        order[self.copied[some]] = size[some]
        if numbers is not None:
            is_fractional = np.abs(numbers - np.rint(numbers)) > tuning.number_fractionality
            order[self.copied[is_fractional & (self.copied >= 0)]] *= tuning.number_priority_factor
        lower, upper, integer = arrays.lower.copy(), arrays.upper.copy(), arrays.integer.copy()
        integer[relaxation.replica[aggregate.present]] = False
        if choice is not None:
            settled = aggregate.copyable & ~choice.free
            columns = relaxation.replica[settled]
            lower[columns] = upper[columns] = choice.copied[settled]
            integer[relaxation.replica[aggregate.copyable & ~choice.integer[:, None]]] = False
            integer[self.copied[some[~choice.integer[some]]]] = False
        return replace(arrays, priority=order, lower=lower, upper=upper, integer=integer)


def promising_copies(
    relaxation: Relaxation, arrays: Arrays, found: RelaxationResult, share: float
) -> Bools:
    """Return the copies (datasets, regions) that a relaxation has in part, or almost.

    Almost: one more would cost less than this share of its size.
    """
    aggregate = relaxation.aggregate
    extra_cost = relaxation.replicas(arrays.reduced_costs(-found.prices))
    worth: Bools = aggregate.copyable & (extra_cost < share * aggregate.wan.size[:, None])
    if found.point is not None:
        worth |= aggregate.copyable & (
            relaxation.replicas(found.point) > parameters.PARAMETERS.fraction_tolerance
        )
    return worth


# The exact MIP of a neighbourhood; the rest of a solution is fixed.
#
# With n[w,r,m] jobs of class w in region r on GPU model m, d[w] of its jobs without a home, and
# x[p,r] in {0, 1} where dataset class p has a replica after the plan:
#
#     sum_{r,m} n[w,r,m] + d[w] = count_w
#     sum_r x[p,r] >= 1                                      for a dataset class with a replica now
#     sum_m n[w,r,m] - q[w,p,r] <= count_w x[p,r]           for each read; q = 0 if it must be local
#     sum_m n[w,r,m] <= count_w (x[p,r] + sum of x[p,s] over regions s with a link to r)
#     sum_p size_p x[p,r] <= storage_r                       or what is there now, if that is more
#     sum_p size_p x[p,r] over new replicas <= budgets of all links into r
#     D - sum_k over[k,r,m] <= S                             D = sum_w demand_w n[w,r,m]
#
# or, where overload is held at its minimum, the bounds on D of `problem/problem.py`.
#
# All five terms are linear, `imbalance` and `hottest` with integer variables for their rounding. It
# is a relaxation only of transfers: which links copies use, and when.


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """What is free; all else is fixed at the incumbent."""

    # job_classes, dataset_classes: (job classes,) and (dataset classes,).
    job_classes: Bools
    dataset_classes: Bools
    homes: Bools  # (job classes, regions, models): homes that free job classes may have
    holds: Bools  # (dataset classes, regions): replicas that free dataset classes may have
    # Whether free job classes read remotely only what cannot be in their region.
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
        self._problem = problem
        self._free = neighbourhood
        self._solution = solution
        self._least = least
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


_LAST = ("imbalance", "hottest")
"""Terms that only drops or homes improve, not copies: with them drops are no longer idle."""


def is_small(problem: Problem) -> bool:
    """Whether the MIP of the whole problem is small enough to be solved."""
    cells = int(problem.allowed_homes.sum()) + int(problem.may_hold.sum())
    return (
        cells + len(problem.read_gib) * problem.regions <= parameters.PARAMETERS.exact_max_columns
    )


def solve_lexicographically(
    problem: Problem, session: Session, solution: Solution, refused: Bools
) -> Iterator[Solution | Bound]:
    """Yield the optimum of each term with those before it held, and the solver's bound on it.

    The MIP leaves out transfers: where all copies of the last solution can be scheduled, it is
    optimal. Refused copies (dataset classes, regions) are left out; if there are any, nothing is
    proven.
    """
    terms = problem.terms
    neighbourhood = whole_problem(problem)
    neighbourhood = replace(neighbourhood, holds=neighbourhood.holds & ~refused)
    proving = single(problem) and not refused.any()
    mip = NeighbourhoodMip(problem, neighbourhood, solution, terms)
    holds: list[tuple[str, int]] = []
    share = parameters.PARAMETERS.exact_term_time_share
    for term in terms:
        outcome = session.optimise(mip.model.arrays(term), share=share, gap=0.0)
        if outcome is None:
            return
        if outcome.bound is not None and proving:
            yield Bound(term, proven_whole(outcome.bound), tuple(holds))
        if outcome.values is None:
            return
        solution = mip.solution(outcome.values)
        yield solution if term in _LAST else solution.without_idle_copies(problem)
        if outcome.status is not Status.OPTIMAL:
            return
        value = round(mip.model.value_of(term, outcome.values))
        holds.append((term, value))
        mip.model.hold(term, value, HOLD_SLACK)


def single(problem: Problem) -> bool:
    """Whether each dataset is a class of its own, so that the MIP is exact."""
    return problem.dataset_classes == len(problem.wan.size)
