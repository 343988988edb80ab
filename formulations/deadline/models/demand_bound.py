"""The demand-bound program: leases that promises force into a set of leases must fit there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import gcd
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.problem import NONE, Problem, demand_classes_of
from placewright.formulations.plan_messages import near
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model
from placewright.solver.certify import overflow_safe_scale, round_to_integers

Marks: TypeAlias = tuple[Ints, Ints, Floats]
"""Amounts at some rows and columns of a grid."""


def grid_rows(size: int, rows: Ints, *, vertical: list[Marks], diagonal: list[Marks]) -> Floats:
    """Return some rows of a grid, ascending, as prefix sums along each row.

    What is marked stands in its row and in all rows below: in the same column, or slanted, a column
    further in each. Row by row, for the whole grid would be as large as the square of its size.
    """
    each = [(_group_by_row(vertical), np.zeros(size)), (_group_by_row(diagonal), np.zeros(size))]
    sums, last = np.empty((len(rows), size)), -1
    for number, row in enumerate(rows.tolist()):
        for at in range(last + 1, row + 1):
            each[1][1][1:] = each[1][1][:-1].copy()
            each[1][1][0] = 0.0
            for marks, line in each:
                if at in marks:
                    np.add.at(line, *marks[at])
        last = row
        np.cumsum(each[0][1] + each[1][1], out=sums[number])
    return sums


def _group_by_row(marks: list[Marks]) -> dict[int, tuple[Ints, Floats]]:
    """Return columns and amounts of the marks by their row."""
    row, column, amount = (np.concatenate([mark[i] for mark in marks]) for i in range(3))
    if not len(row):
        return {}
    order = np.argsort(row, kind="stable")
    rows, begin = np.unique(row[order], return_index=True)
    parts = np.split(order, begin[1:])
    return {at: (column[part], amount[part]) for at, part in zip(rows.tolist(), parts, strict=True)}


# Demand-bound rows: the leases that promises force into a set of leases must fit there.
#
# An alternative w needs n[w] leases of those that it can use, u[w] in all. Of a set A of leases it
# cannot avoid
#
#     forced(w, A) = max(0, n[w] - (leases outside A that it can use))
#
# and for every load f, with a weight f[w] per alternative and a capacity per lease,
#
#     sum_w f[w] forced(w, A) S[w]  <=  sum_{t in A} capacity_f[t]
#
# holds for every schedule, with S[w] = 1 for the alternatives that are chosen. With f the GPUs that
# alternatives ask, and every A, these rows describe the fluid relaxation (leases shared in
# fractions), by max-flow min-cut; for a common first lease and capacity that never falls A = [0, T)
# is enough, for every T.
#
# Leases cannot be shared in fractions, so more loads are valid. Of gangs of at least s GPUs a
# lease of C GPUs holds floor(C / s), one of g GPUs counts floor(g / s) times; and capacity is
# rounded down to a sum of gang sizes.
#
# References
# ----------
# Baruah, Mok and Rosier, "Preemptively scheduling hard-real-time sporadic tasks on one
# processor", RTSS'90 (the demand-bound test); Horn, "Some simple scheduling algorithms", Naval
# Research Logistics 21, 1974 (flows); Fekete and Schepers, "New classes of fast lower bounds for
# bin packing problems", Mathematical Programming 91, 2001 (dual feasible functions, of which
# floor(g / s) is one).


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A load: weights of alternatives (alternatives,), capacity of leases (horizon,); integers.

    `size` is that of the gangs that it counts, 0 if it counts GPUs.
    """

    weight: Ints
    capacity: Ints
    size: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DemandRow:
    """The demand-bound row of a load, by its index, and a set of leases (horizon,)."""

    load: int
    leases: Bools


def loads_of(problem: Problem) -> tuple[Load, ...]:
    """Return the loads of a problem: of each capacity row its GPUs, and its gangs of each size.

    A size adds nothing, and is left out, where the capacity of every lease is a multiple of it. The
    last sizes of too many are left out, too.
    """
    loads: list[Load] = []
    most = parameters.PARAMETERS.max_bound_cells // max(1, problem.alternatives) - len(
        problem.capacity
    )
    for demand, capacity in zip(problem.demand.T, problem.capacity, strict=True):
        sizes = np.unique(demand[demand > 0])
        if not len(sizes):
            continue
        unit = gcd(*sizes.tolist())
        units, reachable = demand // unit, _reachable_sums(sizes // unit, capacity // unit)
        loads.append(Load(units, reachable))
        counts = [size for size in sizes[1:] // unit if (reachable % size).any()][: max(0, most)]
        loads += [Load(units // size, reachable // size, int(size)) for size in counts]
        most -= len(counts)
    return tuple(loads)


def _reachable_sums(sizes: Ints, capacity: Ints) -> Ints:
    """Return the largest sum of sizes within each capacity (subset sums with repetition)."""
    most = int(capacity.max(initial=0))
    if sizes[0] == 1 or most > parameters.PARAMETERS.max_subset_sum_units:
        return capacity
    exists = np.zeros(most + 1, dtype=np.bool_)
    exists[0] = True
    for size in sizes.tolist():
        # Doubling: after the sums of k times this size come those of up to 2k times.
        step = size
        while step <= most:
            exists[step:] |= exists[:-step].copy()
            step *= 2
    last: Ints = np.maximum.accumulate(np.where(exists, np.arange(most + 1), 0))
    reachable: Ints = last[capacity]
    return reachable


class DemandRows:
    """Demand-bound rows of a problem: coefficients, right-hand sides, separation.

    `problem`: each of its alternatives can run alone (`feasible_alone`).
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.loads = loads_of(problem)
        usable, self._class_of = usable_leases(problem)
        self._before = _prefix_counts(usable)
        self._usable = usable
        self._total = self._usable_in_window(self._before)

    def _usable_in_window(self, counts: Ints) -> Ints:
        problem, class_of = self.problem, self._class_of
        count: Ints = counts[class_of, problem.end] - counts[class_of, problem.first]
        return count

    def forced_leases(self, leases: Bools) -> Ints:
        """Return how many leases of a set each alternative cannot avoid (alternatives,)."""
        inside = self._usable_in_window(_prefix_counts(self._usable & leases))
        forced_leases: Ints = np.maximum(0, self.problem.need - self._total + inside)
        return forced_leases

    def coefficients(self, row: DemandRow) -> Ints:
        """Return the coefficients of a row (alternatives,)."""
        coefficients: Ints = self.loads[row.load].weight * self.forced_leases(row.leases)
        return coefficients

    def capacity(self, row: DemandRow) -> int:
        """Return the right-hand side of a row."""
        return int(self.loads[row.load].capacity[row.leases].sum())

    @cached_property
    def window_starts(self) -> Ints:
        """First leases of the windows: 0, first leases of alternatives, falls of capacity.

        Capacity that falls makes all later parts of a window scarce, so then every lease at which
        it has fallen is one. Of too many only some are.
        """
        fallen = np.flatnonzero((np.diff(self.problem.capacity, axis=1) < 0).any(axis=0)) + 1
        window_starts: Ints = np.unique(np.concatenate([[0], self.problem.first, fallen]))
        most = max(1, parameters.PARAMETERS.max_window_cells // self.problem.horizon)
        if len(window_starts) > most:
            window_starts = window_starts[
                np.linspace(0, len(window_starts) - 1, most).astype(np.int64)
            ]
        return window_starts

    def prefix_rows(self, number: int) -> Iterator[DemandRow]:
        """Yield rows of evenly spaced prefixes of the horizon, of all loads that count GPUs."""
        horizon = self.problem.horizon
        for end in np.unique(np.linspace(0, horizon, number + 1).astype(np.int64))[1:]:
            for at, load in enumerate(self.loads):
                if not load.size:
                    yield DemandRow(at, window(horizon, 0, int(end)))

    def violated(self, chosen: Floats, tolerance: float = 1e-6) -> Iterator[DemandRow]:
        """Separation: yield the window rows that a choice violates most.

        `chosen` (alternatives,): between 0 and 1. `tolerance`: excess that counts, relative to the
        capacity.
        """
        horizon = self.problem.horizon
        active = np.flatnonzero(chosen > 0)
        before = np.arange(horizon) < self.window_starts[:, None]
        for k, load in enumerate(self.loads):
            work = self._late_work(active, load.weight[active] * chosen[active])
            held = np.append(0, np.cumsum(load.capacity))
            capacity = held[1:] - held[self.window_starts, None]
            excess = work - capacity - tolerance * (capacity + 1)
            excess[before] = -np.inf
            # The last of those that are broken alike: it says most about what comes later.
            here = excess > 0
            here[:, 1:] &= excess[:, 1:] > excess[:, :-1]
            here[:, :-1] &= excess[:, :-1] >= excess[:, 1:]
            for start, end in zip(*np.nonzero(here), strict=True):
                yield DemandRow(k, window(horizon, int(self.window_starts[start]), int(end) + 1))

    def _late_work(self, alternatives: Ints, weight: Floats) -> Floats:
        """Return the work from each start to each lease's end, all as late as possible.

        (starts, horizon). Times are counted in leases that the demand class can use. An alternative
        that needs n leases from `first` to `end` runs from end - n on; of what begins at a start
        later than `first` it has run the more before, the later that start is, until nothing is
        left.
        """
        problem, class_of = self.problem, self._class_of[alternatives]
        work = np.zeros((len(self.window_starts), problem.horizon))
        patterns, pattern = np.unique(self._usable, axis=0, return_inverse=True)
        for one, usable in enumerate(patterns):
            mine = pattern.reshape(-1)[class_of] == one
            count = np.append(0, np.cumsum(usable))
            first = count[problem.first[alternatives[mine]]]
            end = count[problem.end[alternatives[mine]]]
            need, heavy = problem.need[alternatives[mine]], weight[mine]
            begin, done, zero = end - need, first + need, np.zeros_like(need)
            runs = grid_rows(
                int(count[-1]) + 2,
                count[self.window_starts],
                vertical=[
                    (zero, begin, heavy),
                    (first + 1, begin, -heavy),
                    (zero, end, -heavy),
                    (done, end, heavy),
                ],
                diagonal=[(first + 1, begin + 1, heavy), (done, end, -heavy)],
            )
            work += runs[:, count[:-1]] * usable
        running: Floats = np.cumsum(work, axis=1)
        return running


def by_demand_class(problem: Problem) -> Iterator[tuple[Ints, Bools]]:
    """Yield the alternatives of each demand class, and the leases that hold it (horizon,)."""
    classes, class_of = demand_classes_of(problem.demand)
    order = np.argsort(class_of, kind="stable")
    ends = np.cumsum(np.bincount(class_of, minlength=len(classes))).tolist()
    for demand, first, end in zip(classes, [0, *ends], ends, strict=False):
        yield order[first:end], (demand[:, None] <= problem.capacity).all(axis=0)


def usable_leases(problem: Problem) -> tuple[Bools, Ints]:
    """Return the leases that hold each demand class (classes, horizon), and each one's class."""
    usable, class_of = list[Bools](), np.zeros(problem.alternatives, dtype=np.int64)
    for alternatives, leases in by_demand_class(problem):
        class_of[alternatives] = len(usable)
        usable.append(leases)
    return np.array(usable, dtype=np.bool_).reshape(len(usable), problem.horizon), class_of


def fits_in_memory(problem: Problem) -> bool:
    """Whether the rows of a problem fit in the memory allowed for them."""
    classes, _ = demand_classes_of(problem.demand)
    cells = (len(classes) * problem.horizon, problem.alternatives * len(problem.capacity))
    return max(cells) <= parameters.PARAMETERS.max_bound_cells


def usable_in_window(problem: Problem) -> Ints:
    """Return how many leases of its window hold each alternative (alternatives,)."""
    number = np.zeros(problem.alternatives, dtype=np.int64)
    for alternatives, leases in by_demand_class(problem):
        before = np.append(0, np.cumsum(leases))
        number[alternatives] = (
            before[problem.end[alternatives]] - before[problem.first[alternatives]]
        )
    return number


def feasible_alone(problem: Problem) -> Bools:
    """Return which alternatives have enough leases of sufficient capacity (alternatives,)."""
    enough: Bools = usable_in_window(problem) >= problem.need
    return enough & (problem.end > problem.first)


def window(horizon: int, start: int, end: int) -> Bools:
    """Return the leases from `start` to before `end` as a set (horizon,)."""
    leases = np.zeros(horizon, dtype=np.bool_)
    leases[start:end] = True
    return leases


def new_rows(rows: Iterable[DemandRow], known: set[tuple[int, bytes]]) -> list[DemandRow]:
    """Return the rows that are not in `known`, and add them to it."""
    new = []
    for row in rows:
        key = row.load, np.packbits(row.leases).tobytes()
        if key not in known:
            known.add(key)
            new.append(row)
    return new


def _prefix_counts(leases: Bools) -> Ints:
    """Return the number of leases of each set before each time (sets, horizon + 1)."""
    counts = np.zeros((leases.shape[0], leases.shape[1] + 1), dtype=np.int64)
    np.cumsum(leases, axis=1, out=counts[:, 1:])
    return counts


# Master LP: which alternatives to choose, with demand-bound rows as cutting planes.
#
#     max  sum_w value[w] S[w]
#     s.t. sum over the alternatives of a job  <= 1, = 1 where it must have a promise
#          sum_w f[w] forced(w, A) S[w]        <= capacity_f(A)   rows of `demand_bound`, separated
#          sum_w kept[w] S[w]                  >= min_kept        value of promises kept, if given
#          0 <= S <= 1
#
# Any subset of the rows gives a bound, so rows are added only where a choice violates them. Few
# bind at an optimum, so few alternatives are fractional: at most one more than there are binding
# rows. At duals y >= 0 of the rows each job takes its alternative of best reduced cost, or none,
#
#     sum_w value[w] S[w]  <=  y capacity + sum_j max(0, max over w of j of value[w] - y A[w])
#
# which is a Lagrangian bound whatever y is, exact in integers once y is rounded. It also gives each
# job's regret: what any other choice of the job loses. So later passes solve for the jobs of least
# regret only.


@dataclass(frozen=True, slots=True, eq=False)
class MasterObjective:
    """The value of a choice, and how much of the promises it must keep: `kept` of `min_kept`."""

    value: Ints
    kept: Ints
    min_kept: int


@dataclass(frozen=True, slots=True, eq=False)
class LagrangianBound:
    """The Lagrangian bound at duals of the rows, and the regret of each job."""

    value: float  # The bound
    bound: int  # The bound rounded down, certified in integers
    best: Ints  # (jobs,): the alternative of best reduced cost of each job, or `NONE`
    # (jobs,): what a choice loses of `value` at least if the job does anything else.
    regret: Floats

    def core(self, jobs: int, include: Bools) -> tuple[Bools, float]:
        """Return the core (jobs,): the jobs of least regret, and those to `include`.

        Also return the least regret of all others.
        """
        if jobs >= len(self.regret):
            return np.ones_like(include), np.inf
        core: Bools = (self.regret <= np.partition(self.regret, jobs)[jobs]) | include
        return core, float(self.regret[~core].min(initial=np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class RestrictedMaster:
    """The master over some alternatives, with others fixed, as an integer program."""

    alternatives: Ints
    chosen: Ints
    arrays: Arrays

    def extend(self, values: Floats, number: int) -> Floats:
        """Return values of the restricted master as a choice of all alternatives (number,)."""
        selection = np.zeros(number)
        selection[self.chosen] = 1.0
        selection[self.alternatives] = values
        return selection


@dataclass(frozen=True, slots=True, eq=False)
class MasterSolution:
    """An LP optimum over the rows separated so far (alternatives,), and its Lagrangian bound."""

    chosen: Floats
    dual: LagrangianBound


class MasterLp:
    """The master LP of a problem, solved by cutting planes.

    `allowed` (alternatives,): which alternatives may be chosen. `must` (jobs,): which jobs must
    have one of them.
    """

    def __init__(
        self, demands: DemandRows, allowed: Bools, must: Bools, objective: MasterObjective
    ) -> None:
        self.demands, self.allowed, self.must, self.objective = demands, allowed, must, objective
        self.problem = demands.problem
        self._known_rows: set[tuple[int, bytes]] = set()
        self._coefficients = np.zeros((0, self.problem.alternatives), dtype=np.int64)
        self._limits = np.zeros(0, dtype=np.int64)
        cells = self.problem.alternatives * max(1, len(self.problem.capacity))
        self.add_rows(
            demands.prefix_rows(
                max(
                    1,
                    min(
                        parameters.PARAMETERS.num_first_prefixes,
                        parameters.PARAMETERS.max_first_row_cells // max(1, cells),
                    ),
                )
            )
        )

    def add_rows(self, rows: Iterable[DemandRow]) -> bool:
        """Add rows; return whether one of them is new."""
        # Too many rows would take too much memory, and a bound holds without any of them.
        most = parameters.PARAMETERS.max_bound_cells // max(1, self.problem.alternatives) - len(
            self._limits
        )
        new = new_rows(islice(rows, max(0, most)), self._known_rows)
        if new:
            more = [self.demands.coefficients(row) * self.allowed for row in new]
            self._coefficients = np.vstack([self._coefficients, *more])
            limits = [self.demands.capacity(row) for row in new]
            self._limits = np.append(self._limits, np.array(limits, dtype=np.int64))
        return bool(new)

    def full(self) -> RestrictedMaster:
        """Return the master over all allowed alternatives."""
        none = np.full(self.problem.jobs, NONE, dtype=np.int64)
        return self.restrict(none, np.ones(self.problem.jobs, dtype=np.bool_))

    def restrict(self, best: Ints, core: Bools) -> RestrictedMaster:
        """Return the master over a core (jobs,); all other jobs keep their best alternative."""
        problem, objective = self.problem, self.objective
        alternatives = np.flatnonzero(self.allowed & core[problem.job])
        chosen = best[~core & (best != NONE)]
        model = Model()
        columns = model.variables("alternative", len(alternatives), upper=1.0)
        limits = self._limits - self._coefficients[:, chosen].sum(axis=1)
        demand = model.rows("demand", len(limits), upper=limits)
        coefficients = self._coefficients[:, alternatives]
        row, alternative = np.nonzero(coefficients)
        model.add(demand[row], columns[alternative], coefficients[row, alternative])
        if objective.min_kept:
            kept = model.rows("kept", 1, lower=objective.min_kept - objective.kept[chosen].sum())
            model.add(kept, columns, objective.kept[alternatives])
        jobs, at = np.unique(problem.job[alternatives], return_inverse=True)
        least = np.where(self.must[jobs], 1.0, -np.inf)
        model.add(model.rows("job", len(jobs), lower=least, upper=1.0)[at], columns, 1.0)
        constant = float(objective.value[chosen].sum())
        model.term("value", columns, objective.value[alternatives], sense="max", constant=constant)
        return RestrictedMaster(alternatives, chosen, model.arrays("value"))

    def solve(self, session: Session) -> MasterSolution | None:
        """Solve the LP with all rows it violates; None if there is no time, or no solution."""
        if not self.allowed.any():
            return MasterSolution(
                np.zeros(self.problem.alternatives),
                self.lagrangian_bound(np.zeros(len(self._limits) + 1)),
            )
        found: MasterSolution | None = None
        restricted, full = self.full(), True
        for _ in range(parameters.PARAMETERS.max_cutting_plane_passes):
            continuous = replace(
                restricted.arrays, integer=np.zeros(len(restricted.alternatives), dtype=np.bool_)
            )
            outcome = session.optimise(continuous)
            tight = False
            if outcome is not None and outcome.values is not None:
                if outcome.row_duals is None:
                    break
                chosen = restricted.extend(outcome.values, self.problem.alternatives)
                dual = self.lagrangian_bound(outcome.row_duals)
                tight = near(
                    dual.value,
                    float(self.objective.value @ chosen),
                    parameters.PARAMETERS.lp_agreement_rel,
                )
                found = MasterSolution(chosen, dual)
            elif full:
                break
            if tight and found is not None:
                rows = self.demands.violated(found.chosen)
                if not self.add_rows(rows):
                    break
                none_included = np.zeros(self.problem.jobs, dtype=np.bool_)
                restricted = self.restrict(
                    found.dual.best,
                    found.dual.core(parameters.PARAMETERS.num_core_jobs_of_pass, none_included)[0],
                )
                full = False
            elif full:
                break
            else:
                # Fixed jobs would choose another alternative by now.
                restricted, full = self.full(), True
        return found

    def lagrangian_bound(self, duals: Floats) -> LagrangianBound:
        """Return the Lagrangian bound at a solver's duals (rows,), in integers."""
        problem, objective, rows = self.problem, self.objective, len(self._limits)
        prices = np.maximum(0.0, duals[:rows])
        kept_price = max(0.0, -float(duals[rows])) if objective.min_kept else 0.0
        largest = objective.value + kept_price * objective.kept + prices @ self._coefficients
        sums = prices @ self._limits + kept_price * objective.min_kept + largest.sum() + 1.0
        scale = overflow_safe_scale(float(sums))
        integer_prices: Ints = round_to_integers(prices * scale, np.int64)
        kept = round(kept_price * scale)
        reduced_cost = (
            objective.value * scale + kept * objective.kept - integer_prices @ self._coefficients
        )
        best, most = self._best_alternatives(reduced_cost)
        total = int(integer_prices @ self._limits) - kept * objective.min_kept + int(most.sum())
        lost = np.where(self.allowed, most[problem.job] - reduced_cost, np.inf)
        lost[best[best != NONE]] = np.inf
        other = np.where(self.must | (best == NONE), np.inf, most)
        np.minimum.at(other, problem.job, lost)
        return LagrangianBound(total / scale, total // scale, best, other / scale)

    def _best_alternatives(self, reduced_cost: Ints) -> tuple[Ints, Ints]:
        """Return each job's alternative of best reduced cost, or `NONE`, and that cost (jobs,)."""
        problem = self.problem
        alternatives = np.flatnonzero(self.allowed)
        alternatives = alternatives[
            np.lexsort((reduced_cost[alternatives], problem.job[alternatives]))
        ]
        best = np.full(problem.jobs, NONE, dtype=np.int64)
        # The last of each job is left.
        best[problem.job[alternatives]] = alternatives
        most = np.where(best == NONE, 0, np.append(reduced_cost, 0)[best])
        refused = (most <= 0) & ~self.must
        best[refused] = NONE
        most[refused] = 0
        return best, most
