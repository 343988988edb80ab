"""What shares of classes ask of GPUs: the terms `overload` and `hottest` of the linear program.

With a[c,r] as the share of class c in region r, of `program.py`:

    sum_c demand[c] a[c,r] <= sum of supply[r,m] + over[r,m] over the models m of U

over classes that can use no other models there, for each union U of what classes can use: by the
theorem of Hall and Gale, that is when some split of each share over its models fits. A program with
a column for each model says the same, is half as large again, and takes twice as long.

The relaxation halves a replica x[p,r] and lets half of its readers run beside it, even if all of
them would ask for more than there is. So where they would, there is one row more:

    sum_c demand[c] a[c,r] <= (sum of supply[r,m]) x[p,r] + sum of over[r,m]     over m of U

over classes of the same row that can run only beside a replica of p. With x whole it says no more
than the row above: with 0 none of them is there. For one product it is a known row of facility
location (Aardal, "Capacitated facility location", Mathematical Programming 81, 1998). Where plans
overload no more than V in all, no U is asked for more than `most_asked`, so much times x[p,r] holds
as well, without `over`.

`overload` is a convex function of `over`, of lines between whole jobs that may be too many.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.replicas.pool import Pool
from placewright.formulations.replicas.problem import HOMELESS
from placewright.formulations.wan.compile import Bools, Ints
from placewright.instances.documents import WHOLE_GPU
from placewright.solver import Model

MOST_UNIONS = 64
"""Rows of what fits on models, about, per region at most."""


def add_load(pool: Pool, model: Model, replica: Ints, share: Ints, none: Ints) -> None:
    """Add the rows of what fits on models, and the term `overload`.

    Parameters
    ----------
    replica, share, none
        (datasets, regions), (classes, regions) and (classes,): columns, -1 where there is none.
    """
    supply = pool.wan.supply
    unit = unit_of(pool.wan.demand)
    fits: list[tuple[Ints, Bools]] = []
    for region, free in enumerate(supply // unit):
        needs = pool.homes[:, region]
        unions = _unions(needs)
        room = unions @ free
        rows = model.rows("fits", len(unions), upper=room.astype(float))
        outside = (needs[None] & ~unions[:, None]).any(axis=2)
        asks = (needs.any(axis=1) & ~outside) * (pool.demand // unit)
        u, c = np.nonzero(asks)
        model.add(rows[u], share[c, region], asks[u, c])
        most = most_asked(pool, unions @ supply[region]) // unit
        _beside(pool, model, replica[:, region], share[:, region], region, asks, most)
        fits.append((rows, unions))
    length, cost = pieces(supply, unit)
    length[-1] = int(pool.demand.sum()) // unit
    piece, r, m = np.nonzero(length * (supply > 0))
    over = model.variables("over", len(r), upper=length[piece, r, m].astype(float), integer=False)
    model.term("overload", over, cost[piece, r, m], sense="min")
    for column, (rows, unions), kind in zip(over, [fits[k] for k in r], m, strict=True):
        model.add(rows[unions[:, kind]], column, -1.0)
    model.term("overload", none, HOMELESS * pool.demand, sense="min")


def most_asked(pool: Pool, room: Ints) -> Ints:
    """Return the milli-GPU that a part of the supply is asked for at most, `pool.overload` held.

    If a part s of all supply S is asked for D of all demand T, it overloads f(D, s), and the rest
    f(T - D, S - s) or more, where f(D, s) = max(0, D - s, 2 D - 2.2 s): models together overload no
    more than each on its own, and jobs without a home cost more than f grows. With V held, hence

        D - s <= V      2 D - 2.2 s <= V      (2 D - 2.2 s) + (T - D) - (S - s) <= V

    Parameters
    ----------
    room
        (parts,): s.
    """
    total, most = int(pool.demand.sum()), pool.overload
    rest = total - int(pool.wan.supply.sum())
    limits = [most + room, (5 * most + 11 * room) // 10, most - rest + 6 * room // 5]
    asked: Ints = np.minimum.reduce(limits).clip(0, total)
    return asked


def _beside(
    pool: Pool,
    model: Model,
    replica: Ints,
    share: Ints,
    region: int,
    asks: Ints,
    most: Ints,
) -> None:
    """Add the rows of who can run in a region only beside a replica.

    Parameters
    ----------
    replica, share
        (datasets,) and (classes,): columns of the region.
    asks, most
        (unions, classes) and (unions,): what those ask who can use no other models, and what all
        of them may ask together.
    """
    c, p = pool.read_class, pool.read_dataset
    beside = asks[:, c] * (pool.near[:, region] & (replica[p] >= 0))
    asked = np.zeros((len(replica), len(most)), dtype=np.int64)
    np.add.at(asked, p, beside.T)
    unions, datasets = np.nonzero(np.greater(asked.T, most[:, None]))
    row = np.full((len(most), len(replica)), -1, dtype=np.int64)
    rows = row[unions, datasets] = model.rows("beside", len(unions), upper=0.0)
    model.add(rows, replica[datasets], -most[unions])
    u, k = np.nonzero(beside * (row[:, p] >= 0))
    model.add(row[u, p[k]], share[c[k]], beside[u, k])


def unit_of(demand: Ints) -> int:
    """Return the milli-GPUs that all demand is a multiple of."""
    return max(1, int(np.gcd.reduce(demand, initial=0)))


def pieces(supply: Ints, unit: int) -> tuple[Ints, Ints]:
    """Return the pieces of overload as demand grows beyond supply (4, regions, models).

    That is how many units of demand they are long, and what one of them costs; the last has no end.
    Demand comes in whole units, so overload is what lines between them say.
    """
    first, second = supply // unit, 6 * supply // (5 * unit)
    points = np.sort(np.stack([first, first + 1, second, second + 1, second + 2]), axis=0)
    asked = points * unit
    over = np.maximum(0, asked - supply) - (-np.maximum(0, 5 * asked - 6 * supply) // 5)
    length = np.diff(points, axis=0)
    return length, np.diff(over, axis=0) // np.maximum(1, length)


def _unions(sets: Bools) -> Bools:
    """Return the unions of sets of models, of shapes (unions, models) and (sets, models).

    Not all, but the whole one, if they are many: rows that are missing make a bound weaker, not
    wrong.
    """
    found: Bools = np.logical_or.reduce(sets, axis=0, keepdims=True)
    for one in np.unique(sets, axis=0):
        found = np.unique(np.concatenate([found, one[None], found | one]), axis=0)
        if len(found) > MOST_UNIONS:
            break
    some: Bools = found[found.any(axis=1)]
    return some


def add_hottest(pool: Pool, model: Model, share: Ints) -> None:
    """Add the term `hottest`."""
    supply = pool.wan.supply.sum(axis=1)
    unit = max(1, int(np.gcd.reduce(np.concatenate([pool.demand, supply]), initial=0)))
    least = min(int(supply[supply > 0].min(initial=WHOLE_GPU)), WHOLE_GPU)
    most = 1000 * int(pool.demand.sum()) // least + 1
    hottest = model.variables("hottest", 1, upper=float(most), integer=False)
    rows = model.rows("heat", len(supply), upper=0.0)
    c, r = np.nonzero(share >= 0)
    model.add(rows[r], share[c, r], 1000 * (pool.demand[c] // unit))
    given = np.flatnonzero(supply)
    model.add(rows[given], hottest, -(supply[given] // unit))
    model.term("hottest", hottest, 1.0, sense="min")
