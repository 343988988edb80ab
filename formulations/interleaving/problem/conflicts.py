"""Which jobs never share a GPU, and what each takes of a GPU's memory in a group (Kube-Knots).

Two jobs conflict if the round says so, or if their load peaks together: if the Pearson correlation
of their series is at least `Sharing.correlation`. With n samples and integers throughout,

    1000 (n sum xy - sum x sum y) >= correlation * sqrt((n sum xx - (sum x)^2) (n sum yy - ...))

is decided by the squares of both sides: no rounding can make one half of the code see a conflict
that another does not. Series of different lengths, shorter than 2, or that never change have no
correlation.

References
----------
Thinakaran et al., "Kube-Knots: Resource Harvesting through Dynamic Container Orchestration in
GPU-based Datacenters", CLUSTER 2019: co-location by correlation, sizes at a percentile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.sharing import Sharing

PER_MILLE = 1000
_TOLERANCE = 1e-9  # far above what rounding does to a correlation


def conflicting_pairs(jobs: Sequence[Job], sharing: Sharing) -> Ints:
    """Return the pairs of jobs that never hold one GPU.

    Returns
    -------
    int64 (pairs, 2)
        Indices into `jobs`, the smaller first; each pair once, in ascending order.

    Notes
    -----
    Memory grows with the pairs that conflict, time with jobs^2 * samples, by matrix products.
    """
    index = {job.name: i for i, job in enumerate(jobs)}
    known = [pair for pair in sharing.conflicts if pair[0] in index and pair[1] in index]
    listed = np.array([(index[one], index[other]) for one, other in known], dtype=np.int64)
    pairs = [np.sort(listed.reshape(-1, 2), axis=1)]
    if sharing.correlation is not None:
        series: defaultdict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        for i, job in enumerate(jobs):
            if job.profile is not None and len(job.profile.load) > 1:
                series[len(job.profile.load)].append((i, job.profile.load))
        for same_length in series.values():
            of = np.array([i for i, _ in same_length], dtype=np.int64)
            loads = np.array([load for _, load in same_length], dtype=np.float64)
            pairs += [of[found] for found in _correlated(loads, sharing.correlation)]
    firsts, seconds = np.concatenate(pairs).T
    return np.stack(np.divmod(np.unique(firsts * len(jobs) + seconds), max(len(jobs), 1)), axis=1)


def size_in_group(job: Job, group: TaskGroup, sharing: Sharing) -> int:
    """Return the MiB that a task of a job takes of each of its GPUs in a group of jobs.

    That is the percentile by nearest rank of the job's `memory` series, or without one what its
    task group asks.
    """
    measured = None if job.profile is None else job.profile.memory_at(sharing.percentile)
    return group.gpu_memory if measured is None or not group.gpu else measured


def _correlated(loads: NDArray[np.float64], threshold: int) -> Iterator[Ints]:
    """Yield the pairs of rows whose correlation is at least `threshold` thousandths, in parts.

    With samples of at most 1000, and 10,000 of them, the sums are exact in the 53 bits of a float.
    The product of two variances is not: close cases are decided by Python's integers.
    """
    rows, samples = loads.shape
    sums = loads.sum(axis=1)
    variance = samples * (loads * loads).sum(axis=1) - sums * sums
    root = np.sqrt(variance)
    step = max(1, parameters.PARAMETERS.correlation_chunk_pairs // rows)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        covariance = samples * (loads[part] @ loads.T) - sums[part, None] * sums
        both = root[part, None] * root
        later = np.arange(rows)[part, None] < np.arange(rows)
        excess = np.full(both.shape, -1.0)
        np.divide(covariance, both, out=excess, where=later & (both > 0))
        excess[later & (both > 0)] -= threshold / PER_MILLE
        undecided = np.argwhere(np.abs(excess) <= _TOLERANCE)
        certain = np.argwhere(excess > _TOLERANCE)
        proven = [
            _at_least(int(covariance[i, j]), int(variance[start + i]), int(variance[j]), threshold)
            for i, j in undecided
        ]
        found: Ints = np.concatenate([certain, undecided[np.array(proven, dtype=bool)]])
        found[:, 0] += start
        yield found


def _at_least(covariance: int, one: int, other: int, threshold: int) -> bool:
    return covariance >= 0 and (PER_MILLE * covariance) ** 2 >= threshold**2 * one * other
