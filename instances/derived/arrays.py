"""From documents to arrays: the Cluster, its pools, and the State that the running jobs leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.hardware import hardware, links_of_hosts, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import MarginalUsage
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Task
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, GpuLinks, Link, State, assemble
from placewright.topology.units import WHOLE_GPU

# Pools over arrays: the domain of each host, what domains have, and what jobs take of them.


Places: TypeAlias = Sequence[tuple[int, int]]
"""The group and the host of each task, as indices."""


class PoolDomains:
    """A pool and the domains of its level.

    Attributes
    ----------
    pool : Pool
        What a document says.
    names : tuple of str or None
        Names of the domains; None is the whole cluster.
    of_host : int64 (hosts,)
        The domain of each host.
    capacity : int64 (domains,)
        What each domain has.
    """

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self.pool = pool
        self.names: tuple[str | None, ...] = (None,)
        self.of_host: Ints = np.zeros(cluster.num_hosts, dtype=np.int64)
        if pool.level is not None:
            level = cluster.level_index(pool.level)
            self.names, self.of_host = cluster.names[level], cluster.domain[level].astype(np.int64)
        self.capacity: Ints = np.array(
            [pool.domains.get(name or "", pool.capacity) for name in self.names], dtype=np.int64
        )

    def asked(self, option: Option) -> list[int]:
        """Return what a task of each group takes, or per job what any of them has the job take."""
        if self.pool.per == "job":
            return [option.uses.get(self.pool.resource, 0)] * len(option.groups)
        return [group.resources.get(self.pool.resource, 0) for group in option.groups]

    def taken(self, option: Option, places: Places) -> dict[int, int]:
        """Return by domain what a job takes in some places."""
        each = self.asked(option)
        taken: dict[int, int] = {}
        for group, host in places if any(each) else ():
            if each[group]:
                before = 0 if self.pool.per == "job" else taken.get(int(self.of_host[host]), 0)
                taken[int(self.of_host[host])] = before + each[group]
        return taken

    def held(self, jobs: Iterable[tuple[Option, Places]]) -> Ints:
        """Return what jobs take of each domain, int64 (domains,)."""
        held = np.zeros(len(self.names), dtype=np.int64)
        for option, places in jobs:
            for domain, amount in self.taken(option, places).items():
                held[domain] += amount
        return held

    def limit(self, running: Iterable[tuple[Option, Places]]) -> Ints:
        """Return what jobs may hold of each domain, int64 (domains,), beside those that run.

        That is what it has, or what all running jobs hold of it if that is more.
        """
        return np.maximum(self.capacity, self.held(running))


def pools_of(round_: Round, cluster: Cluster) -> tuple[PoolDomains, ...]:
    """Return the pools of a round's cluster, as documents list them."""
    return tuple(PoolDomains(pool, cluster) for pool in round_.cluster.pools)


def places_of(tasks: Iterable[Task], cluster: Cluster) -> Places:
    """Return the places of tasks."""
    return [(task.group, cluster.host_index[task.host]) for task in tasks]


def running_places(jobs: Iterable[Job], cluster: Cluster) -> list[tuple[Option, Places]]:
    """Return the option and the places of each of the jobs that runs."""
    return [
        (job.options[job.running.option], places_of(job.running.tasks, cluster))
        for job in jobs
        if job.running is not None
    ]


# From documents to arrays: the Cluster, and the State that the running jobs leave.


CORE_RESOURCES = ("cpu", "memory")


def build_cluster(document: ClusterDocument) -> Cluster:
    """Return the cluster as arrays; `document` must have passed `check_cluster`.

    Hosts keep the document's order, ranges expanded. What an entry leaves out comes from the
    catalogue if it names a host model, and is 0 otherwise.
    """
    pooled = pooled_resources(document)
    extra = sorted({name for entry in document.hosts for name in entry.resources} | set(pooled))
    resources = (*CORE_RESOURCES, *(name for name in extra if name not in CORE_RESOURCES))
    hosts: list[tuple[str, str | None]] = []
    gpus: list[int] = []
    models: list[str | None] = []
    host_models: list[str | None] = []
    capacity: list[tuple[int, ...]] = []
    gpu_memory: list[int] = []
    product: list[int] = []
    links: dict[GpuLinks, int] = {}
    links_of: list[int] = []
    for entry, inside in zip(document.hosts, links_of_hosts(document), strict=True):
        names = expand(entry.name)
        has = hardware(entry, pooled)
        hosts += [(name, entry.parent) for name in names]
        gpus += [has.gpus] * len(names)
        models += [has.gpu_model] * len(names)
        host_models += [entry.model] * len(names)
        gpu_memory += [has.gpu_memory or 0] * len(names)
        product += [has.product] * len(names)
        number = -1 if inside is None else links.setdefault(inside, len(links))
        links_of += [number] * len(names)
        capacity += [tuple(has.capacity.get(name, 0) for name in resources)] * len(names)
    return assemble(
        document.name,
        document.levels,
        [(d.name, d.level, d.parent) for d in document.domains],
        hosts,
        gpu_count=gpus,
        gpu_model=models,
        resources=resources,
        capacity=capacity,
        host_model=host_models,
        links={level: Link(x.bandwidth_mbps, x.latency_us) for level, x in document.links.items()},
        own_uplinks=document.own_uplinks,
        wan={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in document.wan},
        fabric={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in document.fabric},
        gpu_memory=gpu_memory,
        product=product,
        gpu_links=tuple(links),
        gpu_links_of=links_of,
    )


def build_state(round_: Round, cluster: Cluster) -> State:
    """Return what is free, healthy and busy once the running jobs hold their share.

    `round_` must have passed `check_round`.
    """
    state = State.empty(cluster)
    host_of = cluster.host_index
    resource = {name: i for i, name in enumerate(cluster.resources)}
    together = MarginalUsage(round_)
    for i, job in enumerate(round_.jobs):
        if job.running is None:
            continue
        groups = job.options[job.running.option].groups
        for task in job.running.tasks:
            group, host = together.of(i, task, groups[task.group]), host_of[task.host]
            state.busy[host] = True
            for name, amount in (
                ("cpu", group.cpu),
                ("memory", group.memory),
                *group.resources.items(),
            ):
                if amount:
                    state.free[host, resource[name]] -= amount
            start = int(cluster.gpu_start[host])
            for gpu in task.gpus:
                state.gpu_free[start + gpu] -= min(group.gpu, WHOLE_GPU)
    position = 0
    for entry in round_.cluster.hosts:
        size = len(expand(entry.name))
        if not entry.healthy:
            state.healthy[position : position + size] = False
        position += size
    return state


# Load: the GPUs that pending jobs ask over those that are free.


def load_of(round_: Round) -> float:
    """Return GPUs asked by the pending jobs over GPUs free on healthy hosts.

    A job with options of different sizes asks the largest. Infinite if GPUs are asked and none are
    free, 0 if none are asked. `round_` must have passed `check_round`.
    """
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    free = int(state.gpu_free[np.repeat(state.healthy, cluster.gpu_count)].sum())
    asked = sum(
        max(option.milli_gpu for option in job.options)
        for job in round_.jobs
        if job.running is None
    )
    if not asked:
        return 0.0
    return asked / free if free else float("inf")
