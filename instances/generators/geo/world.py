"""A generated round of regions as arrays, and its Round document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.documents.geo import Dataset, Geo, Read, Region
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import NOW
from placewright.instances.generators.geo import supply
from placewright.instances.generators.geo.distributions import order
from placewright.instances.generators.geo.homes import Rules, draw_rules, homes
from placewright.instances.generators.geo.hosting import Hosting
from placewright.instances.generators.geo.readers import Readers
from placewright.instances.generators.mixes import RESTART_S, SINCE_CHECKPOINT_S, WEIGHTS, Shares
from placewright.instances.generators.wan_grid import WanGrid
from placewright.instances.policies import POLICIES

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
