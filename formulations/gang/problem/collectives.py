"""Lower bounds on the time of a gang's collective, by the domains that its tasks are in.

Ranks go along the tree of domains (task_order.py), so a ring enters and leaves each domain that it
uses once. Its bottleneck is the slowest link that it has to cross, each link with one message. For
trees, and where GPUs form a mesh, that is the best that any order of ranks could reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster
from placewright.topology.collectives import hub_mbps, nvlink_domains, outermost_link, time_us

UNLIMITED = 1 << 60


@dataclass(frozen=True, eq=False, slots=True)
class LinkBandwidths:
    """Mbit/s of one message over the links of a cluster; `UNLIMITED` where nothing is known.

    Attributes
    ----------
    leaving_level : list of int, (levels above the host,)
        Out of a domain of the level, at most.
    nvlink_domain : int64 (hosts,)
        NVLink domain of each host.
    leaving_nvlink_domain, inside_nvlink_domain : int64 (hosts,)
        Out of that domain, and between two of its GPUs, at most.
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
            nvlink_domains(cluster),
            np.array(leaving, dtype=np.int64)[cluster.host_model],
            np.array(inside, dtype=np.int64)[cluster.host_model],
        )


def num_ranks(group: Group) -> int:
    """Return the number of ranks of a group's collective: its GPUs."""
    return group.milli_gpu // 1000


def least_time_us(group: Group, mbps: int) -> int:
    """Return the microseconds of a group's collective at a bottleneck of `mbps`, rounded up."""
    traffic = group.traffic
    if traffic is None or mbps >= UNLIMITED:
        return 0
    return time_us(traffic.pattern, num_ranks(group), traffic.data_mib, mbps)


def least_time_us_within(
    speeds: LinkBandwidths, group: Group, level: int, hosts: NDArray[np.bool_]
) -> int:
    """Return the least microseconds of a gang's collective if the gang spans a whole domain.

    Parameters
    ----------
    level
        The level of the smallest domain that holds all tasks; -1: only the whole cluster does.
    hosts : bool (hosts,)
        Hosts that the gang may use.
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
