"""Health of hosts: an entry for a range of which some are unhealthy is split, in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import ClusterDocument, HostEntry

__all__ = ["with_health"]


def with_health(cluster: ClusterDocument, health: Mapping[str, bool]) -> ClusterDocument:
    """Return the cluster with some hosts, by name, healthy or not; the order of hosts stays."""
    entries = tuple(part for entry in cluster.hosts for part in _split(entry, health))
    return cluster.model_copy(update={"hosts": entries})


def _split(entry: HostEntry, health: Mapping[str, bool]) -> Iterator[HostEntry]:
    """Yield a host entry as runs of hosts that are healthy, or are not."""
    names = ranges.expand(entry.name)
    if all(health.get(name, entry.healthy) == entry.healthy for name in names):
        yield entry
        return
    prefix = entry.name.partition("[")[0]
    for healthy, group in groupby(names, lambda name: health.get(name, entry.healthy)):
        run = list(group)
        first, last = run[0], run[-1]
        name = f"{prefix}[{first.removeprefix(prefix)}-{last.removeprefix(prefix)}]"
        yield entry.model_copy(update={"name": name if len(run) > 1 else first, "healthy": healthy})
