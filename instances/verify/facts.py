"""What the Cluster document says about each host, looked up by the host's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placewright.instances.cluster import ClusterDocument, HostEntry
from placewright.instances.ranges import expand
from placewright.topology import CATALOGUE

HOST_LEVEL = "host"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host: GPUs and their model, other resources, domains outermost first, itself last."""

    name: str
    gpus: int
    gpu_model: str | None
    capacity: Mapping[str, int]
    domains: tuple[str, ...]
    healthy: bool


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All hosts by name, and where each level (host included) stands in `HostFacts.domains`."""

    hosts: Mapping[str, HostFacts]
    levels: Mapping[str, int]


def read_cluster(document: ClusterDocument) -> ClusterFacts:
    """Read a cluster that `references.check_cluster` accepts."""
    levels = (*document.levels, HOST_LEVEL)
    parents = {(entry.level, entry.name): entry.parent for entry in document.domains}
    hosts = {}
    for entry in document.hosts:
        capacity, gpus, gpu_model = _hardware(entry)
        above = _domains(entry.parent, document.levels, parents)
        for name in expand(entry.name):
            hosts[name] = HostFacts(name, gpus, gpu_model, capacity, (*above, name), entry.healthy)
    return ClusterFacts(hosts, {level: position for position, level in enumerate(levels)})


def _domains(
    parent: str | None, levels: tuple[str, ...], parents: Mapping[tuple[str, str], str | None]
) -> tuple[str, ...]:
    above: list[str] = []
    for level in reversed(levels):
        if parent is None:
            break
        above.append(parent)
        parent = parents[level, parent]
    return tuple(reversed(above))


def _hardware(entry: HostEntry) -> tuple[dict[str, int], int, str | None]:
    cpu, memory, gpus, gpu_model = entry.cpu, entry.memory, entry.gpus, entry.gpu_model
    if entry.model is not None:
        known = CATALOGUE[entry.model]
        cpu = known.cpu_milli if cpu is None else cpu
        memory = known.memory_mib if memory is None else memory
        gpus = known.gpus if gpus is None else gpus
        gpu_model = known.gpu_model if gpu_model is None else gpu_model
    capacity = {"cpu": cpu or 0, "memory": memory or 0, **entry.resources}
    return capacity, gpus or 0, gpu_model if gpus else None
