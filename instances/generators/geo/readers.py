"""Reads of workloads (recurring jobs) from their datasets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.generators.geo.distributions import (
    JOBS_SIGMA,
    MEDIAN_GIB,
    SIGMA,
    apportion,
    as_counts,
    log_normal,
    order,
    readers,
)

WORKLOADS_PER_DATASET = 5
MOST_READS = 64
"""Datasets that a job may name."""


@dataclass(frozen=True, slots=True, eq=False)
class Readers:
    """Which workload reads which dataset, and which jobs belong to it.

    Attributes
    ----------
    size : Ints
        (datasets,): GiB.
    jobs : Ints
        (workloads,): how many jobs each has, at least one.
    workload, dataset : Ints
        (reads,): by workload, each pair once; each workload and each dataset has one.
    """

    size: Ints
    jobs: Ints
    workload: Ints
    dataset: Ints


def draw_datasets(rng: np.random.Generator, datasets: int) -> tuple[Ints, Ints]:
    """Draw the size in GiB of each dataset, and the number of workloads that read it."""
    size = as_counts(MEDIAN_GIB * log_normal(datasets, SIGMA))
    return size[order(rng, datasets)], readers(datasets)[order(rng, datasets)]


def draw_readers(rng: np.random.Generator, size: Ints, readers: Ints, jobs: int) -> Readers:
    """Draw the reads of `jobs` jobs, of which there are no fewer than datasets.

    There are five workloads per dataset, or fewer where jobs or reads are fewer. The first read of
    each is drawn from all reads, the other reads fall on workloads at random. The numbers of jobs
    per workload are log-normal.

    Parameters
    ----------
    size, readers
        As `draw_datasets` draws them.
    """
    datasets = size.size
    most = min(WORKLOADS_PER_DATASET * datasets, jobs)
    many = np.minimum(readers, most)
    workloads = min(most, int(many.sum()))
    many = np.minimum(many, workloads)

    reads = np.repeat(np.arange(datasets), many)
    reads = reads[order(rng, reads.size)].tolist()
    own: list[set[int]] = [{dataset} for dataset in reads[:workloads]]
    drawn = np.floor(rng.random(len(reads) - workloads) * workloads).astype(np.int64).tolist()
    for dataset, first in zip(reads[workloads:], drawn, strict=True):
        w = first
        while dataset in own[w] or len(own[w]) == MOST_READS:
            w = (w + 1) % workloads
        own[w].add(dataset)

    weights = log_normal(workloads, JOBS_SIGMA)[order(rng, workloads)]
    return Readers(
        size=size,
        jobs=1 + apportion(jobs - workloads, weights),
        workload=np.repeat(np.arange(workloads), [len(one) for one in own]),
        dataset=np.array([d for one in own for d in sorted(one)], dtype=np.int64),
    )
