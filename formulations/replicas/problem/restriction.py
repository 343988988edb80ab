"""A pool in which only some datasets count: what classes read of the others costs nothing.

Bounds of it hold for the whole, since no plan is lost and none costs more. Classes that differ only
in what does not count are one, so its program is smaller by far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.problem.job_classes import Pool, steps
from placewright.formulations.replicas.problem.problem import dense


def largest_first(pool: Pool) -> Ints:
    """Return the datasets (datasets,) in the order of the GiB that could be copied of each."""
    return np.argsort(-_gib(pool), kind="stable")


def largest(pool: Pool, number: int) -> Bools:
    """Return so many datasets (datasets,) of which most GiB could be copied."""
    found = np.zeros(len(pool.kept), dtype=np.bool_)
    found[largest_first(pool)[:number]] = True
    return found


def making_up(pool: Pool, share: float) -> int:
    """Return how many datasets, largest first, make up a share of all GiB that could be copied."""
    size = _gib(pool)[largest_first(pool)]
    return int((np.cumsum(size) - size < share * size.sum()).sum())


def _gib(pool: Pool) -> Ints:
    gib: Ints = pool.wan.size * np.logical_or.reduce(pool.fresh, axis=1)
    return gib


def fewer(pool: Pool, datasets: Bools) -> Pool:
    """Return a pool without the datasets that a mask (datasets,) leaves out."""
    mine = np.flatnonzero(datasets[pool.read_dataset])
    # Alike are reads of one dataset from the same regions.
    kind = dense(
        [
            (dataset, sources.tobytes())
            for dataset, sources in zip(pool.read_dataset[mine], pool.served[mine], strict=True)
        ]
    )
    reads: list[list[int]] = [[] for _ in range(pool.classes)]
    for c, k in zip(pool.read_class[mine].tolist(), kind.tolist(), strict=True):
        reads[c].append(k)
    flags = np.column_stack([pool.sure, pool.demand > 0])
    merged = dense(
        [
            (homes.tobytes(), flag.tobytes(), *sorted(read))
            for homes, flag, read in zip(pool.homes, flags, reads, strict=True)
        ]
    )
    first = np.unique(merged, return_index=True)[1]
    demand, weight = np.zeros((2, len(first)), dtype=np.int64)
    np.add.at(demand, merged, pool.demand)
    np.add.at(weight, merged, pool.weight)

    # A class reads what the first of those that it is made of reads.
    key = merged[pool.read_class[mine]] * max(1, len(mine)) + kind
    keys, own, place = np.unique(key, return_index=True, return_inverse=True)
    heads = mine[own]
    read = np.full(len(pool.read_class), -1, dtype=np.int64)
    read[mine] = place.reshape(-1)
    left = read[pool.step_read] >= 0
    step_read, step_weight, step_gib = steps(
        read[pool.step_read[left]], pool.step_weight[left], pool.step_gib[left]
    )
    some = datasets[:, None]
    return replace(
        pool,
        job_class=merged[pool.job_class],
        demand=demand,
        weight=weight,
        homes=pool.homes[first],
        sure=pool.sure[first],
        read_class=keys // max(1, len(mine)),
        read_dataset=pool.read_dataset[heads],
        near=pool.near[heads],
        served=pool.served[heads],
        step_read=step_read,
        step_weight=step_weight,
        step_gib=step_gib,
        possible=pool.possible & some,
        fresh=pool.fresh & some,
        there=pool.there & some,
        apart=pool.apart & some,
        stored=pool.stored & some,
        kept=pool.kept & datasets,
        least=pool.least * datasets,
    )
