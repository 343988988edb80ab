"""Uplinks: what groups of tasks send over the links of domains, before and after a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.placed import Placed, placed_after, placed_before
from placewright.topology import Cluster
from placewright.topology.uplinks import Uplinks, uplinks_of

CONTENTION = "contention"
"""The term without which nobody asks how full uplinks are."""


@dataclass(frozen=True, slots=True)
class UplinkUsage:
    """What groups send over the link of a domain, in Mbit/s one way, before and after a plan.

    `before` and `after` are the same without a plan.
    """

    level: str
    domain: str
    bandwidth: int
    before: int
    after: int

    @property
    def where(self) -> str:
        """The level and the domain, such as `rack r0`."""
        return f"{self.level} {self.domain}"

    @property
    def share(self) -> float:
        """The part of the bandwidth that is taken after the plan; above 1 there is contention."""
        return self.after / self.bandwidth


def uplink_usage(round_: Round, cluster: Cluster, plan: Plan | None = None) -> list[UplinkUsage]:
    """Return the links over which something is sent, the fullest after the plan first.

    None where the policy has no term `contention`.
    """
    if CONTENTION not in round_.policy.terms:
        return []
    links = uplinks_of(cluster)
    old = _loads(links, cluster, placed_before(round_.jobs))
    new = old
    if plan is not None:
        new = _loads(links, cluster, placed_after({job.name: job for job in round_.jobs}, plan))
    found = [
        UplinkUsage(cluster.levels[link.level], name, link.mbps, int(a), int(b))
        for link, before, after in zip(links, old, new, strict=True)
        for name, a, b in zip(cluster.names[link.level], before, after, strict=True)
        if a or b
    ]
    return sorted(found, key=lambda usage: -usage.share)


def _loads(links: Sequence[Uplinks], cluster: Cluster, jobs: Iterable[Placed]) -> list[Ints]:
    """Return what jobs send over each link, per level int64 (domains,)."""
    loads = [np.zeros(len(link.exists), dtype=np.int64) for link in links]
    number = cluster.host_index
    for option, tasks in jobs:
        for g, group in enumerate(option.groups):
            rate = 0 if group.communication is None else group.communication.rate_mbps or 0
            if rate:
                hosts = np.array([number[task.host] for task in tasks if task.group == g])
                for link, load in zip(links, loads, strict=True):
                    load[link.crossed_from(hosts)] += rate
    return loads
