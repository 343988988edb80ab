"""Compatibility: buckets of jobs that may share GPUs, since their tasks are alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving.problem.allowed_hosts import HostMasks
from placewright.formulations.interleaving.problem.conflicts import size_in_group
from placewright.formulations.interleaving.problem.packing_problem import ALONE
from placewright.instances.derived.compatibility import grouping_key
from placewright.instances.documents.job import Job
from placewright.instances.documents.sharing import Sharing


def buckets_of(jobs: Sequence[Job]) -> Ints:
    """Return the bucket of each job, `ALONE` for those that share with nobody, (jobs,).

    Jobs of one bucket ask tasks that are alike but for CPU, memory and other amounts. Jobs without
    stages, with parts of GPUs or with an anti-affinity share with none; nor does a job that runs
    another option than its first.
    """
    numbers: dict[Hashable, int] = {}
    of = [_compatibility_key(job) for job in jobs]
    bucket = [ALONE if key is None else numbers.setdefault(key, len(numbers)) for key in of]
    return np.array(bucket, dtype=np.int64)


def gpu_memory_of_buckets(
    jobs: Sequence[Job], masks: HostMasks, bucket: Ints, sharing: Sharing
) -> tuple[Ints, Ints]:
    """Return the MiB per GPU of each job in a group, and the limit of each bucket.

    Of a bucket with several task groups, the one of highest memory load counts.

    Returns
    -------
    int64 (jobs,)
        MiB of each GPU.
    int64 (buckets,)
        Most MiB of a GPU where such tasks may be, 0: no limit.
    """
    memory = np.zeros(len(jobs), dtype=np.int64)
    limit = np.zeros(int(bucket.max(initial=ALONE)) + 1, dtype=np.int64)
    for b in range(len(limit)):
        at = np.flatnonzero(bucket == b)
        mine = [jobs[c] for c in at.tolist()]
        highest_load = -1.0
        for number in range(len(mine[0].options[0].groups)):
            groups = [job.options[0].groups[number] for job in mine]
            pairs = list(zip(mine, groups, strict=True))
            reached = np.any([masks.with_current(job, group) for job, group in pairs], axis=0)
            most = int(masks.cluster.gpu_memory[reached].max(initial=0))
            sizes = [size_in_group(job, group, sharing) for job, group in pairs]
            if most and sum(sizes) / most > highest_load:
                highest_load, limit[b], memory[at] = sum(sizes) / most, most, sizes
    return memory, limit


def _compatibility_key(job: Job) -> Hashable | None:
    return None if job.running is not None and job.running.option != 0 else grouping_key(job)
