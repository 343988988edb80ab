"""Lagrangian bounds in integer arithmetic: valid for any prices of the capacity rows.

At prices y >= 0 of the rows and w >= 0 of value the capacity rows are relaxed, and each job takes
its cheapest assignment on its own (Geoffrion 1974),

    cost of plans of value V  >=  w V - y capacity
                                  + sum_j min over assignments of j, or none, of
                                          cost + y usage - w value

where a running job that goes on costs its reads and its use of rows, and a preempted one w times
its value. With no costs and w = 1 this bounds `value` from above. Prices are rounded to binary
fractions; all that follows is exact, in Python's integers where 64 bits could overflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.bound_arithmetic import outward
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.solver.lagrangian import SUM_BITS, overflow_safe_scale, round_to_integers

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

        Parameters
        ----------
        costs
            (jobs, regions): cost of a job that runs in a region.
        value
            Value that plans must reach.
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

    Parameters
    ----------
    prices
        (rows,): prices of the rows; negative and undefined ones count as 0.
    value_price
        Price of value.
    total_cost
        An upper bound of the sum of all costs, which the scale must leave room for.
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
