"""The linear program of where data lives and which classes of jobs run beside it.

    x[p,r] in 0..1     replica of dataset p after the plan; fixed where there can be none a[c,r] in
    0..1     share of class c in region r;   none[c] without a home q[k,r] in 0..1     what of the
    share of a class in r reads k (a class and a dataset) remotely v[p,r] in {0, 1}   data at hand
    instead of a replica, only where that is told apart (`remote_read_rows.py`) y[s] in 0..1
    which of the jobs of step s (of a read) read remotely or not at all

    sum_r a[c,r] + none[c] = 1
    a[c,r] - q[k,r]  <= x[p,r] - v[p,r]          read k is of class c and dataset p
    a[c,r]           <= sum_s (x[p,s] - v[p,s])  over regions s from where r can read
    sum_s weight[s] y[s]     >= weight[c] (sum_r q[k,r] + none[c])
    sum_r (x[p,r] - v[p,r]) >= 1                 where there is a replica now
    sum_p size[p] (x[p,r] - v[p,r]) <= room[r]
    sum_p size[p] (x[p,r] - v[p,r]) <= ingress[r]    over copies
    z[p] >= x[p,r],  sum_p size[p] z[p] <= egress[s]     copies of what s alone has
    sum_r size[p] x[p,r] + sum_s gib[s] y[s] >= least[p]     over copies, and steps s of reads of p,
                                             as far as that is known (`bounds/single_dataset.py`)

What is asked of GPUs, and the terms that it makes, are in `capacity_rows.py`.

With x whole, y says exactly how few GiB shares of jobs must read remotely: where a class has
replicas, any of its jobs may run. Hence a program of classes is as good as one of jobs, as long as
jobs may be split. Storage and budgets are those after the plan, summed over links: that is less
than plans must keep, so every plan is a point of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED
from placewright.formulations.replicas.models.capacity_rows import add_capacity_rows, add_hottest
from placewright.formulations.replicas.models.remote_read_rows import FINE, Data, add_afar, data_of
from placewright.formulations.replicas.problem.job_classes import AggregateProblem
from placewright.formulations.replicas.problem.problem import TOGETHER
from placewright.solver import Arrays, Model


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The program of a pool, with its columns where they exist, -1 elsewhere.

    Attributes
    ----------
    replica : Ints
        (datasets, regions).
    copy_rows : Ints
        (datasets,): rows of how many copies are made of each.
    """

    aggregate: AggregateProblem
    model: Model
    replica: Ints
    copy_rows: Ints

    def replicas(self, values: Floats) -> Floats:
        """Return values of columns by replica (datasets, regions), 0 where there is no column."""
        found: Floats = np.append(values, 0.0)[self.replica]
        return found

    def filled_regions(self, values: Floats, share: float) -> Bools:
        """Return regions in which replicas take more than a part of what may be stored."""
        full: Bools = self.aggregate.wan.size @ self.replicas(values) > share * self.aggregate.room
        return full

    def arrays(self, term: str, holds: Mapping[str, int], *, relax: bool = True) -> Arrays:
        """Return the relaxation that minimises a term, with others held at a value or better.

        Replicas are whole if it is not to be relaxed.
        """
        for name, value in holds.items():
            self.model.hold(name, float(value))
        without = set(self.model.held) - {f"hold:{name}" for name in holds}
        return self.model.arrays(term, relax=relax, without=without)


def build_relaxation(aggregate: AggregateProblem) -> Relaxation:
    """Return the program of a pool."""
    model = Model()
    wan = aggregate.wan
    data = data_of(aggregate, model)
    replica = data.replica
    share, none = _homes(aggregate, model)
    far = _reads(aggregate, model, data, share, none)
    _storage(aggregate, model, data)
    add_capacity_rows(aggregate, model, replica, share, none, np.where(aggregate.beside, -1, far))
    add_hottest(aggregate, model, share)
    _imbalance(aggregate, model, data)
    p, r = np.nonzero(aggregate.copyable)
    copy_rows = model.rows("number", len(wan.size))
    model.add(copy_rows[p], replica[p, r], 1.0)
    for term in ("copies", TOGETHER):
        data.count(model, term, p, r, wan.size[p])
    return Relaxation(aggregate, model, replica, copy_rows)


def _homes(aggregate: AggregateProblem, model: Model) -> tuple[Ints, Ints]:
    """Add shares of classes, and none of them; return both (classes, regions) and (classes,).

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
    aggregate: AggregateProblem, model: Model, data: Data, none: Ints, read: Ints, far: Ints
) -> None:
    """Add the steps that are read remotely, their terms, and the rows of what data costs at least.

    Parameters
    ----------
    none
        (classes,): columns of shares without a home.
    read, far
        (n,): reads, and columns of shares that read them remotely.
    """
    remotely = model.variables("remotely", len(aggregate.step_read), upper=1.0, integer=False)
    steps = model.rows("steps", len(aggregate.read_class), lower=0.0)
    model.add(steps[aggregate.step_read], remotely, aggregate.step_weight)
    weight = aggregate.weight[aggregate.read_class]
    model.add(steps[read], far, -weight[read])
    model.add(steps, none[aggregate.read_class], -weight)
    for term in ("remote_reads", TOGETHER):
        model.term(term, remotely, aggregate.step_gib, sense="min")

    known = np.flatnonzero(aggregate.least)
    least = np.full(len(aggregate.least), -1, dtype=np.int64)
    least[known] = model.rows("least", len(known), lower=aggregate.least[known].astype(np.float64))
    p, r = np.nonzero(aggregate.copyable & (aggregate.least > 0)[:, None])
    data.add(model, least[p], p, r, aggregate.wan.size[p])
    p = aggregate.read_dataset[aggregate.step_read]
    some = least[p] >= 0
    model.add(least[p[some]], remotely[some], aggregate.step_gib[some])


def _columns(model: Model, name: str, where: Bools) -> Ints:
    """Append a continuous column in 0..1 for each true entry; -1 marks the others."""
    columns = np.full(where.shape, -1, dtype=np.int64)
    columns[where] = model.variables(name, int(where.sum()), upper=1.0, integer=False)
    return columns


def _reads(aggregate: AggregateProblem, model: Model, data: Data, share: Ints, none: Ints) -> Ints:
    """Add the rows of reads, and the term `remote_reads`; return q (reads, regions)."""
    kept = np.flatnonzero(aggregate.has_replica)
    rows = np.full(len(aggregate.has_replica), -1, dtype=np.int64)
    rows[kept] = model.rows("kept", len(kept), lower=1.0)
    p, r = np.nonzero(aggregate.possible & aggregate.has_replica[:, None])
    data.add(model, rows[p], p, r, 1.0)

    reads, regions = aggregate.local_only.shape
    lives = share[aggregate.read_class] >= 0
    far = _columns(model, "far", lives & ~aggregate.local_only)
    local = np.full((reads, regions), -1, dtype=np.int64)
    local[lives] = model.rows("local", int(lives.sum()), upper=0.0)
    k, r = np.nonzero(lives)
    model.add(local[k, r], share[aggregate.read_class[k], r], 1.0)
    data.add(model, local[k, r], aggregate.read_dataset[k], r, -1.0)
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
    data.add(model, source[k, r], aggregate.read_dataset[k], s, -1.0)

    k, r = np.nonzero((far >= 0) & ~aggregate.apart[aggregate.read_dataset])
    _steps(aggregate, model, data, none, k, far[k, r])
    add_afar(aggregate, model, data, share, far)
    return far


def _storage(aggregate: AggregateProblem, model: Model, data: Data) -> None:
    """Add the rows of storage and copies."""
    size, regions = aggregate.wan.size, len(aggregate.room)
    limit = np.where(aggregate.room < UNLIMITED, aggregate.room, np.inf)
    room = model.rows("room", regions, upper=limit)
    p, r = np.nonzero(aggregate.stored)
    data.add(model, room[r], p, r, size[p])
    ingress = model.rows("ingress", regions, upper=aggregate.ingress)
    p, r = np.nonzero(aggregate.stored & aggregate.copyable)
    data.add(model, ingress[r], p, r, size[p])
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
        data.add(model, rows, p, r, 1.0)
        model.add(rows, moved[p], -1.0)
        model.add(model.rows("egress", 1, upper=aggregate.egress[s]), moved[mine], size[mine])


def _imbalance(aggregate: AggregateProblem, model: Model, data: Data) -> None:
    """Add what is held beyond each share; what is at hand is held, or not, as imbalance is less."""
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
        # A share of all, rounded up: no region is said to be further beyond it than it is.
        share = -(-int(storage[s]) * FINE // total)
        mine = aggregate.stored[p, r] | (r != s)
        least = -size[p[mine]] * (share / FINE)
        data.add(model, np.full(len(least), rows[s]), p[mine], r[mine], least)
    p, r = np.nonzero(aggregate.stored & limited)
    data.add(model, rows[r], p, r, size[p])
    model.add(rows, beyond, -1.0)
