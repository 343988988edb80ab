"""Who may share GPUs, what each takes of a GPU then, and in which order of priority."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.common.priority_classes import (
    Precedence,
    PriorityClass,
    class_terms,
    classes_by_precedence,
    lexicographic_weights,
    precedence_of,
)
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.capacity import HostMasks
from placewright.formulations.interleaving.problem.packing_problem import ALONE
from placewright.instances.derived.running_groups import grouping_key
from placewright.instances.derived.speed import speed
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing

# Which jobs never share a GPU, and what each takes of a GPU's memory in a group (Kube-Knots).
#
# Two jobs conflict if the round says so, or if their load peaks together: if the Pearson
# correlation of their series is at least `Sharing.correlation`. With n samples and integers
# throughout,
#
#     1000 (n sum xy - sum x sum y) >= correlation * sqrt((n sum xx - (sum x)^2) (n sum yy - ...))
#
# is decided by the squares of both sides: no rounding can make one half of the code see a conflict
# that another does not. Series of different lengths, shorter than 2, or that never change have no
# correlation.
#
# References
# ----------
# Thinakaran et al., "Kube-Knots: Resource Harvesting through Dynamic Container Orchestration in
# GPU-based Datacenters", CLUSTER 2019: co-location by correlation, sizes at a percentile.


PER_MILLE = 1000
_TOLERANCE = 1e-9  # far above what rounding does to a correlation


def conflicting_pairs(jobs: Sequence[Job], sharing: Sharing) -> Ints:
    """Return the pairs of jobs that never hold one GPU.

    They are (pairs, 2): indices into `jobs`, the smaller first; each pair once, in ascending order.

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


def buckets_of(jobs: Sequence[Job]) -> Ints:
    """Return the bucket of each job, `ALONE` for those that share with nobody, (jobs,).

    Jobs of one bucket ask tasks that are alike but for CPU, memory and other amounts. Jobs without
    stages, with parts of GPUs or with an anti-affinity share with none; nor does a job that runs
    another option than its first.
    """
    numbers: dict[Hashable, int] = {}
    of = [None if (r := job.running) and r.option else grouping_key(job) for job in jobs]
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


# Strict priority: the priority classes by which `weighted_throughput` is written out.
#
# A class holds the jobs of one precedence, and counts the throughput of those that are placed after
# the round; a pinned job counts in none, as its throughput is given.


TERM = "weighted_throughput"


def priority_classes(round_: Round) -> tuple[PriorityClass, ...]:
    """Return the classes of a round, highest first; () where the term stays one."""
    if TERM not in round_.policy.by_class:
        return ()
    jobs = round_.jobs
    return classes_by_precedence(enumerate(jobs), _worth, lambda j, _: precedence_of(jobs[j]))


def jobs_of_class(round_: Round, one: PriorityClass) -> list[Job]:
    """Return the jobs that count in a class."""
    return [
        job
        for job in round_.jobs
        if precedence_of(job) in one.precedences and not (job.running and job.running.pinned)
    ]


@dataclass(frozen=True, slots=True)
class Priorities:
    """The priority classes of the objective; none where it is one term."""

    classes: tuple[PriorityClass, ...]
    terms: tuple[str, ...]  # What the objective stands for, highest class first
    weights: tuple[int, ...]  # With which a sum over these terms is nearly lexicographic
    _numbers: Mapping[Precedence, int]

    @classmethod
    def of(cls, round_: Round, objective: str) -> Priorities:
        """Return the priority classes of a round with this objective."""
        classes = priority_classes(round_) if objective == TERM else ()
        if not classes:
            return cls((), (objective,), (1,), {})
        numbers = {level: k for k, one in enumerate(classes) for level in one.precedences}
        densities: defaultdict[int, list[float]] = defaultdict(list)
        for job in round_.jobs:
            k = numbers.get(precedence_of(job))
            for o, option in enumerate(job.options):
                if k is not None and option.milli_gpu and _worth(job, o):
                    densities[k].append(_worth(job, o) / option.milli_gpu)
        weights = lexicographic_weights(classes, densities)
        return cls(classes, class_terms(objective, len(classes)), weights, numbers)

    def number_of(self, job: Job) -> int:
        """Return the class of a job; 0 of one that is in none."""
        return self._numbers.get(precedence_of(job), 0)

    def counts(self, job: Job) -> bool:
        """Whether a job counts in its class: no pinned one does, where there are classes."""
        return not self.classes or job.running is None or not job.running.pinned


def _worth(job: Job, option: int) -> int:
    """Return what a job on its own adds with an option."""
    return job.weight * speed(job, option)
