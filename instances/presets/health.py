"""Health of hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.presets.host_runs import runs_of


def with_health(cluster: ClusterDocument, health: Mapping[str, bool]) -> ClusterDocument:
    """Return the cluster with some hosts, by name, healthy or not; the order of hosts stays."""
    entries = tuple(part for entry in cluster.hosts for part in _split(entry, health))
    return cluster.model_copy(update={"hosts": entries})


def _split(entry: HostEntry, health: Mapping[str, bool]) -> Iterator[HostEntry]:
    for part, healthy in runs_of(entry, lambda name: health.get(name, entry.healthy)):
        yield part.model_copy(update={"healthy": healthy})
