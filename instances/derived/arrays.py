"""From documents to arrays: the Cluster, and the State that the running jobs leave."""

from __future__ import annotations

from placewright.instances.derived.hardware import hardware, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import MarginalUsage
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, Link, State, assemble
from placewright.topology.units import WHOLE_GPU

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
    for entry in document.hosts:
        names = expand(entry.name)
        has = hardware(entry, pooled)
        hosts += [(name, entry.parent) for name in names]
        gpus += [has.gpus] * len(names)
        models += [has.gpu_model] * len(names)
        host_models += [entry.model] * len(names)
        gpu_memory += [has.gpu_memory or 0] * len(names)
        product += [has.product] * len(names)
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
        wan={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in document.wan},
        gpu_memory=gpu_memory,
        product=product,
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
