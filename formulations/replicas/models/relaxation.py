"""LP relaxation of replica placement over job classes: its rows, its certified solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.problem.compile import AggregateProblem
from placewright.formulations.replicas.problem.problem import (
    DATA_SUM,
    HOMELESS,
    demand_unit,
    least_overload_of_jobs,
    overload_pieces,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays, Model, SolveOptions, Status, certified_bound, multipliers
from placewright.topology.units import WHOLE_GPU

# Rows of GPU capacity in the LP relaxation, and the terms `overload` and `hottest`.
#
# With a[c,r] as the fraction of class c in region r, of `relaxation.py`:
#
#     sum_c demand[c] a[c,r] <= sum of supply[r,m] + over[r,m] over the models m of U
#
# over classes that can use no other models there, for each union U of what classes can use: by
# the theorem of Hall and Gale, fractions fit onto models exactly if all of these rows hold. An LP
# with a column for each model says the same, is half as large again, and takes twice as long.
#
# The relaxation halves a replica x[p,r] and lets half of its readers run beside it, even if all of
# them would exceed capacity. So where they would, there is one row more:
#
#     sum_c demand[c] a[c,r] <= (sum of supply[r,m]) x[p,r] + sum of over[r,m]     over m of U
#
# over classes of the same row that can run only beside a replica of p. With integer x the row above
# implies it. For one product it is a known inequality of facility location (Aardal, "Capacitated
# facility location", Mathematical Programming 81, 1998). With the total overload held at V, the
# demand on U is at most `most_demand`, and that times x[p,r] holds as well, without `over`.
#
# `overload` is a convex, piecewise linear function of `over` with breakpoints at whole jobs.
# Where V is the least overload, there are no such columns: the demand on each U is then at most,
# and that of classes that can use any of its models at least, what `problem/problem.py`
# says. With an equality on overload instead, its dual price would be unbounded.


def add_capacity_rows(
    aggregate: AggregateProblem, model: Model, replica: Ints, share: Ints, none: Ints, far: Ints
) -> None:
    """Add the rows of GPU capacity, and the term `overload`.

    `replica`, `share`, `none` and `far` (datasets, regions), (classes, regions), (classes,) and
    (reads, regions): columns, -1 where there is none.
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

    `needs` (classes, models): what they can use.
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
    `supply` (parts,): s.
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

    `replica`, `share` and `far` (datasets,), (classes,) and (reads,): columns of the region. `asks`
    and `most`: (unions, classes) and (unions,): demand of classes that can use no other models, and
    the largest demand of all of them.
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


# LP relaxation of replica placement over job classes: a capacitated facility location problem.
#
#     x[p,r] in 0..1     replica of dataset p after the plan; no column where there can be none
#     a[c,r] in 0..1     fraction of class c in region r;   none[c] without a home
#     q[k,r] in 0..1     fraction of a class in r that reads k (a class and a dataset) remotely
#     y[s] in 0..1       fraction of the jobs of step s (of a read) that read remotely or not at all
#
#     sum_r a[c,r] + none[c] = 1
#     a[c,r] - q[k,r]  <= x[p,r]                   read k is of class c and dataset p
#     a[c,r]           <= sum_s x[p,s]             over regions s from where r can read
#     sum_s weight[s] y[s]     >= weight[c] (sum_r q[k,r] + none[c])
#     sum_r x[p,r] >= 1                            where there is a replica now
#     sum_p size[p] x[p,r] <= storage[r]
#     sum_p size[p] x[p,r] <= ingress[r]           over copies
#     z[p] >= x[p,r],  sum_p size[p] z[p] <= egress[s]     copies of what s alone has
#     sum_r size[p] x[p,r] + sum_s gib[s] y[s] >= least[p]   over copies, and steps s of reads of p,
#                                              as far as known (`bounds/prove.py`)
#
# The first section has the rows of GPU capacity and their terms.
#
# With integer x, the fractions y give the least GiB of remote reads exactly: where a class has
# replicas, any of its jobs may run. Hence the LP over classes is as tight as one over jobs that
# may be split. Storage and budgets are those after the plan, summed over links: plans must
# satisfy more, so every plan is a feasible point.


FINE = 1 << 20
"""Coefficients are whole multiples of 1 / FINE, so that bounds can be certified."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The LP of an aggregate problem, with its columns where they exist, -1 elsewhere."""

    aggregate: AggregateProblem
    model: Model
    replica: Ints  # (datasets, regions)
    copy_rows: Ints  # (datasets,): rows of the number of copies of each

    def replicas(self, values: Floats) -> Floats:
        """Return values of columns by replica (datasets, regions), 0 where there is no column."""
        found: Floats = np.append(values, 0.0)[self.replica]
        return found

    def copy_fractions(self, point: Floats | None) -> Floats:
        """Return the copies of a point as fractions (datasets, regions); 0 without a point."""
        fresh = self.aggregate.copyable
        return np.zeros(fresh.shape) if point is None else self.replicas(point) * fresh

    def filled_regions(self, values: Floats, share: float) -> Bools:
        """Return regions whose replicas take more than a share of their storage (regions,)."""
        full: Bools = (
            self.aggregate.wan.size @ self.replicas(values) > share * self.aggregate.storage
        )
        return full

    def arrays(self, term: str, holds: Mapping[str, int], *, relax: bool = True) -> Arrays:
        """Return the LP that minimises a term, with others held at a value or better.

        Replicas are integer with `relax=False`.
        """
        for name, value in holds.items():
            self.model.hold(name, float(value))
        without = set(self.model.held) - {f"hold:{name}" for name in holds}
        return self.model.arrays(term, relax=relax, without=without)


def build_relaxation(aggregate: AggregateProblem) -> Relaxation:
    """Return the relaxation of an aggregate problem."""
    model = Model()
    wan = aggregate.wan
    replica = _columns(model, "replica", aggregate.possible, integer=True)
    share, none = _homes(aggregate, model)
    far = _reads(aggregate, model, replica, share, none)
    _storage(aggregate, model, replica)
    add_capacity_rows(aggregate, model, replica, share, none, far)
    add_hottest(aggregate, model, share)
    _imbalance(aggregate, model, replica)
    p, r = np.nonzero(aggregate.copyable)
    copy_rows = model.rows("number", len(wan.size))
    model.add(copy_rows[p], replica[p, r], 1.0)
    for term in ("copies", DATA_SUM):
        model.term(term, replica[p, r], wan.size[p], sense="min")
    return Relaxation(aggregate, model, replica, copy_rows)


def _homes(aggregate: AggregateProblem, model: Model) -> tuple[Ints, Ints]:
    """Add fractions of classes; return the columns a (classes, regions) and none (classes,).

    -1 where a class cannot be.
    """
    lives: Bools = np.logical_or.reduce(aggregate.homes, axis=2)
    share = _columns(model, "share", lives)
    somewhere = lives.any(axis=1)
    none = model.variables(
        "none",
        aggregate.classes,
        lower=np.where(somewhere, 0.0, 1.0),
        upper=np.where(aggregate.always_placeable & somewhere, 0.0, 1.0),
        integer=False,
    )
    one = model.rows("one", aggregate.classes, lower=1.0, upper=1.0)
    model.add(one, none, 1.0)
    c, r = np.nonzero(lives)
    model.add(one[c], share[c, r], 1.0)
    return share, none


def _steps(
    aggregate: AggregateProblem, model: Model, replica: Ints, none: Ints, read: Ints, far: Ints
) -> None:
    """Add y, its terms, and the rows of bounds of single datasets.

    `none` (classes,): columns of fractions without a home. `read` and `far` (n,): reads, and
    columns q.
    """
    remotely = model.variables("remotely", len(aggregate.step_read), upper=1.0, integer=False)
    steps = model.rows("steps", len(aggregate.read_class), lower=0.0)
    model.add(steps[aggregate.step_read], remotely, aggregate.step_weight)
    weight = aggregate.weight[aggregate.read_class]
    model.add(steps[read], far, -weight[read])
    model.add(steps, none[aggregate.read_class], -weight)
    for term in ("remote_reads", DATA_SUM):
        model.term(term, remotely, aggregate.step_gib, sense="min")

    known = np.flatnonzero(aggregate.least)
    least = np.full(len(aggregate.least), -1, dtype=np.int64)
    least[known] = model.rows("least", len(known), lower=aggregate.least[known].astype(np.float64))
    p, r = np.nonzero(aggregate.copyable & (aggregate.least > 0)[:, None])
    _add_replicas(model, replica, least[p], p, r, aggregate.wan.size[p])
    p = aggregate.read_dataset[aggregate.step_read]
    some = least[p] >= 0
    model.add(least[p[some]], remotely[some], aggregate.step_gib[some])


def _columns(model: Model, name: str, where: Bools, *, integer: bool = False) -> Ints:
    """Append a column in 0..1 for each true entry; -1 marks the others."""
    columns = np.full(where.shape, -1, dtype=np.int64)
    columns[where] = model.variables(name, int(where.sum()), upper=1.0, integer=integer)
    return columns


def _add_replicas(
    model: Model, replica: Ints, rows: Ints, p: Ints, r: Ints, coefficients: Ints | Floats | float
) -> None:
    """Add x[p,r] with coefficients to rows, where there is a column."""
    columns = replica[p, r]
    some = columns >= 0
    each = np.broadcast_to(np.asarray(coefficients, dtype=np.float64), columns.shape)
    model.add(rows[some], columns[some], each[some])


def _reads(
    aggregate: AggregateProblem, model: Model, replica: Ints, share: Ints, none: Ints
) -> Ints:
    """Add the rows of reads, and the term `remote_reads`; return the columns q (reads, regions)."""
    kept = np.flatnonzero(aggregate.has_replica)
    rows = np.full(len(aggregate.has_replica), -1, dtype=np.int64)
    rows[kept] = model.rows("kept", len(kept), lower=1.0)
    p, r = np.nonzero(aggregate.possible & aggregate.has_replica[:, None])
    _add_replicas(model, replica, rows[p], p, r, 1.0)

    reads, regions = aggregate.local_only.shape
    lives = share[aggregate.read_class] >= 0
    far = _columns(model, "far", lives & ~aggregate.local_only)
    local = np.full((reads, regions), -1, dtype=np.int64)
    local[lives] = model.rows("local", int(lives.sum()), upper=0.0)
    k, r = np.nonzero(lives)
    model.add(local[k, r], share[aggregate.read_class[k], r], 1.0)
    _add_replicas(model, replica, local[k, r], aggregate.read_dataset[k], r, -1.0)
    k, r = np.nonzero(far >= 0)
    model.add(local[k, r], far[k, r], -1.0)

    # Only where some replica would be out of reach.
    possible = aggregate.possible[aggregate.read_dataset]
    partly = (far >= 0) & (possible[:, None, :] & ~aggregate.sources).any(axis=2)
    source = np.full((reads, regions), -1, dtype=np.int64)
    source[partly] = model.rows("source", int(partly.sum()), upper=0.0)
    k, r = np.nonzero(partly)
    model.add(source[k, r], share[aggregate.read_class[k], r], 1.0)
    k, r, s = np.nonzero(aggregate.sources & partly[:, :, None])
    _add_replicas(model, replica, source[k, r], aggregate.read_dataset[k], s, -1.0)

    k, r = np.nonzero(far >= 0)
    _steps(aggregate, model, replica, none, k, far[k, r])
    return far


def _storage(aggregate: AggregateProblem, model: Model, replica: Ints) -> None:
    """Add the rows of storage, ingress and egress."""
    size, regions = aggregate.wan.size, len(aggregate.storage)
    limit = np.where(aggregate.storage < UNLIMITED, aggregate.storage, np.inf)
    rows = model.rows("storage", regions, upper=limit)
    p, r = np.nonzero(aggregate.possible)
    _add_replicas(model, replica, rows[r], p, r, size[p])
    ingress = model.rows("ingress", regions, upper=aggregate.ingress)
    p, r = np.nonzero(aggregate.copyable)
    _add_replicas(model, replica, ingress[r], p, r, size[p])
    # What one region alone has leaves it once at least, if it is copied at all.
    only = aggregate.present & (aggregate.present.sum(axis=1) == 1)[:, None]
    copied: Bools = np.logical_or.reduce(aggregate.copyable, axis=1)
    tight = np.flatnonzero((size * copied) @ only > aggregate.egress)
    for s in tight:
        mine = np.flatnonzero(only[:, s])
        moved = np.full(len(size), -1, dtype=np.int64)
        moved[mine] = model.variables("moved", len(mine), upper=1.0, integer=False)
        p, r = np.nonzero(aggregate.copyable & only[:, s, None])
        rows = model.rows("moves", len(p), upper=0.0)
        _add_replicas(model, replica, rows, p, r, 1.0)
        model.add(rows, moved[p], -1.0)
        model.add(model.rows("egress", 1, upper=aggregate.egress[s]), moved[mine], size[mine])


def _imbalance(aggregate: AggregateProblem, model: Model, replica: Ints) -> None:
    """Add the term `imbalance`: GiB beyond the share of each region with limited storage."""
    size, storage = aggregate.wan.size, aggregate.wan.storage
    limited = storage < UNLIMITED
    total = int(storage[limited].sum())
    beyond = model.variables("beyond", len(storage), upper=float(size.sum()), integer=False)
    model.term("imbalance", beyond, 1.0, sense="min")
    if total == 0:
        return
    rows = model.rows("balance", len(storage), upper=np.where(limited, 0.0, np.inf))
    p, r = np.nonzero(aggregate.possible & limited)
    for s in np.flatnonzero(limited):
        # Rounded up, so that the excess is never overestimated.
        share = -(-int(storage[s]) * FINE // total)
        row = np.full(len(p), rows[s])
        held = -size[p].astype(np.float64) * (share / FINE)
        _add_replicas(model, replica, row, p, r, held)
    _add_replicas(model, replica, rows[r], p, r, size[p])
    model.add(rows, beyond, -1.0)


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A bound; `certified` unless some node is infeasible by a claim of the solver alone."""

    bound: int
    certified: bool


@dataclass(frozen=True, slots=True, eq=False)
class RelaxationResult:
    """Result of an LP relaxation: a certified bound, a primal point, and dual prices.

    `point` is None if the solver has none; `prices` (rows,) are the savings per unit of a row's
    limit.
    """

    bound: int
    point: Floats | None
    prices: Floats


def solve_relaxation(
    arrays: Arrays, session: Session, share: float = 1.0
) -> RelaxationResult | None:
    """Return the result of an LP relaxation, None without time, a solver or a proven bound.

    Large LPs are solved by an interior-point method, small ones by simplex: an interior-point
    method may not converge on those, and its prices then prove little.
    `share`: largest share of the time left.

    Raises
    ------
    ArithmeticError
        If the solver claims that the LP is infeasible.
    """
    interior = arrays.columns > parameters.PARAMETERS.simplex_max_columns
    outcome = session.optimise(arrays, share=share, options=SolveOptions(interior=interior))
    if outcome is not None and outcome.status is Status.INFEASIBLE:
        raise ArithmeticError("no point")
    if outcome is None or outcome.row_duals is None:
        return None
    bound = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
    return (
        None if bound is None else RelaxationResult(ceil(bound), outcome.values, -outcome.row_duals)
    )


def try_relaxation(arrays: Arrays, session: Session, share: float = 1.0) -> RelaxationResult | None:
    """Like `solve_relaxation`, but None also where the solver finds the relaxation infeasible."""
    try:
        return solve_relaxation(arrays, session, share)
    except ArithmeticError:
        return None
