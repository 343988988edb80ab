"""Lagrangian bounds of `value` and of the read cost, at rounded duals of the assignment LP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo import parameters
from placewright.formulations.geo.models.assignment_lp import (
    AssignmentModel,
    build_assignment_model,
    build_cost_classes,
)
from placewright.formulations.geo.problem.job_classes import JobClasses
from placewright.formulations.plan_messages import HOLD_SLACK, Bound, outward
from placewright.formulations.session import Session
from placewright.solver import SolveOptions
from placewright.solver.certify import SUM_BITS, overflow_safe_scale, round_to_integers

# Lagrangian bounds in integer arithmetic: valid for any prices of the capacity rows.
#
# At prices y >= 0 of the rows and w >= 0 of value the capacity rows are relaxed, and each job takes
# its cheapest assignment on its own (Geoffrion 1974),
#
#     cost of plans of value V  >=  w V - y capacity
#                                   + sum_j min over assignments of j, or none, of
#                                           cost + y usage - w value
#
# where a running job that goes on costs its reads and its use of rows, and a preempted one w times
# its value. With no costs and w = 1 this bounds `value` from above. Prices are rounded to binary
# fractions; all that follows is exact, in Python's integers where 64 bits could overflow.


UNREACHABLE = 2**62
"""Cost of an assignment that does not exist. Larger costs are cut to it: still a lower bound."""

MAX_PRICE = 2.0**62
"""Largest price of a row: larger ones do not improve a bound, and floats may be infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class PricedClasses:
    """Job classes at given prices, scaled to integers.

    `reduced_cost` (classes, regions) is that of the best assignment of a class in a region,
    `UNREACHABLE` without one; `capacity_cost` is the price of all capacity. Arrays are int64 if no
    sum can overflow, otherwise of Python integers.
    """

    classes: JobClasses
    scale: int
    reduced_cost: Ints
    capacity_cost: int
    value_price: int

    def cost_bound(self, costs: Ints, value: int) -> float:
        """Return a lower bound of the cost of plans of at least this value, as a float.

        `costs` (jobs, regions): cost of a job that runs in a region. `value`: value that plans must
        reach.
        """
        classes, problem = self.classes, self.classes.problem
        jobs = np.flatnonzero(classes.class_of_job != NONE)
        job_class = classes.class_of_job[jobs]
        may = problem.eligible[jobs]
        each = np.where(
            may,
            costs[jobs].astype(self.reduced_cost.dtype) * self.scale + self.reduced_cost[job_class],
            UNREACHABLE,
        )
        each[self.reduced_cost[job_class] >= UNREACHABLE] = UNREACHABLE
        best = each.min(axis=1, initial=UNREACHABLE)
        runs = classes.current_region[job_class] != NONE
        stop_cost = self._stop_cost()[job_class]
        best[~runs] = np.minimum(best[~runs], 0)
        # A running job goes on, or is preempted and loses its value.
        stops = runs & classes.preemptible[job_class]
        best[stops] = np.minimum(best[stops], stop_cost[stops])
        pinned = np.flatnonzero((classes.class_of_job == NONE) & (problem.current_region != NONE))
        fixed = int(costs[pinned, problem.current_region[pinned]].sum())
        total = int(best.sum()) - self.capacity_cost + self.value_price * value
        return outward(-(-total // self.scale) + fixed, "min")

    def _stop_cost(self) -> Ints:
        """Return the price of the value lost if a job of a class is preempted (classes,)."""
        classes = self.classes
        stop_cost = np.zeros(len(classes.current_region), dtype=self.reduced_cost.dtype)
        runs = classes.current_region[classes.assignment_class] != NONE
        stop_cost[classes.assignment_class[runs]] = self.value_price * classes.value[runs].astype(
            self.reduced_cost.dtype
        )
        return stop_cost


def price_classes(
    classes: JobClasses, prices: Floats, value_price: float, total_cost: float
) -> PricedClasses:
    """Return the classes at these prices.

    `prices` (rows,): prices of the rows; negative and undefined ones count as 0. `value_price`:
    price of value. `total_cost`: an upper bound of the sum of all costs, which the scale must leave
    room for.
    """
    prices = np.clip(np.nan_to_num(prices), 0.0, MAX_PRICE)
    value_price = min(float(np.nan_to_num(value_price)), MAX_PRICE)
    magnitude = total_cost + _magnitude(classes, prices, value_price)
    scale = overflow_safe_scale(magnitude, SUM_BITS - 1)
    prices, value_price_scaled = np.rint(prices * scale), round(value_price * scale)
    # Prices that were rounded up may be larger than those that the scale was chosen for.
    fits = scale * total_cost + _magnitude(classes, prices, value_price_scaled) < 2.0**SUM_BITS
    number = np.dtype(np.int64 if fits else object)
    scaled_prices = round_to_integers(prices, number)
    assignment_cost = np.zeros(classes.num_assignments, dtype=number)
    np.add.at(
        assignment_cost,
        classes.entry_assignment,
        scaled_prices[classes.entry_row] * classes.entry_usage.astype(number),
    )
    runs = classes.current_region[classes.assignment_class] != NONE
    assignment_cost[~runs] -= value_price_scaled * classes.value[~runs].astype(number)
    reduced_cost = np.full(
        (len(classes.current_region), len(classes.problem.wan.regions)), UNREACHABLE, dtype=number
    )
    np.minimum.at(
        reduced_cost, (classes.assignment_class, classes.assignment_region), assignment_cost
    )
    return PricedClasses(
        classes,
        scale,
        reduced_cost,
        int((scaled_prices * classes.capacity.astype(number)).sum()),
        value_price_scaled,
    )


def _magnitude(classes: JobClasses, prices: Floats, value_price: float) -> float:
    """Return an upper bound of any price and any partial sum, costs aside, up to float rounding.

    All jobs take their most expensive assignment.
    """
    usage_cost = np.zeros(classes.num_assignments)
    np.add.at(
        usage_cost,
        classes.entry_assignment,
        prices[classes.entry_row] * np.abs(classes.entry_usage),
    )
    assignments = float((usage_cost + value_price * classes.value).max(initial=0.0)) * len(
        classes.class_of_job
    )
    value = classes.value.astype(np.float64).sum()
    capacity = float(prices @ (1 + np.abs(classes.capacity)))
    return assignments + capacity + value_price * (1.0 + float(value)) + 1.0


def lagrangian_value_bound(classes: JobClasses, prices: Floats) -> float:
    """Return an upper bound of `value` at these prices of the rows (rows,)."""
    none = np.zeros_like(classes.problem.remote_gib)
    return -price_classes(classes, prices, 1.0, 0.0).cost_bound(none, 0)


COSTS = ("remote_reads", "egress_cost")

UNIT = 1 << 16
"""Most parts of one in which prices of priority classes are whole numbers."""

MAX_WEIGHTED_VALUE = 1 << 60
"""Largest value of an assignment times such a price."""


def solve_value_bound(classes: JobClasses, session: Session) -> float:
    """Return a certified upper bound of `value`, at LP duals or, without an LP, at zero."""
    free = np.zeros_like(classes.problem.remote_gib)
    assignment_model = build_assignment_model(classes, build_cost_classes(classes, free))
    arrays = assignment_model.model.arrays("value", relax=True)
    outcome = session.optimise(
        arrays, share=parameters.PARAMETERS.bound_share, options=SolveOptions(presolve=False)
    )
    if outcome is None or outcome.row_duals is None:
        return lagrangian_value_bound(classes, np.zeros(len(assignment_model.rows)))
    return lagrangian_value_bound(classes, np.abs(outcome.row_duals)[assignment_model.rows])


def solve_integer_value_bound(classes: JobClasses, session: Session) -> float | None:
    """Return an upper bound of `value` by the integer assignment model, as the solver claims it.

    None if the model is too large or there is no time.
    """
    assignment_model = build_assignment_model(
        classes, build_cost_classes(classes, np.zeros_like(classes.problem.remote_gib))
    )
    arrays = assignment_model.model.arrays("value")
    if arrays.columns > parameters.PARAMETERS.max_integer_columns:
        return None
    outcome = session.optimise(
        arrays,
        share=parameters.PARAMETERS.bound_share,
        most=parameters.PARAMETERS.max_integer_seconds,
    )
    return None if outcome is None else outcome.bound


def solve_class_bound(classes: JobClasses, values: Sequence[int], session: Session) -> float | None:
    """Return a certified upper bound of a priority class among plans no worse in those above it.

    At prices of the rows, and prices L_j / U of the value of each class above,

        U value_k + sum_j L_j value_j  <=  the Lagrangian bound of this weighted value

    so that U value_k is at most this bound less sum_j L_j V_j where value_j >= V_j. None if the LP
    was not solved.
    `values`: the V_j, highest class first; the class to bound comes next.
    """
    last = len(values)
    mine = classes.with_value(classes.value_of_class(last))
    free = np.zeros_like(classes.problem.remote_gib)
    model = build_assignment_model(mine, build_cost_classes(mine, free))
    _hold_classes(model, values)
    outcome = session.optimise(
        model.model.arrays("value", relax=True),
        share=parameters.PARAMETERS.bound_share,
        options=SolveOptions(presolve=False),
    )
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.abs(outcome.row_duals)
    unit, weights = _whole_weights(duals[len(duals) - last :], classes)
    value = unit * mine.value + _weighted(classes, weights)
    most = lagrangian_value_bound(classes.with_value(value), unit * duals[model.rows])
    held = sum(w * v for w, v in zip(weights, values, strict=True))
    return outward(floor((Fraction(most) - held) / unit), "max")


def solve_cost_bound(
    classes: JobClasses, costs: Ints, values: Sequence[int], session: Session
) -> float | None:
    """Return a certified lower bound of the cost of plans that reach these values, at LP duals.

    `costs` (jobs, regions): costs of jobs in regions. `values`: of `value`, or of each priority
    class. None if the LP was not solved.
    """
    model = build_assignment_model(classes, build_cost_classes(classes, costs))
    if len(values) == 1:
        model.model.hold("value", values[0], slack=HOLD_SLACK)
    else:
        _hold_classes(model, values)
    outcome = session.optimise(
        model.model.arrays("cost", relax=True), options=SolveOptions(presolve=False)
    )
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.abs(outcome.row_duals)
    prices, largest = duals[model.rows], float(costs.max(axis=1, initial=0).sum())
    if len(values) == 1:
        priced = price_classes(classes, prices, float(duals[-1]), largest)
        return max(0.0, priced.cost_bound(costs, values[0]))
    of_class = duals[len(duals) - len(values) :]
    top = float(of_class.max())
    unit, weights = _whole_weights(of_class / top if top > 0 else of_class, classes)
    held = sum(w * v for w, v in zip(weights, values, strict=True))
    weighted = classes.with_value(_weighted(classes, weights))
    priced = price_classes(weighted, prices, top / unit, largest)
    return max(0.0, priced.cost_bound(costs, held))


def _hold_classes(model: AssignmentModel, values: Sequence[int]) -> None:
    """Hold the first priority classes at these values, by the last rows of the model."""
    for k, value in enumerate(values):
        model.add_value_term(f"class {k}", model.classes.value_of_class(k))
        model.model.hold(f"class {k}", value, slack=HOLD_SLACK)


def _whole_weights(prices: Floats, classes: JobClasses) -> tuple[int, list[int]]:
    """Return a unit, and prices of priority classes in whole parts of it; no value overflows."""
    most = max(MAX_WEIGHTED_VALUE // max(int(classes.own_value.max(initial=0)), 1), 1)
    unit = min(UNIT, most)
    return unit, [min(round(unit * min(p, most)), most) for p in np.nan_to_num(prices).tolist()]


def _weighted(classes: JobClasses, weights: Sequence[int]) -> Ints:
    """Return the weighted value of assignments (assignments,); classes without a weight have 0."""
    weight = np.array([*weights, *(0 for _ in classes.problem.value_terms)], dtype=np.int64)
    found: Ints = weight[classes.priority_class] * classes.own_value
    return found


def integer_value_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield the first term's bound by the integer assignment model, if it is not proven yet."""
    first = classes.problem.value_terms[0]
    if session.best is None or session.close_enough(session.best[first]):
        return
    if classes.problem.priority_classes:
        classes = classes.with_value(classes.value_of_class(0))
    most = solve_integer_value_bound(classes, session)
    if most is not None:
        yield Bound(first, most)


def class_bounds(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield the bound of each later priority class, those above it held at the best plan's."""
    terms = classes.problem.value_terms
    for k in range(1, len(terms)):
        if session.best is None:
            return
        holds = tuple((term, session.best[term]) for term in terms[:k])
        most = solve_class_bound(classes, [value for _, value in holds], session)
        if most is not None:
            yield Bound(terms[k], most, holds, certified=True)


def cost_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield a bound of the first term after `value` over plans as good, if it is a read cost."""
    problem = classes.problem
    first = next((t for t in problem.round.policy.terms[1:2] if t in COSTS), None)
    if first is not None and session.best is not None:
        holds = tuple((term, session.best[term]) for term in problem.value_terms)
        values = [value for _, value in holds]
        least = solve_cost_bound(classes, problem.read_costs, values, session)
        if least is not None:
            yield Bound(first, least, holds, certified=True)
