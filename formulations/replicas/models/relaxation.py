"""LP relaxation of replica placement over job classes: a capacitated facility location problem.

    x[p,r] in 0..1     replica of dataset p after the plan; no column where there can be none
    a[c,r] in 0..1     fraction of class c in region r;   none[c] without a home
    q[k,r] in 0..1     fraction of a class in r that reads k (a class and a dataset) remotely
    y[s] in 0..1       fraction of the jobs of step s (of a read) that read remotely or not at all

    sum_r a[c,r] + none[c] = 1
    a[c,r] - q[k,r]  <= x[p,r]                   read k is of class c and dataset p
    a[c,r]           <= sum_s x[p,s]             over regions s from where r can read
    sum_s weight[s] y[s]     >= weight[c] (sum_r q[k,r] + none[c])
    sum_r x[p,r] >= 1                            where there is a replica now
    sum_p size[p] x[p,r] <= storage[r]
    sum_p size[p] x[p,r] <= ingress[r]           over copies
    z[p] >= x[p,r],  sum_p size[p] z[p] <= egress[s]     copies of what s alone has
    sum_r size[p] x[p,r] + sum_s gib[s] y[s] >= least[p]     over copies, and steps s of reads of p,
                                             as far as known (`bounds/single_dataset.py`)

`capacity_rows.py` has the rows of GPU capacity and their terms.

With integer x, the fractions y give the least GiB of remote reads exactly: where a class has
replicas, any of its jobs may run. Hence the LP over classes is as tight as one over jobs that may
be split. Storage and budgets are those after the plan, summed over links: plans must satisfy more,
so every plan is a feasible point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED
from placewright.formulations.replicas.models.capacity_rows import add_capacity_rows, add_hottest
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import DATA_SUM
from placewright.solver import Arrays, Model

FINE = 1 << 20
"""Coefficients are whole multiples of 1 / FINE, so that bounds can be certified."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The LP of an aggregate problem, with its columns where they exist, -1 elsewhere.

    Attributes
    ----------
    replica : Ints
        (datasets, regions).
    copy_rows : Ints
        (datasets,): rows of the number of copies of each.
    """

    aggregate: AggregateProblem
    model: Model
    replica: Ints
    copy_rows: Ints

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

    Parameters
    ----------
    none
        (classes,): columns of fractions without a home.
    read, far
        (n,): reads, and columns q.
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
