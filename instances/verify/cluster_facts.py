"""Facts about each host of a cluster, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placewright.instances.derived.hardware import Hardware, hardware, pooled_resources
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument
from placewright.topology import CATALOGUE, HostModel
from placewright.topology.units import HOST_LEVEL


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host: what it has, its domains outermost first, itself last, and how it is wired.

    `wiring` is its model of the catalogue, None if it names none.
    """

    name: str
    hardware: Hardware
    domains: tuple[str, ...]
    healthy: bool
    wiring: HostModel | None


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """All hosts by name, and where each level (host included) stands in `HostFacts.domains`.

    `wan` is the Mbit/s between two outermost domains.
    """

    hosts: Mapping[str, HostFacts]
    levels: Mapping[str, int]
    wan: Mapping[frozenset[str], int]


def read_cluster(document: ClusterDocument) -> ClusterFacts:
    """Read a cluster that `check_cluster` accepts."""
    levels = (*document.levels, HOST_LEVEL)
    parents = {(entry.level, entry.name): entry.parent for entry in document.domains}
    hosts, pooled = {}, pooled_resources(document)
    for entry in document.hosts:
        equipment = hardware(entry, pooled)
        wiring = None if entry.model is None else CATALOGUE[entry.model]
        above = _domains(entry.parent, document.levels, parents)
        for name in expand(entry.name):
            hosts[name] = HostFacts(name, equipment, (*above, name), entry.healthy, wiring)
    wan = {frozenset(entry.between): entry.bandwidth_mbps for entry in document.wan}
    return ClusterFacts(hosts, {level: position for position, level in enumerate(levels)}, wan)


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
