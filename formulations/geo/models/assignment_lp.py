"""Clusters of jobs that are alike, and the linear program of their regions.

A cluster holds jobs of one kind whose data is alike: of the most that they read over links they
read as much in the same regions, in parts. It has a variable for each way in a region where it
reads less than elsewhere, and one for all other regions together; who goes there is shared out over
regions by variables of all clusters of a kind (a pool). So a program has few variables for each
job, and the prices of its rows bound the whole round (pricing.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints
from placewright.formulations.geo.problem.class_arrays import Kinds
from placewright.solver import Model

Floats = NDArray[np.float64]

LEVELS = 4
"""Parts of the most that a job costs, by which clusters are told apart."""

WORD = 8
"""Bytes of a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Jobs that the program does not tell apart.

    `of_job` (jobs,) is the cluster of each job, `kind` (clusters,) and `cost` (clusters, regions)
    its kind and mean cost, `near` (clusters, regions) where it costs less than the most, `can`
    (clusters, regions) where it may run, `pool` (clusters,) the number of its kind with these.
    """

    of_job: Ints
    number: Ints
    kind: Ints
    cost: Floats
    near: Bools
    can: Bools
    pool: Ints


def clusters_of(kinds: Kinds, costs: Ints) -> Clusters:
    """Return the clusters of a round in which jobs cost so much in regions (jobs, regions)."""
    problem = kinds.problem
    jobs = np.flatnonzero(kinds.of_job != NONE)
    can = problem.can[jobs]
    pending = kinds.at[kinds.of_job[jobs]] == NONE
    mine = np.where(can & pending[:, None], costs[jobs], 0)
    most = mine.max(axis=1, initial=0)
    level = np.zeros(mine.shape, dtype=np.int8)
    some = most > 0
    level[some] = (LEVELS * mine[some] + most[some, None] - 1) // most[some, None]
    level[~can] = -1
    first, inverse = _distinct(kinds.of_job[jobs], level)
    number = np.bincount(inverse, minlength=len(first))
    order = np.argsort(inverse, kind="stable")
    total = np.add.reduceat(mine[order], np.cumsum(number) - number, axis=0)
    cost = total / np.maximum(1, number)[:, None]
    of_job = np.full(len(kinds.of_job), NONE, dtype=np.int64)
    of_job[jobs] = inverse
    top = level[first].max(axis=1, initial=0)
    near = can[first] & ((level[first] < top[:, None]) | ~pending[first, None])
    kind = kinds.of_job[jobs[first]]
    pool = _distinct(kind, can[first].view(np.int8))[1]
    return Clusters(of_job, number, kind, cost, near, can[first], pool)


def _distinct(kind: Ints, level: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Return where distinct pairs of a number (rows,) and bytes (rows, regions) first are.

    And which of them each row is.
    """
    words = np.zeros((len(level), -(-level.shape[1] // WORD) * WORD), dtype=np.int8)
    words[:, : level.shape[1]] = level
    # To sort by few words is much faster than to compare rows.
    columns = np.column_stack([kind, words.view(np.int64)])
    order = np.lexsort(columns.T)
    new = np.ones(len(kind), dtype=np.bool_)
    new[1:] = (columns[order[1:]] != columns[order[:-1]]).any(axis=1)
    inverse = np.empty(len(kind), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new].astype(np.int64), inverse


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The program, with its columns: ways of clusters, shares of pools, ways of pools.

    `value` and `cost` are the columns of its terms, with what each counts.
    """

    kinds: Kinds
    clusters: Clusters
    model: Model
    near: Ints
    near_cluster: Ints
    near_way: Ints
    far: Ints
    far_cluster: Ints
    pool: Ints
    pool_number: Ints
    pool_way: Ints
    rows: Ints
    value: tuple[Ints, Floats]
    cost: tuple[Ints, Floats]


def program_of(kinds: Kinds, clusters: Clusters) -> Program:
    """Return the program of clusters: `value` is to be most, `cost` least."""
    model = Model()
    by_kind = np.argsort(kinds.way_kind, kind="stable")
    start = np.searchsorted(kinds.way_kind[by_kind], np.arange(len(kinds.at) + 1))

    def ways(kind: Ints) -> tuple[Ints, Ints]:
        """Return the ways of some kinds, and which of them each is of."""
        many = start[kind + 1] - start[kind]
        owner = np.repeat(np.arange(len(kind)), many)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
        return by_kind[start[kind][owner] + within], owner

    way, cluster = ways(clusters.kind)
    region = kinds.way_region[way]
    kept = clusters.near[cluster, region]
    way, cluster, region = way[kept], cluster[kept], region[kept]
    pools, member = np.unique(clusters.pool, return_index=True)
    pool_way, pool = ways(clusters.kind[member])
    kept = clusters.can[member[pool], kinds.way_region[pool_way]]
    pool_way, pool = pool_way[kept], pool[kept]
    pending = kinds.at[clusters.kind] == NONE
    open_ = pending[member[pool]]
    pool_way, pool = pool_way[open_], pool[open_]
    far_cluster = np.flatnonzero(pending & np.isin(clusters.pool, pool))

    runs = ~pending[cluster]
    number = clusters.number[cluster].astype(float)
    near = model.variables("near", len(way), upper=number)
    far = model.variables(
        "far", len(far_cluster), upper=clusters.number[far_cluster].astype(float), integer=False
    )
    most = np.zeros(len(pools))
    np.add.at(most, clusters.pool[far_cluster], clusters.number[far_cluster])
    shared = model.variables("pool", len(pool_way), upper=most[pool])
    rows = model.rows("row", len(kinds.room), upper=kinds.room.astype(float))
    by_way = np.argsort(kinds.entry_way, kind="stable")
    entry = np.searchsorted(kinds.entry_way[by_way], np.arange(kinds.ways + 1))
    for columns, of_column in ((near, way), (shared, pool_way)):
        many = entry[of_column + 1] - entry[of_column]
        owner = np.repeat(np.arange(len(of_column)), many)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
        at = by_way[entry[of_column][owner] + within]
        model.add(rows[kinds.entry_row[at]], columns[owner], kinds.asks[at])
    # Jobs that run and may not stop stay.
    stays = ~pending & ~kinds.may_stop[clusters.kind]
    every = clusters.number.astype(float)
    count = model.rows("cluster", len(every), lower=np.where(stays, every, -np.inf), upper=every)
    model.add(count[cluster], near, 1.0)
    model.add(count[far_cluster], far, 1.0)
    balance = model.rows("pool", len(pools), lower=0.0, upper=0.0)
    model.add(balance[clusters.pool[far_cluster]], far, 1.0)
    model.add(balance[pool], shared, -1.0)
    lost = np.zeros(len(clusters.kind))
    np.maximum.at(lost, cluster[runs], (kinds.value[way] * number)[runs])
    value = (
        np.concatenate([near, shared]),
        np.concatenate([kinds.value[way], kinds.value[pool_way]]).astype(np.float64),
    )
    model.term("value", *value, sense="max", constant=-float(lost.sum()))
    top = np.where(clusters.can, clusters.cost, 0.0).max(axis=1, initial=0.0)
    each = np.concatenate([clusters.cost[cluster, region], top[far_cluster]])
    cost = np.concatenate([near, far]), each
    model.term("cost", *cost, sense="min")
    return Program(
        kinds=kinds,
        clusters=clusters,
        model=model,
        near=near,
        near_cluster=cluster,
        near_way=way,
        far=far,
        far_cluster=far_cluster,
        pool=shared,
        pool_number=pool,
        pool_way=pool_way,
        rows=rows,
        value=value,
        cost=cost,
    )
