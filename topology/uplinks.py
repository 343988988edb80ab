"""The links from domains to those that hold them, level by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.topology.cluster import Cluster
from placewright.topology.collectives import outermost_link

NO_LINK_MBPS = 2**40
"""What a domain without a link has left: more than any groups send."""


@dataclass(frozen=True, eq=False, slots=True)
class Uplinks:
    """The links of the domains of one level.

    Attributes
    ----------
    level : int
    mbps : int
        Bandwidth of each, one way.
    domain : int64 (hosts,)
        The domain of each host.
    exists : bool (domains,)
        Whether a domain has such a link: hosts with NICs have none.
    """

    level: int
    mbps: int
    domain: Ints
    exists: NDArray[np.bool_]

    def spare_beside(self, load: Ints) -> Ints:
        """Return the Mbit/s that a load leaves of each link, less than 0 if it is overloaded."""
        return np.where(self.exists, self.mbps - load, NO_LINK_MBPS)

    def crossed_from(self, hosts: Ints) -> Ints:
        """Return the domains whose links a group on some hosts crosses."""
        used = np.unique(self.domain[hosts])
        return used[self.exists[used]] if len(used) > 1 else used[:0]


def uplinks_of(cluster: Cluster) -> list[Uplinks]:
    """Return the links of each level that has any, outermost first."""
    found = []
    for level, name in enumerate(cluster.levels):
        link = cluster.links.get(name) if level else outermost_link(cluster)
        if link is None:
            continue
        exists = np.ones(len(cluster.names[level]), dtype=np.bool_)
        if level == len(cluster.levels) - 1:
            has_nics = np.array([m.nic_rails > 0 for m in cluster.host_models] + [False])
            exists = ~has_nics[cluster.host_model]
        domain = cluster.domain[level].astype(np.int64)
        found.append(Uplinks(level, link.bandwidth_mbps, domain, exists))
    return found
