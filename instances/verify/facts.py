"""What the Cluster document says about each host, looked up by the host's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placewright.instances.cluster import ClusterDocument
from placewright.instances.hardware import Hardware, hardware
from placewright.instances.ranges import expand

HOST_LEVEL = "host"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host: what it has, and its domains outermost first, itself last."""

    name: str
    hardware: Hardware
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
        equipment = hardware(entry)
        above = _domains(entry.parent, document.levels, parents)
        for name in expand(entry.name):
            hosts[name] = HostFacts(name, equipment, (*above, name), entry.healthy)
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
