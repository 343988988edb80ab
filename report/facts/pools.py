"""Pools: what each domain has of what hosts share, and what jobs take before and after a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.report.facts.placed import Placed, placed_after, placed_before
from placewright.topology import Cluster

WHOLE_CLUSTER = "whole cluster"


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """What jobs take of a pool in one domain of its level, before and after a plan.

    Parameters
    ----------
    resource
        What hosts share.
    where
        The level and the domain, such as `rack r0`, or `whole cluster`.
    capacity
        What the domain has; jobs that ran before may take more.
    before, after
        What jobs take; the same without a plan.
    """

    resource: str
    where: str
    capacity: int
    before: int
    after: int

    @property
    def share(self) -> float:
        """The part of the capacity that is taken after the plan; all of it if there is none."""
        return self.after / self.capacity if self.capacity else float(self.after > 0)


def pool_usage(round_: Round, cluster: Cluster, plan: Plan | None = None) -> list[PoolUsage]:
    """Return the usage of each domain of each pool, the fullest after the plan first."""
    pools = round_.cluster.pools
    if not pools:
        return []
    before = _taken(pools, cluster, placed_before(round_.jobs))
    after = before
    if plan is not None:
        after = _taken(pools, cluster, placed_after({job.name: job for job in round_.jobs}, plan))
    found = [
        PoolUsage(pool.resource, where, capacity, int(old[d]), int(new[d]))
        for pool, old, new in zip(pools, before, after, strict=True)
        for d, (where, capacity) in enumerate(_domains(pool, cluster))
    ]
    return sorted(found, key=lambda usage: -usage.share)


def pool_totals(document: ClusterDocument, cluster: Cluster) -> dict[str, int]:
    """Return what all domains of a resource's pools have together; of several pools, the least."""
    totals: dict[str, int] = {}
    for pool in document.pools:
        total = sum(capacity for _, capacity in _domains(pool, cluster))
        totals[pool.resource] = min(total, totals.get(pool.resource, total))
    return totals


def _domains(pool: Pool, cluster: Cluster) -> list[tuple[str, int]]:
    """Return the domains of a pool as text, with their capacities."""
    if pool.level is None:
        return [(WHOLE_CLUSTER, pool.capacity)]
    return [
        (f"{pool.level} {name}", pool.domains.get(name, pool.capacity))
        for name in cluster.names[cluster.level_index(pool.level)]
    ]


def _taken(pools: Sequence[Pool], cluster: Cluster, placed: Iterable[Placed]) -> list[Ints]:
    """Return what jobs take of the domains of each pool, int64 (domains,)."""
    domain = [
        None if pool.level is None else cluster.domain[cluster.level_index(pool.level)].tolist()
        for pool in pools
    ]
    sums = [np.zeros(len(_domains(pool, cluster)), dtype=np.int64) for pool in pools]
    for option, tasks in placed:
        for pool, of_host, total in zip(pools, domain, sums, strict=True):
            each = [group.resources.get(pool.resource, 0) for group in option.groups]
            use = option.uses.get(pool.resource, 0)
            if not (use if pool.per == "job" else any(each)):
                continue
            where = [
                0 if of_host is None else of_host[cluster.host_index[task.host]] for task in tasks
            ]
            if pool.per == "job":
                total[list(set(where))] += use
            else:
                for task, d in zip(tasks, where, strict=True):
                    total[d] += each[task.group]
    return sums
