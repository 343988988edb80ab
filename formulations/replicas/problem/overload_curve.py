"""The minimum total overload over all distributions of demand, and the demands that attain it.

Overload is a convex function of the demand of each GPU model in each region. By the usual
optimality condition (equal marginal cost, as in water filling) the total is least where each model
has at least the demand of all pieces that cost less than the marginal price, and at most that of
all pieces that cost no more. Models whose overload is held at this minimum need only these bounds
on demand, and no columns for overload.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas.problem.problem import HOMELESS


class LeastOverload(NamedTuple):
    """The least total overload, and the bounds on demand that exactly its solutions satisfy.

    Attributes
    ----------
    overload
        In milli-GPU.
    lower, upper
        (regions, models): bounds on the units of demand.
    """

    overload: int
    lower: Ints
    upper: Ints


def least_overload(supply: Ints, unit: int, units: int) -> LeastOverload:
    """Return the least overload of a number of units of demand that may run anywhere.

    Parameters
    ----------
    supply
        (regions, models): milli-GPU.
    unit, units
        Milli-GPU per unit of demand, and the number of units.
    """
    nothing = np.zeros_like(supply)
    if not units:  # there may be no model that could be asked
        return LeastOverload(0, nothing, nothing)
    length, cost = overload_pieces(supply, unit, units)
    prices = np.unique(cost)
    price = prices[np.argmax([length[cost <= price].sum() >= units for price in prices])]
    cheaper = length * (cost < price)
    overload = (cheaper * cost).sum() + price * (units - cheaper.sum())
    return LeastOverload(int(overload), cheaper.sum(axis=0), (length * (cost <= price)).sum(axis=0))


def least_overload_of_jobs(
    supply: Ints, unit: int, demand: Ints, homeless: Bools
) -> tuple[LeastOverload, int]:
    """Return the least overload of jobs with a home, and the total with that of homeless jobs.

    Parameters
    ----------
    demand, homeless
        (n,): milli-GPU, and whether no region can have them.
    """
    least = least_overload(supply, unit, int(demand[~homeless].sum()) // unit)
    return least, least.overload + HOMELESS * int(demand[homeless].sum())


def demand_unit(demand: Ints) -> int:
    """Return the greatest common divisor of all demands, in milli-GPU, at least 1."""
    return max(1, int(np.gcd.reduce(demand, initial=0)))


def overload_pieces(supply: Ints, unit: int, units: int) -> tuple[Ints, Ints]:
    """Return the linear pieces of overload as demand grows, both (5, regions, models).

    Lengths in units of demand, and the cost of one unit. The first piece is free, the last is as
    long as all units. Demand is integer in units, so interpolation between whole units is exact.
    """
    none, first, second = np.zeros_like(supply), supply // unit, 6 * supply // (5 * unit)
    points = np.sort(np.stack([none, first, first + 1, second, second + 1, second + 2]), axis=0)
    asked = points * unit
    over = np.maximum(0, asked - supply) - (-np.maximum(0, 5 * asked - 6 * supply) // 5)
    length = np.diff(points, axis=0)
    cost = np.diff(over, axis=0) // np.maximum(1, length)
    length[-1] = units
    return length * (supply > 0), cost
