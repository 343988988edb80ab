"""How fast the collectives of gangs can be at best, by where their tasks are.

Ranks go along the tree of domains (ranking.py), so a ring leaves each domain that it uses once and
enters it once: its bottleneck is the slowest of the links that it has to cross, each with one
message. For a tree, and where GPUs form a mesh, that is the best there could be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster
from placewright.topology.collectives import (
    Ints,
    hub_mbps,
    islands,
    outermost_link,
    time_us,
)

UNLIMITED = 1 << 60


@dataclass(frozen=True, eq=False, slots=True)
class LinkBandwidths:
    """Mbit/s of one message, `UNLIMITED` where nothing is known.

    Attributes
    ----------
    leaving_level : list of int
        Per level above the host, what leaving one of its domains allows at most.
    nvlink_domain : int64 (hosts,)
        Which NVLink domain a host is in.
    leaving_nvlink_domain, inside_nvlink_domain : int64 (hosts,)
        Out of that, and between two of its GPUs at most.
    """

    leaving_level: list[int]
    nvlink_domain: Ints
    leaving_nvlink_domain: Ints
    inside_nvlink_domain: Ints

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Look up the links of a cluster."""
        links = [cluster.links.get(name) for name in cluster.levels]
        links[0] = outermost_link(cluster)
        level = [UNLIMITED if link is None else link.bandwidth_mbps for link in links]
        outermost = len(cluster.names[0])
        if len(cluster.wan) == outermost * (outermost - 1) // 2 and cluster.wan:
            level[0] = max(link.bandwidth_mbps for link in cluster.wan.values())
        leaving, inside = [], []
        for model in cluster.host_models:
            nic = min(model.nic_link.bandwidth_mbps, model.pcie_link.bandwidth_mbps)
            leaving.append(nic if model.nic_rails else level[-1])
            mesh = model.intra == "nvlink-mesh"
            inside.append(model.gpu_link.bandwidth_mbps if mesh else hub_mbps(model))
        leaving.append(level[-1])  # of unknown hardware, whose index is -1
        inside.append(UNLIMITED)
        return cls(
            level[:-1],
            islands(cluster),
            np.array(leaving, dtype=np.int64)[cluster.host_model],
            np.array(inside, dtype=np.int64)[cluster.host_model],
        )


def num_ranks(group: Group) -> int:
    """Return how many GPUs a group has."""
    return group.milli_gpu // 1000


def least_time_us(group: Group, mbps: int) -> int:
    """Return the microseconds of a group's collective at a bottleneck, rounded up."""
    traffic = group.traffic
    if traffic is None or mbps >= UNLIMITED:
        return 0
    return time_us(traffic.pattern, num_ranks(group), traffic.data_mib, mbps)


def least_time_us_within(
    speeds: LinkBandwidths, group: Group, level: int, hosts: NDArray[np.bool_]
) -> int:
    """Return the least time of a gang that needs all of a domain of a level (-1: the cluster).

    It lies in no domain of the next level, and only on some of the `hosts`, (hosts,).
    """
    last = len(speeds.leaving_level)
    widths = [UNLIMITED, *speeds.leaving_level[level + 1 :]]
    if not hosts.any():
        return 0
    alone = np.unique(speeds.nvlink_domain[hosts]).size == int(hosts.sum())
    if level < last - 1 or (level < last and alone):
        widths.append(int(speeds.leaving_nvlink_domain[hosts].max()))
    if num_ranks(group) > group.count or level == last:
        widths.append(int(speeds.inside_nvlink_domain[hosts].max()))
    return least_time_us(group, min(widths))
