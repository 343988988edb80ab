"""The term `contention`: by how much the groups that cross links exceed their bandwidth.

A group crosses the link of a domain if it has a task inside and one outside. Links between
outermost domains do not count where the cluster has a WAN, nor do those of hosts with NICs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from placewright.instances.verify.reading import Placed, Reading
from placewright.topology.units import HOST_LEVEL

Link: TypeAlias = tuple[int, str]
"""The level of a domain, by its position, and the domain's name."""


def contention(reading: Reading) -> int:
    """Return Mbit/s beyond the bandwidth of links, less those of the kept jobs alone."""
    return _excess(reading, reading.placed) - _excess(reading, reading.kept)


def _excess(reading: Reading, jobs: Iterable[Placed]) -> int:
    """Return the load of some jobs beyond the bandwidth, summed over all links."""
    load: defaultdict[Link, int] = defaultdict(int)
    for placed in jobs:
        for number, group in enumerate(placed.option.groups):
            rate = group.communication.rate_mbps if group.communication is not None else None
            if rate:
                for link in _crossed(reading, placed, number):
                    load[link] += rate
    width = {
        reading.cluster.levels[level]: entry.bandwidth_mbps
        for level, entry in reading.round.cluster.links.items()
    }
    return sum(max(0, mbps - width[level]) for (level, _), mbps in load.items())


def _crossed(reading: Reading, placed: Placed, number: int) -> set[Link]:
    """Return the links that a group of a job crosses."""
    hosts = [task.host for task in placed.tasks if task.task.group == number]
    crossed: set[Link] = set()
    for level in reading.round.cluster.links:
        position = reading.cluster.levels[level]
        if position == 0 and reading.round.cluster.wan:
            continue
        names = {host.domains[position] for host in hosts}
        if len(names) < 2:
            continue
        if level == HOST_LEVEL:
            names -= {host.name for host in hosts if host.wiring and host.wiring.nic_rails}
        crossed |= {(position, name) for name in names}
    return crossed
