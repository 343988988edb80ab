"""How much is overloaded at least, however jobs are spread, and what is asked where then.

Overload is a convex function of what each model of each region is asked for. So it is least in all
where the next unit of demand costs alike much everywhere: each model is asked for no less than what
costs less than that, and for no more than what costs no more. Plans that overload that little need
no columns for overload, only these limits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.problem.problem import HOMELESS


class LeastOverload(NamedTuple):
    """The least overload, and plans that come to it: just those that ask for neither less nor more.

    Attributes
    ----------
    overload
        In milli-GPU.
    lower, upper
        (regions, models): units of demand that a model is asked for, at least and at most.
    """

    overload: int
    lower: Ints
    upper: Ints


def least_overload(supply: Ints, unit: int, units: int) -> LeastOverload:
    """Return what so many units of demand overload at least, if any of them could be anywhere.

    Parameters
    ----------
    supply
        (regions, models): milli-GPU.
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
    """Return the least overload of jobs that have a home, and with what counts for the others.

    Parameters
    ----------
    demand, homeless
        (n,): milli-GPU, and whether no region can have them.
    """
    least = least_overload(supply, unit, int(demand[~homeless].sum()) // unit)
    return least, least.overload + HOMELESS * int(demand[homeless].sum())


def demand_unit(demand: Ints) -> int:
    """Return the milli-GPUs that all demand is a multiple of."""
    return max(1, int(np.gcd.reduce(demand, initial=0)))


def overload_pieces(supply: Ints, unit: int, units: int) -> tuple[Ints, Ints]:
    """Return the pieces of overload as demand grows (5, regions, models).

    That is how many units of demand they are long, and what one of them costs. The first is what
    fits, the last has all units. Demand comes in whole units, so overload is what lines between
    them say.
    """
    none, first, second = np.zeros_like(supply), supply // unit, 6 * supply // (5 * unit)
    points = np.sort(np.stack([none, first, first + 1, second, second + 1, second + 2]), axis=0)
    asked = points * unit
    over = np.maximum(0, asked - supply) - (-np.maximum(0, 5 * asked - 6 * supply) // 5)
    length = np.diff(points, axis=0)
    cost = np.diff(over, axis=0) // np.maximum(1, length)
    length[-1] = units
    return length * (supply > 0), cost
