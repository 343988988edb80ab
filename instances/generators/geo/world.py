"""A generated round of regions as arrays: supply, demand, data and readers; and its document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.instances.documents.geo import Dataset, Geo, Read, Region
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import (
    NOW,
    RESTART_S,
    SINCE_CHECKPOINT_S,
    WEIGHTS,
    Shares,
)
from placewright.instances.generators.geo import supply
from placewright.instances.generators.geo.supply import (
    HOST_GPUS,
    JOBS_SIGMA,
    MEDIAN_GIB,
    SIGMA,
    Rack,
    apportion,
    as_counts,
    chosen,
    log_normal,
    order,
    readers,
)
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.policies import POLICIES

# Reads of workloads (recurring jobs) from their datasets.


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


# Initial places of data, and residency and locality rules.


RESIDENT_DATA = 50
RESIDENT_JOBS = 30
LOCAL = 200
"""Per mille: of datasets and workloads that stay near, and of those whose data is in one place that
read there only."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Residency of datasets and workloads, and which workloads may read remotely.

    Attributes
    ----------
    data, work : Bools
        (datasets, regions), (workloads, regions).
    remote : Bools
        (workloads,).
    """

    data: Bools
    work: Bools
    remote: Bools


def place_data(reads: Readers, asked: Ints, target: Floats) -> Ints:
    """Return the region of each dataset: in descending order of demand, where most is missing.

    A dataset counts with what its readers ask of which it is the largest dataset. Those that are
    the largest of none are spread in proportion to `target`.

    Parameters
    ----------
    asked
        (workloads,): GPUs.
    target
        (regions,): GPUs that those who read there are to ask.
    """
    largest = np.lexsort((-reads.size[reads.dataset], reads.workload))
    first = np.flatnonzero(np.diff(reads.workload[largest], prepend=-1))
    main = reads.dataset[largest[first]]
    weight = np.bincount(main, weights=asked, minlength=reads.size.size)
    missing = target.astype(np.float64)
    region = np.empty(reads.size.size, dtype=np.int64)
    by_weight = np.argsort(-weight, kind="stable")
    main_ones, others = np.split(by_weight, [np.count_nonzero(weight)])
    for d in main_ones.tolist():
        region[d] = int(np.argmax(missing))
        missing[region[d]] -= weight[d]
    region[others] = np.repeat(np.arange(target.size), apportion(others.size, target))
    return region


def homes(reads: Readers, region: Ints, regions: int) -> tuple[Ints, Bools]:
    """Return where most GiB of each workload's data are, and whether all of its data is there."""
    gib = np.zeros((reads.jobs.size, regions), dtype=np.int64)
    np.add.at(gib, (reads.workload, region[reads.dataset]), reads.size[reads.dataset])
    return gib.argmax(axis=1), (gib > 0).sum(axis=1) == 1


def draw_rules(
    rng: np.random.Generator,
    reads: Readers,
    region: Ints,
    usable: Bools,
    rtt: Ints,
) -> Rules:
    """Draw residency and locality such that some region can run each workload once it has the data.

    What must stay stays in the third of the regions, at least two, that are nearest by round-trip
    time.

    Parameters
    ----------
    region
        (datasets,): where each is.
    usable
        (workloads, regions): where a workload finds a GPU model that it accepts.
    rtt
        (regions, regions).
    """
    regions = rtt.shape[0]
    own, together = homes(reads, region, regions)
    data_drawn = chosen(rng, region.size, RESIDENT_DATA)
    work_drawn = chosen(rng, own.size, RESIDENT_JOBS)
    remote = ~(together & chosen(rng, own.size, LOCAL))
    data = np.ones((region.size, regions), dtype=np.bool_)
    work = np.ones((own.size, regions), dtype=np.bool_)
    if regions < 3:
        return Rules(data, work, remote)
    near = _nearest(rtt)
    may = usable.copy()
    for d in np.flatnonzero(data_drawn).tolist():
        readers = reads.workload[reads.dataset == d]
        left = may[readers] & near[region[d]]
        if left.any(axis=1).all():
            data[d], may[readers] = near[region[d]], left
    for w in np.flatnonzero(work_drawn).tolist():
        left = may[w] & near[own[w]]
        if left.any():
            work[w], may[w] = near[own[w]], left
    return Rules(data, work, remote)


def _nearest(rtt: Ints) -> Bools:
    """Return which regions are in the nearest third of each (regions, regions), itself first."""
    regions = rtt.shape[0]
    away = rtt + 1
    np.fill_diagonal(away, 0)
    rank = np.argsort(np.argsort(away, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(rank < max(2, -(-regions // 3)))


# Best-fit placement of running jobs on the hosts of their region.


class Hosting:
    """Hosts by how many GPUs are free, per region and model; whole ones per datacenter.

    A job takes the fullest host that it fits, or whole hosts of one datacenter.
    """

    def __init__(self, layout: Sequence[Rack]) -> None:
        self._free: dict[tuple[int, int], list[list[str]]] = defaultdict(
            lambda: [[] for _ in range(HOST_GPUS)]
        )
        self._whole: dict[tuple[int, int], dict[int, list[str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for rack in reversed(layout):
            whole = self._whole[rack.region, rack.model][rack.datacenter]
            whole.extend(f"{rack.name}-h{slot}" for slot in reversed(range(rack.hosts)))

    def place(self, region: int, model: int, gpus: int) -> tuple[Task, ...]:
        """Place a running job and return its tasks; none if it does not fit."""
        if gpus <= HOST_GPUS:
            return self._one(region, model, gpus)
        hosts = gpus // HOST_GPUS
        for whole in self._whole[region, model].values():
            if len(whole) >= hosts:
                taken = [whole.pop() for _ in range(hosts)]
                every = tuple(range(HOST_GPUS))
                return tuple(Task(index=i, host=host, gpus=every) for i, host in enumerate(taken))
        return ()

    def _one(self, region: int, model: int, gpus: int) -> tuple[Task, ...]:
        partly = self._free[region, model]
        for free in range(gpus, HOST_GPUS):
            if partly[free]:
                return (self._take(partly, partly[free].pop(), free, gpus),)
        for whole in self._whole[region, model].values():
            if whole:
                return (self._take(partly, whole.pop(), HOST_GPUS, gpus),)
        return ()

    @staticmethod
    def _take(partly: list[list[str]], host: str, free: int, gpus: int) -> Task:
        if free > gpus:
            partly[free - gpus].append(host)
        first = HOST_GPUS - free
        return Task(host=host, gpus=tuple(range(first, first + gpus)))


# A generated round of regions as arrays, and its Round document.


PolicyName = Literal["geo", "replicas"]

WINDOW_S = 86_400
STORAGE_PER_MILLE = 1500
"""Room of a region: of what it holds at first, and at least of what regions hold at the mean."""

FULLEST = 0.8
"""Of a region's GPUs running jobs take no more."""

TENANTS = Shares((0, 1, 2, 3, 4, 5, 6, 7), (300, 200, 150, 100, 100, 50, 50, 50))
CAPPED_TENANTS = 2
"""The largest tenants, which hold half of a region at most."""

PASSES = Shares((1, 2, 3), (700, 200, 100))
"""How often a window a workload reads its datasets."""

PRICES = (4_000_000, 2_500_000, 1_200_000)
PRICE_STEP = 10_000
"""Micro-dollars per GPU-hour, a fifth more or less by region, in these steps."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Regions, data and jobs.

    Attributes
    ----------
    wan : WanGrid
        Regions and their links.
    hosts : Ints
        (regions, models).
    layout : tuple of Rack
        Where these hosts are.
    reads : Readers
        Workloads and datasets.
    region : Ints
        (datasets,): where each is.
    models : sequence of Ints
        By workload: what it accepts.
    weight, tenant, passes : Ints
        (workloads,): of a job of it, and how often a window it reads its datasets.
    rules : Rules
        Who must stay where.
    owner, gpus : Ints
        (jobs,): workload and GPUs of each job, by workload.
    """

    wan: WanGrid
    hosts: Ints
    layout: tuple[supply.Rack, ...]
    reads: Readers
    region: Ints
    models: Sequence[Ints]
    weight: Ints
    tenant: Ints
    passes: Ints
    rules: Rules
    owner: Ints
    gpus: Ints


def draw_world(
    rng: np.random.Generator,
    wan: WanGrid,
    hosts: Ints,
    reads: Readers,
    region: Ints,
    models: Sequence[Ints],
    owner: Ints,
    gpus: Ints,
) -> World:
    """Draw the rest: residency, tenants, priorities and values.

    Parameters
    ----------
    wan, hosts, reads, region, models, owner, gpus
        As in `World`.
    """
    usable = np.array([(hosts[:, own] > 0).any(axis=1) for own in models])
    workloads = reads.jobs.size
    return World(
        wan=wan,
        hosts=hosts,
        layout=supply.racks(wan.regions, hosts),
        reads=reads,
        region=region,
        models=models,
        rules=draw_rules(rng, reads, region, usable, wan.rtt_us),
        tenant=TENANTS.pick(rng.random(workloads)),
        weight=WEIGHTS.pick(rng.random(workloads)),
        passes=PASSES.pick(rng.random(workloads)),
        owner=owner,
        gpus=gpus,
    )


def round_of(
    world: World, title: str, policy: PolicyName, running: int, rng: np.random.Generator
) -> Round:
    """Return the round of a world; `running` jobs run, or as many as fit near their data."""
    places = _places(world, running, rng)
    return Round(
        name=title,
        now=NOW,
        cluster=supply.cluster(title, world.wan.regions, world.layout),
        jobs=tuple(_jobs(world, places, rng)),
        tenants=tuple(Tenant(name=f"tenant-{t}") for t in TENANTS.values),
        geo=_geo(world, policy, rng),
        policy=Policy(formulation=policy, priority="preemption"),
    )


def _places(world: World, running: int, rng: np.random.Generator) -> Mapping[int, tuple[Task, ...]]:
    """Place running jobs in a random order, each where most of its data is and it may be."""
    here, _ = homes(world.reads, world.region, len(world.wan.regions))
    free_gpus = (
        np.floor(FULLEST * world.hosts.sum(axis=1) * supply.HOST_GPUS).astype(np.int64).tolist()
    )
    hosting = Hosting(world.layout)
    places: dict[int, tuple[Task, ...]] = {}
    for job in order(rng, world.owner.size).tolist():
        if len(places) == running:
            break
        workload, gpus = int(world.owner[job]), int(world.gpus[job])
        region = int(here[workload])
        if gpus > free_gpus[region] or not world.rules.work[workload, region]:
            continue
        for model in world.models[workload].tolist():
            if tasks := hosting.place(region, model, gpus):
                places[job] = tasks
                free_gpus[region] -= gpus
                break
    return places


def _jobs(
    world: World, places: Mapping[int, tuple[Task, ...]], rng: np.random.Generator
) -> Iterator[Job]:
    """Yield all jobs, by workload; jobs of one workload differ in name and, a few, in GPUs."""
    checkpoint = (NOW - SINCE_CHECKPOINT_S.pick(rng.random(world.owner.size))).tolist()
    restart_s = RESTART_S.pick(rng.random(world.owner.size)).tolist()
    first = np.searchsorted(world.reads.workload, np.arange(world.reads.jobs.size + 1))
    workload, number = -1, 0
    reads: tuple[Read, ...] = ()
    options: dict[int, tuple[Option, ...]] = {}
    regions: tuple[str, ...] | None = None
    for job, (owner, gpus) in enumerate(
        zip(world.owner.tolist(), world.gpus.tolist(), strict=True)
    ):
        if owner != workload:
            workload, number, options = owner, 0, {}
            own = slice(int(first[owner]), int(first[owner + 1]))
            reads = tuple(_reads(world, owner, world.reads.dataset[own].tolist()))
            regions = _names(world.rules.work[owner], world.wan.regions)
        if gpus not in options:
            options[gpus] = (_option(gpus, world.models[owner].tolist()),)
        weight, tasks = int(world.weight[owner]), places.get(job)
        yield Job(
            name=f"w{owner}-{number}",
            tenant=f"tenant-{world.tenant[owner]}",
            priority=weight.bit_length() - 1,
            weight=weight,
            options=options[gpus],
            running=None
            if tasks is None
            else Running(tasks=tasks, checkpoint=checkpoint[job], restart_s=restart_s[job]),
            reads=reads,
            regions=regions,
        )
        number += 1


def _reads(world: World, workload: int, datasets: Sequence[int]) -> Iterator[Read]:
    for d in datasets:
        yield Read(
            dataset=f"d{d}",
            gib=int(world.reads.size[d] * world.passes[workload]),
            remote=bool(world.rules.remote[workload]),
        )


def _option(gpus: int, models: Sequence[int]) -> Option:
    """Return the one option: whole hosts of one datacenter above 8 GPUs."""
    gang = gpus > supply.HOST_GPUS
    every = len(models) == len(supply.MODELS)
    group = TaskGroup(
        count=gpus // supply.HOST_GPUS if gang else 1,
        gpu=min(gpus, supply.HOST_GPUS),
        gpu_models=None if every else tuple(supply.MODELS[m] for m in models),
        required="datacenter" if gang else None,
        preferred=("rack", "block") if gang else None,
    )
    return Option(groups=(group,))


def _geo(world: World, policy: PolicyName, rng: np.random.Generator) -> Geo:
    """Return the section: storage from what is held, budgets from links, prices by model.

    Quotas are for the policy `geo` alone.
    """
    names, size = world.wan.regions, world.reads.size
    held = np.zeros(len(names), dtype=np.int64)
    np.add.at(held, world.region, size)
    storage = np.maximum(
        STORAGE_PER_MILLE * held // 1000,
        STORAGE_PER_MILLE * int(size.sum()) // (1000 * len(names)),
    )
    steps = np.floor(rng.random(len(names)) * 41).astype(np.int64) + 80
    half = world.hosts.sum(axis=1) * supply.HOST_GPUS // 2
    return Geo(
        window_s=WINDOW_S,
        regions=tuple(
            Region(
                name=name,
                storage=int(storage[r]),
                prices={
                    model: price * int(steps[r]) // 100 // PRICE_STEP * PRICE_STEP
                    for m, (model, price) in enumerate(zip(supply.MODELS, PRICES, strict=True))
                    if world.hosts[r, m]
                },
                quotas={f"tenant-{t}": int(half[r]) for t in range(CAPPED_TENANTS)}
                if POLICIES[policy].places_jobs
                else {},
            )
            for r, name in enumerate(names)
        ),
        links=tuple(world.wan.links(WINDOW_S)),
        datasets=tuple(
            Dataset(
                name=f"d{d}",
                size=gib,
                replicas=(names[world.region[d]],),
                regions=_names(world.rules.data[d], names),
            )
            for d, gib in enumerate(size.tolist())
        ),
    )


def _names(may: Bools, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the regions allowed, None if all are."""
    return None if may.all() else tuple(names[r] for r in np.flatnonzero(may).tolist())
