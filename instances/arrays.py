"""From documents to arrays: the Cluster, and the State that the running jobs leave."""

from __future__ import annotations

from placewright.instances.cluster import ClusterDocument, HostEntry
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.ranges import expand
from placewright.instances.round import Round
from placewright.topology import CATALOGUE, Cluster, Link, State, assemble

CORE_RESOURCES = ("cpu", "memory")


def build_cluster(document: ClusterDocument) -> Cluster:
    """Return the cluster as arrays; `document` must have passed `references.check_cluster`.

    Hosts keep the document's order, ranges expanded. What an entry leaves out comes from the
    catalogue if it names a host model, and is 0 otherwise.
    """
    extra = sorted({name for entry in document.hosts for name in entry.resources})
    resources = (*CORE_RESOURCES, *(name for name in extra if name not in CORE_RESOURCES))
    hosts: list[tuple[str, str | None]] = []
    gpus: list[int] = []
    models: list[str | None] = []
    hardware: list[str | None] = []
    capacity: list[tuple[int, ...]] = []
    for entry in document.hosts:
        names = expand(entry.name)
        count, model, amounts = _equipment(entry)
        hosts += [(name, entry.parent) for name in names]
        gpus += [count] * len(names)
        models += [model if count else None] * len(names)
        hardware += [entry.model] * len(names)
        capacity += [tuple(amounts.get(name, 0) for name in resources)] * len(names)
    return assemble(
        document.name,
        document.levels,
        [(d.name, d.level, d.parent) for d in document.domains],
        hosts,
        gpu_count=gpus,
        gpu_model=models,
        resources=resources,
        capacity=capacity,
        host_model=hardware,
        links={level: Link(x.bandwidth_mbps, x.latency_us) for level, x in document.links.items()},
        wan={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in document.wan},
    )


def _equipment(entry: HostEntry) -> tuple[int, str | None, dict[str, int]]:
    """GPUs, GPU model and other resources of a host entry."""
    model = CATALOGUE[entry.model] if entry.model else None
    gpus = entry.gpus if entry.gpus is not None else (model.gpus if model else 0)
    gpu_model = entry.gpu_model or (model.gpu_model if model else None)
    cpu = entry.cpu if entry.cpu is not None else (model.cpu_milli if model else 0)
    memory = entry.memory if entry.memory is not None else (model.memory_mib if model else 0)
    return gpus, gpu_model, {"cpu": cpu, "memory": memory, **entry.resources}


def build_state(round_: Round, cluster: Cluster) -> State:
    """Return what is free, healthy and busy once the running jobs hold their share.

    `round_` must have passed `references.check_round`.
    """
    state = State.empty(cluster)
    host_of = cluster.host_index
    resource = {name: i for i, name in enumerate(cluster.resources)}
    for job in round_.jobs:
        if job.running is None:
            continue
        groups = job.options[job.running.option].groups
        for task in job.running.tasks:
            group, host = groups[task.group], host_of[task.host]
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
