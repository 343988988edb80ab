"""Master LP: which alternatives to choose, with demand-bound rows as cutting planes.

    max  sum_w value[w] S[w]
    s.t. sum over the alternatives of a job  <= 1, = 1 where it must have a promise
         sum_w f[w] forced(w, A) S[w]        <= capacity_f(A)   rows of `demand_bound`, separated
         sum_w kept[w] S[w]                  >= min_kept        value of promises kept, if given
         0 <= S <= 1

Any subset of the rows gives a bound, so rows are added only where a choice violates them. Few bind
at an optimum, so few alternatives are fractional: at most one more than there are binding rows. At
duals y >= 0 of the rows each job takes its alternative of best reduced cost, or none,

    sum_w value[w] S[w]  <=  y capacity + sum_j max(0, max over w of j of value[w] - y A[w])

which is a Lagrangian bound whatever y is, exact in integers once y is rounded. It also gives each
job's regret: what any other choice of the job loses. So later passes solve for the jobs of least
regret only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.bound_arithmetic import near
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models.demand_bound import DemandRow, DemandRows, new_rows
from placewright.formulations.deadline.problem.problem import NONE
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model
from placewright.solver.lagrangian import overflow_safe_scale, round_to_integers


@dataclass(frozen=True, slots=True, eq=False)
class MasterObjective:
    """The value of a choice, and how much of the promises it must keep: `kept` of `min_kept`."""

    value: Ints
    kept: Ints
    min_kept: int


@dataclass(frozen=True, slots=True, eq=False)
class LagrangianBound:
    """The Lagrangian bound at duals of the rows, and the regret of each job.

    Attributes
    ----------
    value
        The bound.
    bound
        The bound rounded down, certified in integers.
    best
        (jobs,): the alternative of best reduced cost of each job, or `NONE`.
    regret
        (jobs,): what a choice loses of `value` at least if the job does anything else.
    """

    value: float
    bound: int
    best: Ints
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

    Parameters
    ----------
    allowed
        (alternatives,): which alternatives may be chosen.
    must
        (jobs,): which jobs must have one of them.
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
