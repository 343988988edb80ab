"""Aggregation of a round into job classes and dataset classes, for relaxations too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import (
    UNLIMITED,
    Wan,
    compile_wan,
    feasible_replicas,
)
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.problem.problem import HOMELESS, Problem, dense_ids
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
    return _summed(
        reader,
        read,
        int(dataset_class.max(initial=-1)) + 1,
        wan.read_gib[mine],
        wan.read_remote[mine],
    )


def _summed(
    reader: Ints, read: Ints, datasets: int, gib: Ints, remote: Bools
) -> tuple[Ints, Ints, Ints, Bools]:
    """Return reader, dataset, GiB, and whether all may be remote, of each (reader, dataset)."""
    span = max(1, datasets)
    keys, place = np.unique(reader * span + read, return_inverse=True)
    may_be_remote = np.ones(len(keys), dtype=np.bool_)
    np.logical_and.at(may_be_remote, place, remote)
    return keys // span, keys % span, _sums_by_key(place, gib, len(keys)), may_be_remote


def _sums_by_key(place: Ints, amounts: Ints, count: int) -> Ints:
    """Return the sum of the amounts of each key (count,)."""
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, place, amounts)
    return totals


# Aggregation for relaxations: classes of jobs that a linear relaxation need not distinguish.
#
# Jobs that read the same datasets and may run in the same places differ only in demand and in GiB
# read. A linear relaxation assigns fractions of a class to regions; which of its jobs read remotely
# is chosen by GiB per milli-GPU, cheapest first (`AggregateProblem.step_gib`).


@dataclass(frozen=True, slots=True, eq=False)
class AggregateProblem:
    """Job classes of a relaxation, their reads, and possible replicas."""

    wan: Wan
    job_class: Ints  # (jobs,): the class of each job
    # demand, weight: (classes,): total milli-GPU, and the unit in which fractions are counted: the
    # same, or jobs for classes without GPU demand.
    demand: Ints
    weight: Ints
    homes: Bools  # (classes, regions, models): where it can run after some plan
    always_placeable: Bools  # (classes,): whether each of its jobs can run after every plan
    # read_class, read_dataset: (reads,): the class and the dataset of each read.
    read_class: Ints
    read_dataset: Ints
    local_only: Bools  # (reads, regions): where the class can run only beside a replica
    # (reads, regions, regions): from which regions each region could read, itself included.
    sources: Bools
    # step_read, step_weight, step_gib: (steps,): jobs of a class with equal GiB per weight: their
    # read, weight, and GiB read.
    step_read: Ints
    step_weight: Ints
    step_gib: Ints
    # possible, copyable, present: (datasets, regions): where a replica could be after some plan,
    # where it would be a new copy, and where one is or is under way.
    possible: Bools
    copyable: Bools
    present: Bools
    has_replica: Bools  # (datasets,): whether it has a replica now, and so keeps one
    least: Ints  # (datasets,): proven lower bound on GiB copied and read remotely
    # storage, ingress, egress: (regions,): GiB of storage after the plan, and of copies into and
    # out of the region.
    storage: Ints
    ingress: Ints
    egress: Ints
    overload: int  # Upper bound on the overload of the plans considered

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

        `tight` (regions,): the regions with limits.
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
    job, dataset, gib, remote = _summed(
        wan.read_job, wan.read_dataset, len(wan.datasets), wan.read_gib, wan.read_remote
    )
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


# Restriction of a relaxation to some datasets: reads of all others cost nothing.
#
# Bounds of the restricted problem hold for the whole: every plan remains and costs no more. Job
# classes that differ only in reads left out are merged, so the LP is far smaller.


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


# Lower bound on remote reads, and the homes and replicas that attain it.
#
# What a job reads and its region cannot hold is read remotely. Each job reads at least as much as
# in the region where that is least; no plan reads less than the sum over jobs, and in a plan that
# attains it each job runs in such a region, beside all of its data that can be there.


def least_remote_reads(aggregate: AggregateProblem) -> int:
    """Return a lower bound on the GiB that are read remotely, or by jobs without a home."""
    return int(_remote_gib_of_jobs(aggregate).min(axis=1).sum())


def restrict_to_values(aggregate: AggregateProblem, held: Mapping[str, int]) -> AggregateProblem:
    """Return the aggregate problem of plans whose terms are at most the given values."""
    aggregate = replace(
        aggregate, overload=min(aggregate.overload, held.get("overload", aggregate.overload))
    )
    remote = _remote_gib_of_jobs(aggregate)
    least = remote.min(axis=1)
    if held.get("remote_reads", np.inf) > least.sum():
        return aggregate
    there = np.zeros(aggregate.homes.shape[:2], dtype=np.bool_)
    np.logical_or.at(there, aggregate.job_class, remote[:, :-1] == least[:, None])
    near = aggregate.local_only | aggregate.possible[aggregate.read_dataset]
    return replace(
        aggregate, homes=aggregate.homes & there[:, :, None], local_only=near
    ).with_feasible_homes()


def homes_of_least_remote_reads(problem: Problem) -> tuple[Bools, int]:
    """Return where job classes read least remotely (job classes, regions), and the GiB of all."""
    absent = np.logical_not(problem.may_hold[problem.read_dataset_class])
    lives = np.logical_or.reduce(problem.allowed_homes, axis=2)
    remote = _remote_gib(lives, problem.read_class, problem.read_gib, absent)
    least = remote.min(axis=1)
    return lives & (remote[:, :-1] == least[:, None]), int(problem.count @ least)


def forced_replicas(problem: Problem) -> Bools:
    """Return the replicas (dataset classes, regions) without which some job reads more remotely.

    Those of classes with a single region of least remote reads.
    """
    least, _ = homes_of_least_remote_reads(problem)
    alone = (least.sum(axis=1) == 1)[problem.read_class]
    region = least.argmax(axis=1)[problem.read_class]
    found = np.zeros_like(problem.may_hold)
    found[problem.read_dataset_class[alone], region[alone]] = True
    return found & problem.may_hold


def _remote_gib_of_jobs(aggregate: AggregateProblem) -> Ints:
    lives = np.logical_or.reduce(aggregate.homes, axis=2)[aggregate.job_class]
    absent = np.logical_not(aggregate.possible[aggregate.wan.read_dataset])
    return _remote_gib(lives, aggregate.wan.read_job, aggregate.wan.read_gib, absent)


def _remote_gib(lives: Bools, reader: Ints, gib: Ints, absent: Bools) -> Ints:
    """Return GiB read remotely by region, then without a home (readers, regions + 1).

    `lives` (readers, regions): where they may run. `reader`, `gib` and `absent` (reads,), (reads,)
    and (reads, regions): what is read, and where it cannot be.
    """
    remote = np.zeros((len(lives), lives.shape[1] + 1), dtype=np.int64)
    np.add.at(remote, reader, gib[:, None] * np.pad(absent, ((0, 0), (0, 1)), constant_values=True))
    # Whoever cannot run somewhere reads no less there than nowhere.
    remote[:, :-1] = np.where(lives, remote[:, :-1], remote[:, -1:])
    return remote
