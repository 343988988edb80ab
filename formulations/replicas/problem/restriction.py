"""Restriction of a relaxation to some datasets: reads of all others cost nothing.

Bounds of the restricted problem hold for the whole: every plan remains and costs no more. Job
classes that differ only in reads left out are merged, so the LP is far smaller.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas.problem.job_classes import AggregateProblem, steps
from placewright.formulations.replicas.problem.problem import dense_ids


def datasets_by_size(aggregate: AggregateProblem) -> Ints:
    """Return the datasets (datasets,) by descending GiB that could be copied of each."""
    return np.argsort(-_gib(aggregate), kind="stable")


def largest_datasets(aggregate: AggregateProblem, number: int) -> Bools:
    """Return a mask (datasets,) of a number of datasets with the most GiB that could be copied."""
    found = np.zeros(len(aggregate.has_replica), dtype=np.bool_)
    found[datasets_by_size(aggregate)[:number]] = True
    return found


def count_for_share(aggregate: AggregateProblem, share: float) -> int:
    """Return how many datasets, largest first, make up a share of all GiB that could be copied."""
    size = _gib(aggregate)[datasets_by_size(aggregate)]
    return int((np.cumsum(size) - size < share * size.sum()).sum())


def _gib(aggregate: AggregateProblem) -> Ints:
    gib: Ints = aggregate.wan.size * np.logical_or.reduce(aggregate.copyable, axis=1)
    return gib


def restrict_to_datasets(aggregate: AggregateProblem, datasets: Bools) -> AggregateProblem:
    """Return the aggregate problem restricted to a mask of datasets (datasets,)."""
    mine = np.flatnonzero(datasets[aggregate.read_dataset])
    # Alike are reads of one dataset from the same regions.
    kind = dense_ids(
        [
            (dataset, sources.tobytes())
            for dataset, sources in zip(
                aggregate.read_dataset[mine], aggregate.sources[mine], strict=True
            )
        ]
    )
    reads: list[list[int]] = [[] for _ in range(aggregate.classes)]
    for c, k in zip(aggregate.read_class[mine].tolist(), kind.tolist(), strict=True):
        reads[c].append(k)
    flags = np.column_stack([aggregate.always_placeable, aggregate.demand > 0])
    merged = dense_ids(
        [
            (homes.tobytes(), flag.tobytes(), *sorted(read))
            for homes, flag, read in zip(aggregate.homes, flags, reads, strict=True)
        ]
    )
    first = np.unique(merged, return_index=True)[1]
    demand, weight = np.zeros((2, len(first)), dtype=np.int64)
    np.add.at(demand, merged, aggregate.demand)
    np.add.at(weight, merged, aggregate.weight)

    # A class reads what the first of those that it is made of reads.
    key = merged[aggregate.read_class[mine]] * max(1, len(mine)) + kind
    keys, own, place = np.unique(key, return_index=True, return_inverse=True)
    heads = mine[own]
    read = np.full(len(aggregate.read_class), -1, dtype=np.int64)
    read[mine] = place.reshape(-1)
    left = read[aggregate.step_read] >= 0
    step_read, step_weight, step_gib = steps(
        read[aggregate.step_read[left]], aggregate.step_weight[left], aggregate.step_gib[left]
    )
    some = datasets[:, None]
    return replace(
        aggregate,
        job_class=merged[aggregate.job_class],
        demand=demand,
        weight=weight,
        homes=aggregate.homes[first],
        always_placeable=aggregate.always_placeable[first],
        read_class=keys // max(1, len(mine)),
        read_dataset=aggregate.read_dataset[heads],
        local_only=aggregate.local_only[heads],
        sources=aggregate.sources[heads],
        step_read=step_read,
        step_weight=step_weight,
        step_gib=step_gib,
        possible=aggregate.possible & some,
        copyable=aggregate.copyable & some,
        present=aggregate.present & some,
        has_replica=aggregate.has_replica & datasets,
        least=aggregate.least * datasets,
    )
