"""Who may share GPUs with whom, by what the jobs are: buckets of jobs that ask alike tasks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.interleaving.grouping.pool import ALONE
from placewright.formulations.interleaving.rows import allowed_hosts
from placewright.instances.alike import likeness
from placewright.instances.job import Job
from placewright.topology import Cluster

Ints = NDArray[np.int64]


def buckets_of(jobs: Sequence[Job]) -> Ints:
    """Return the bucket of each job, `ALONE` for those that share with nobody, (jobs,).

    Jobs of one bucket ask tasks that are alike but for CPU, memory and other amounts. Whoever has
    no stages, takes parts of GPUs or must keep away from others shares with nobody; nor does a job
    that runs another option than its first.
    """
    numbers: dict[Hashable, int] = {}
    of = [_likeness(job) for job in jobs]
    bucket = [ALONE if key is None else numbers.setdefault(key, len(numbers)) for key in of]
    return np.array(bucket, dtype=np.int64)


def memory_of_buckets(jobs: Sequence[Job], cluster: Cluster, bucket: Ints) -> Ints:
    """Return the MiB that each GPU has at most where a bucket may be, 0: no limit, (buckets,)."""
    known = [0] * (int(bucket.max(initial=ALONE)) + 1)
    for b in range(len(known)):
        job = jobs[int(np.flatnonzero(bucket == b)[0])]
        masks = [allowed_hosts(group, cluster) for group in job.options[0].groups]
        known[b] = min(int(cluster.gpu_memory[mask].max(initial=0)) for mask in masks)
    return np.array(known, dtype=np.int64)


def _likeness(job: Job) -> Hashable | None:
    return None if job.running is not None and job.running.option != 0 else likeness(job)
