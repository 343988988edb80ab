"""Aggregation for relaxations: classes of jobs that a linear relaxation need not distinguish.

Jobs that read the same datasets and may run in the same places differ only in demand and in GiB
read. A linear relaxation assigns fractions of a class to regions; which of its jobs read remotely
is chosen by GiB per milli-GPU, cheapest first (`AggregateProblem.step_gib`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import UNLIMITED, Wan
from placewright.formulations.common.wan.reachability import feasible_replicas
from placewright.formulations.replicas.problem.problem import HOMELESS


@dataclass(frozen=True, slots=True, eq=False)
class AggregateProblem:
    """Job classes of a relaxation, their reads, and possible replicas.

    Attributes
    ----------
    job_class : Ints
        (jobs,): the class of each job.
    demand, weight : Ints
        (classes,): total milli-GPU, and the unit in which fractions are counted: the same, or jobs
        for classes without GPU demand.
    homes : Bools
        (classes, regions, models): where it can run after some plan.
    always_placeable : Bools
        (classes,): whether each of its jobs can run after every plan.
    read_class, read_dataset : Ints
        (reads,): the class and the dataset of each read.
    local_only : Bools
        (reads, regions): where the class can run only beside a replica.
    sources : Bools
        (reads, regions, regions): from which regions each region could read, itself included.
    step_read, step_weight, step_gib : Ints
        (steps,): jobs of a class with equal GiB per weight: their read, weight, and GiB read.
    possible, copyable, present : Bools
        (datasets, regions): where a replica could be after some plan, where it would be a new copy,
        and where one is or is under way.
    has_replica : Bools
        (datasets,): whether it has a replica now, and so keeps one.
    least : Ints
        (datasets,): proven lower bound on GiB copied and read remotely.
    storage, ingress, egress : Ints
        (regions,): GiB of storage after the plan, and of copies into and out of the region.
    overload : int
        Upper bound on the overload of the plans considered.
    """

    wan: Wan
    job_class: Ints
    demand: Ints
    weight: Ints
    homes: Bools
    always_placeable: Bools
    read_class: Ints
    read_dataset: Ints
    local_only: Bools
    sources: Bools
    step_read: Ints
    step_weight: Ints
    step_gib: Ints
    possible: Bools
    copyable: Bools
    present: Bools
    has_replica: Bools
    least: Ints
    storage: Ints
    ingress: Ints
    egress: Ints
    overload: int

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.demand)

    @property
    def homeless(self) -> Bools:
        """Which classes cannot have a home whatever is copied (classes,)."""
        never: Bools = np.logical_not(self.homes.any(axis=(1, 2)))
        return never

    def with_limits_in(self, tight: Bools) -> Self:
        """Return it with limits on storage and ingress in some regions only, and none on egress.

        Parameters
        ----------
        tight
            (regions,): the regions with limits.
        """
        all_gib = int(self.wan.size.sum())
        return replace(
            self,
            storage=np.where(tight, self.storage, UNLIMITED),
            ingress=np.where(tight, self.ingress, all_gib),
            egress=np.full_like(self.egress, all_gib),
        )

    def with_feasible_homes(self) -> Self:
        """Return it without homes whose required local data cannot fit.

        Required data must fit the storage, and what is not there yet the links into the region.
        """
        size = self.wan.size[self.read_dataset][:, None] * self.local_only
        held, copied = np.zeros((2, *self.homes.shape[:2]), dtype=np.int64)
        np.add.at(held, self.read_class, size)
        np.add.at(copied, self.read_class, size * self.copyable[self.read_dataset])
        fits: Bools = (held <= self.storage) & (copied <= self.ingress)
        return replace(self, homes=self.homes & fits[:, :, None])


def aggregate_problem(wan: Wan) -> AggregateProblem:
    """Return the job classes of a round and its possible replicas."""
    there = wan.holds | wan.arriving
    storage = np.maximum(wan.storage, wan.size @ there)
    possible = feasible_replicas(wan)
    job, dataset, gib, remote = _reads(wan)
    job_class, first = _classes(wan, job, dataset, remote)
    classes = len(first)
    weight = np.maximum(wan.demand, np.where(wan.demand > 0, 0, 1))
    demand_of, weight_of = np.zeros((2, classes), dtype=np.int64)
    np.add.at(demand_of, job_class, wan.demand)
    np.add.at(weight_of, job_class, weight)

    # A class reads what its first job reads.
    own = np.flatnonzero(first[job_class[job]] == job)
    read_class, read_dataset, read_remote = job_class[job[own]], dataset[own], remote[own]
    linked = (wan.bandwidth > 0).T
    np.fill_diagonal(linked, val=True)
    # served[k, r, s]: region r could read from region s.
    served = linked[None, :, :] & (possible & wan.may_hold)[read_dataset][:, None, :]
    local = np.eye(len(wan.regions), dtype=np.bool_)[None, :, :]
    served &= read_remote[:, None, None] | local
    near = served.sum(axis=2) == np.diagonal(served, axis1=1, axis2=2)

    allowed = wan.may_run[first].copy()
    np.logical_and.at(allowed, read_class, served.any(axis=2))
    homes = allowed[:, :, None] & wan.may_use[first][:, None, :] & (wan.supply > 0)
    # Whoever reads from wherever the replicas are has a home after every plan.
    always = (served | ~possible[read_dataset][:, None, :]).all(axis=2)
    kept: Bools = np.logical_or.reduce(there, axis=1)
    always &= kept[read_dataset][:, None]
    anywhere = np.ones((classes, len(wan.regions)), dtype=np.bool_)
    np.logical_and.at(anywhere, read_class, always)
    sure: Bools = np.logical_or.reduce(anywhere & np.logical_or.reduce(homes, axis=2), axis=1)

    # The read of its class that each read of a job is.
    span = max(1, len(wan.datasets))
    key = read_class * span + read_dataset
    order = np.argsort(key)
    read = order[np.searchsorted(key[order], job_class[job] * span + dataset)]
    step_read, step_weight, step_gib = steps(read, weight[job], gib)
    inwards = wan.budget * (wan.bandwidth > 0)
    return AggregateProblem(
        wan=wan,
        job_class=job_class,
        demand=demand_of,
        weight=weight_of,
        homes=homes,
        always_placeable=sure,
        read_class=read_class,
        read_dataset=read_dataset,
        local_only=near,
        sources=served,
        step_read=step_read,
        step_weight=step_weight,
        step_gib=step_gib,
        possible=possible,
        copyable=possible & ~there,
        present=there,
        has_replica=kept,
        least=np.zeros(len(kept), dtype=np.int64),
        storage=storage,
        ingress=inwards.sum(axis=0),
        egress=inwards.sum(axis=1),
        overload=HOMELESS * int(wan.demand.sum()),
    ).with_feasible_homes()


def _reads(wan: Wan) -> tuple[Ints, Ints, Ints, Bools]:
    """Return job, dataset, GiB, and whether it may be remote, of each (job, dataset) read."""
    span = max(1, len(wan.datasets))
    key, at = np.unique(wan.read_job * span + wan.read_dataset, return_inverse=True)
    gib = np.zeros(len(key), dtype=np.int64)
    np.add.at(gib, at, wan.read_gib)
    remote = np.ones(len(key), dtype=np.bool_)
    np.logical_and.at(remote, at, wan.read_remote)
    return key // span, key % span, gib, remote


def _classes(wan: Wan, job: Ints, dataset: Ints, remote: Bools) -> tuple[Ints, Ints]:
    """Return the class of each job (jobs,), and the first job of each class (classes,)."""
    number = len(wan.demand)
    start = np.searchsorted(job, np.arange(number + 1))
    reads = dataset * 2 + remote
    known: dict[bytes, int] = {}
    first: list[int] = []
    job_class = np.zeros(number, dtype=np.int64)
    flags = np.column_stack([wan.may_run, wan.may_use, wan.demand > 0])
    for j in range(number):
        key = flags[j].tobytes() + reads[start[j] : start[j + 1]].tobytes()
        job_class[j] = known.setdefault(key, len(first))
        if job_class[j] == len(first):
            first.append(j)
    return job_class, np.array(first, dtype=np.int64)


def steps(read: Ints, weight: Ints, gib: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge reads of a class with equal GiB per weight.

    Of shapes (n,) before and (steps,) after: the read of the class, the weight of the jobs, and
    GiB.
    """
    common = np.gcd(weight, gib)
    parts = np.column_stack([read, weight // common, gib // common])
    kinds, at = np.unique(parts, axis=0, return_inverse=True)
    total = np.zeros((2, len(kinds)), dtype=np.int64)
    np.add.at(total[0], at.reshape(-1), weight)
    np.add.at(total[1], at.reshape(-1), gib)
    return kinds[:, 0], total[0], total[1]
