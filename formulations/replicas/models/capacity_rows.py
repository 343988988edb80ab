"""Rows of GPU capacity in the LP relaxation, and the terms `overload` and `hottest`.

With a[c,r] as the fraction of class c in region r, of `relaxation.py`:

    sum_c demand[c] a[c,r] <= sum of supply[r,m] + over[r,m] over the models m of U

over classes that can use no other models there, for each union U of what classes can use: by the
theorem of Hall and Gale, fractions fit onto models exactly if all of these rows hold. An LP with a
column for each model says the same, is half as large again, and takes twice as long.

The relaxation halves a replica x[p,r] and lets half of its readers run beside it, even if all of
them would exceed capacity. So where they would, there is one row more:

    sum_c demand[c] a[c,r] <= (sum of supply[r,m]) x[p,r] + sum of over[r,m]     over m of U

over classes of the same row that can run only beside a replica of p. With integer x the row above
implies it. For one product it is a known inequality of facility location (Aardal, "Capacitated
facility location", Mathematical Programming 81, 1998). With the total overload held at V, the
demand on U is at most `most_demand`, and that times x[p,r] holds as well, without `over`.

`overload` is a convex, piecewise linear function of `over` with breakpoints at whole jobs. Where V
is the least overload, there are no such columns: the demand on each U is then at most, and that of
classes that can use any of its models at least, what `problem/overload_curve.py` says. With an
equality on overload instead, its dual price would be unbounded.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.overload_curve import (
    demand_unit,
    least_overload_of_jobs,
    overload_pieces,
)
from placewright.formulations.replicas.problem.problem import HOMELESS
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU


def add_capacity_rows(
    aggregate: AggregateProblem, model: Model, replica: Ints, share: Ints, none: Ints, far: Ints
) -> None:
    """Add the rows of GPU capacity, and the term `overload`.

    Parameters
    ----------
    replica, share, none, far
        (datasets, regions), (classes, regions), (classes,) and (reads, regions): columns, -1 where
        there is none.
    """
    supply = aggregate.wan.supply
    unit = demand_unit(aggregate.wan.demand)
    least, fewest = least_overload_of_jobs(supply, unit, aggregate.demand, aggregate.homeless)
    at_least_overload = aggregate.overload <= fewest
    fits: list[tuple[Ints, Bools]] = []
    for region, limit in enumerate(least.upper if at_least_overload else supply // unit):
        needs = aggregate.homes[:, region]
        unions = _unions(needs)
        rows = model.rows("fits", len(unions), upper=(unions @ limit).astype(float))
        asks = _confined_to(needs, unions) * (aggregate.demand // unit)
        u, c = np.nonzero(asks)
        model.add(rows[u], share[c, region], asks[u, c])
        most = (
            unions @ limit
            if at_least_overload
            else most_demand(aggregate, unions @ supply[region]) // unit
        )
        columns = replica[:, region], share[:, region], far[:, region]
        _add_replica_capacity_rows(aggregate, model, *columns, asks, most)
        fits.append((rows, unions))
    model.term("overload", none, HOMELESS * aggregate.demand, sense="min")
    if at_least_overload:
        model.term("overload", [], [], sense="min", constant=float(least.overload))
        _add_least_demand(aggregate, model, share, least.lower)
        return
    length, cost = overload_pieces(supply, unit, int(aggregate.demand.sum()) // unit)
    piece, r, m = np.nonzero(length * cost)
    over = model.variables("over", len(r), upper=length[piece, r, m].astype(float), integer=False)
    model.term("overload", over, cost[piece, r, m], sense="min")
    for column, (rows, unions), kind in zip(over, [fits[k] for k in r], m, strict=True):
        model.add(rows[unions[:, kind]], column, -1.0)


def _add_least_demand(aggregate: AggregateProblem, model: Model, share: Ints, lower: Ints) -> None:
    """Add lower bounds on the demand of models, `lower` (regions, models) in units.

    Demand on a set of models comes from classes that can use any of them: all in the region but
    those that can use only others.
    """
    unit = demand_unit(aggregate.wan.demand)
    for region in np.flatnonzero(lower.any(axis=1)).tolist():
        needs = aggregate.homes[:, region]
        others = np.pad(_unions(needs), ((1, 0), (0, 0)))
        asks = (needs.any(axis=1) & ~_confined_to(needs, others)) * (aggregate.demand // unit)
        rows = model.rows("asked", len(others), lower=(~others @ lower[region]).astype(float))
        u, c = np.nonzero(asks)
        model.add(rows[u], share[c, region], asks[u, c])


def _confined_to(needs: Bools, unions: Bools) -> Bools:
    """Return which classes can use models of a union and no others (unions, classes).

    Parameters
    ----------
    needs
        (classes, models): what they can use.
    """
    outside = (needs[None] & ~unions[:, None]).any(axis=2)
    within: Bools = np.logical_and(needs.any(axis=1), ~outside)
    return within


def most_demand(aggregate: AggregateProblem, supply: Ints) -> Ints:
    """Return the largest milli-GPU demand of parts of the supply if `aggregate.overload` is held.

    With a demand D of all demand T on a part s of all supply S, the overload is f(D, s) there and
    at least f(T - D, S - s) elsewhere, where f(D, s) = max(0, D - s, 2 D - 2.2 s): models together
    overload no more than each on its own, and jobs without a home cost more than f grows. With V
    held, hence

        D - s <= V      2 D - 2.2 s <= V      (2 D - 2.2 s) + (T - D) - (S - s) <= V

    Parameters
    ----------
    supply
        (parts,): s.
    """
    total, most = int(aggregate.demand.sum()), aggregate.overload
    rest = total - int(aggregate.wan.supply.sum())
    limits = [most + supply, (5 * most + 11 * supply) // 10, most - rest + 6 * supply // 5]
    asked: Ints = np.minimum.reduce(limits).clip(0, total)
    return asked


def _add_replica_capacity_rows(
    aggregate: AggregateProblem,
    model: Model,
    replica: Ints,
    share: Ints,
    far: Ints,
    asks: Ints,
    most: Ints,
) -> None:
    """Add capacity rows of the readers beside a replica (Aardal 1998).

    Parameters
    ----------
    replica, share, far
        (datasets,), (classes,) and (reads,): columns of the region.
    asks, most
        (unions, classes) and (unions,): demand of classes that can use no other models, and the
        largest demand of all of them.
    """
    c, p = aggregate.read_class, aggregate.read_dataset
    beside = asks[:, c] * (replica[p] >= 0)
    asked = np.zeros((len(replica), len(most)), dtype=np.int64)
    np.add.at(asked, p, beside.T)
    unions, datasets = np.nonzero(np.greater(asked.T, most[:, None]))
    row = np.full((len(most), len(replica)), -1, dtype=np.int64)
    rows = row[unions, datasets] = model.rows("beside", len(unions), upper=0.0)
    model.add(rows, replica[datasets], -most[unions])
    u, k = np.nonzero(beside * (row[:, p] >= 0))
    model.add(row[u, p[k]], share[c[k]], beside[u, k])
    some = far[k] >= 0
    u, k = u[some], k[some]
    model.add(row[u, p[k]], far[k], -beside[u, k])


def _unions(sets: Bools) -> Bools:
    """Return the unions (unions, models) of sets of models (sets, models).

    Some of them if they are many, the union of all included: missing rows weaken a bound, but it
    stays one.
    """
    found: Bools = np.logical_or.reduce(sets, axis=0, keepdims=True)
    for one in np.unique(sets, axis=0):
        found = np.unique(np.concatenate([found, one[None], found | one]), axis=0)
        if len(found) > parameters.PARAMETERS.max_unions:
            break
    some: Bools = found[found.any(axis=1)]
    return some


def add_hottest(aggregate: AggregateProblem, model: Model, share: Ints) -> None:
    """Add the term `hottest`."""
    supply = aggregate.wan.supply.sum(axis=1)
    unit = max(1, int(np.gcd.reduce(np.concatenate([aggregate.demand, supply]), initial=0)))
    least = min(int(supply[supply > 0].min(initial=WHOLE_GPU)), WHOLE_GPU)
    most = 1000 * int(aggregate.demand.sum()) // least + 1
    hottest = model.variables("hottest", 1, upper=float(most), integer=False)
    rows = model.rows("heat", len(supply), upper=0.0)
    c, r = np.nonzero(share >= 0)
    # As floats: a thousand times what a class asks may be beyond 64 bits.
    model.add(rows[r], share[c, r], 1000.0 * (aggregate.demand[c] // unit))
    given = np.flatnonzero(supply)
    model.add(rows[given], hottest, -(supply[given] // unit))
    model.term("hottest", hottest, 1.0, sense="min")
