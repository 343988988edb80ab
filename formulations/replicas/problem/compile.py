"""Aggregation of a round into job classes and dataset classes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import Wan, compile_wan
from placewright.formulations.common.wan.reachability import feasible_replicas
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.problem.problem import Problem, dense_ids
from placewright.instances.documents.round import Round


def compile_replicas(round_: Round) -> Problem:
    """Return the problem of a round of policy `replicas`."""
    return compile_problem(compile_wan(round_))


def compile_problem(wan: Wan) -> Problem:
    """Return the problem of compiled WAN arrays."""
    job_class = _job_classes(wan)
    dataset_class = _dataset_classes(wan, job_class)
    first = np.unique(job_class, return_index=True)[1]
    head = np.unique(dataset_class, return_index=True)[1]
    now = (wan.holds | wan.arriving)[head]
    may_hold = np.ones_like(now)
    np.logical_and.at(may_hold, dataset_class, feasible_replicas(wan))
    may_hold |= now
    read_class, read_dataset_class, read_gib, read_remote = _reads(wan, job_class, dataset_class)
    linked = wan.bandwidth > 0
    may = wan.may_run[first][:, :, None] & wan.may_use[first][:, None, :] & (wan.supply > 0)[None]
    served = may_hold | (may_hold.astype(np.float64) @ linked > 0)
    for w, p, remote in zip(read_class, read_dataset_class, read_remote, strict=True):
        may[w] &= (served if remote else may_hold)[p][:, None]
    return Problem(
        wan=wan,
        job_class=job_class,
        dataset_class=dataset_class,
        count=np.bincount(job_class, minlength=len(first)).astype(np.int64),
        demand=wan.demand[first],
        allowed_homes=may,
        supply=wan.supply,
        size=_sums_by_key(dataset_class, wan.size, len(head)),
        current=now,
        fixed=(wan.arriving & ~wan.complete())[head],
        may_hold=may_hold,
        storage=wan.storage,
        incoming=wan.budget.sum(axis=0),
        outgoing=wan.budget.sum(axis=1),
        linked=linked,
        read_class=read_class,
        read_dataset_class=read_dataset_class,
        read_gib=read_gib,
        read_remote=read_remote,
    )


def _job_classes(wan: Wan) -> Ints:
    """Return the class of each job (jobs,): equal demand, GPU models, regions and reads."""
    reads: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
    for job, dataset, gib, remote in zip(
        wan.read_job.tolist(),
        wan.read_dataset.tolist(),
        wan.read_gib.tolist(),
        wan.read_remote.tolist(),
        strict=True,
    ):
        reads[job].append((dataset, gib, remote))
    return dense_ids(
        [
            (demand, wan.may_use[job].tobytes(), wan.may_run[job].tobytes(), *sorted(reads[job]))
            for job, demand in enumerate(wan.demand.tolist())
        ]
    )


def _dataset_classes(wan: Wan, job_class: Ints) -> Ints:
    """Return the class of each dataset (datasets,); each is its own if there are few."""
    if len(wan.size) <= parameters.PARAMETERS.ungrouped_datasets:
        return np.arange(len(wan.size), dtype=np.int64)
    readers: dict[int, set[tuple[int, int, bool]]] = defaultdict(set)
    for job, dataset, gib, remote in zip(
        job_class[wan.read_job].tolist(),
        wan.read_dataset.tolist(),
        wan.read_gib.tolist(),
        wan.read_remote.tolist(),
        strict=True,
    ):
        readers[dataset].add((job, gib, remote))
    labels: list[object] = []
    for dataset, size in enumerate(wan.size.tolist()):
        # GiB read in proportion to the size: compared as reduced fractions.
        shares = []
        for reader, gib, remote in sorted(readers[dataset]):
            common = int(np.gcd(gib, size))
            shares.append((reader, gib // common, size // common, remote))
        labels.append(
            (
                wan.holds[dataset].tobytes(),
                wan.ready[dataset].tobytes(),
                wan.may_hold[dataset].tobytes(),
                tuple(shares),
            )
        )
    return dense_ids(labels)


def _reads(wan: Wan, job_class: Ints, dataset_class: Ints) -> tuple[Ints, Ints, Ints, Bools]:
    """Return the reads of one job of each class, sorted by job class and dataset class.

    Four arrays (reads,): job class, dataset class, GiB, and whether the read may be remote.
    """
    first = np.unique(job_class, return_index=True)[1]
    mine = np.flatnonzero(first[job_class[wan.read_job]] == wan.read_job)
    reader, read = job_class[wan.read_job[mine]], dataset_class[wan.read_dataset[mine]]
    dataset_classes = int(dataset_class.max(initial=-1)) + 1
    keys, place = np.unique(reader * max(dataset_classes, 1) + read, return_inverse=True)
    gib = _sums_by_key(place, wan.read_gib[mine], len(keys))
    remote = np.ones(len(keys), dtype=np.bool_)
    np.logical_and.at(remote, place, wan.read_remote[mine])
    return keys // max(dataset_classes, 1), keys % max(dataset_classes, 1), gib, remote


def _sums_by_key(place: Ints, amounts: Ints, count: int) -> Ints:
    """Return the sum of the amounts of each key (count,)."""
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, place, amounts)
    return totals
