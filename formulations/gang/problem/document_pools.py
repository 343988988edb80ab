"""Pools of a round as arrays over hosts and domains, before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.topology import Cluster

WHOLE_CLUSTER = -1


@dataclass(frozen=True, eq=False, slots=True)
class DocumentPool:
    """A pool of a document, and its domains.

    Attributes
    ----------
    entry : Pool
    level : int
        Index of the level; `WHOLE_CLUSTER` where all hosts share one pool.
    domain : int64 (hosts,)
        The domain of each host.
    limit : int64 (domains,)
        What jobs may hold: the capacity, or what running jobs hold if that is more.
    """

    entry: Pool
    level: int
    domain: Ints
    limit: Ints

    def taken(self, option: Option, tasks: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Return what an option takes of each domain; `tasks` are (group, host) pairs."""
        name = self.entry.resource
        amount = option.uses.get(name, 0) if self.entry.per == "job" else 0
        each = [0 if amount else group.resources.get(name, 0) for group in option.groups]
        counted = amount or (self.entry.per == "task" and any(each))
        found: dict[int, int] = {}
        for group, host in tasks if counted else ():
            d = int(self.domain[host])
            found[d] = amount or found.get(d, 0) + each[group]
        return found

    def held(self, cluster: Cluster, jobs: Iterable[Job]) -> Ints:
        """Return what running jobs hold of each domain, int64 (domains,)."""
        held, host = np.zeros_like(self.limit), cluster.host_index
        for job in jobs:
            if job.running is not None:
                option = job.options[job.running.option]
                tasks = [(task.group, host[task.host]) for task in job.running.tasks]
                for d, amount in self.taken(option, tasks).items():
                    held[d] += amount
        return held


def document_pools(round_: Round, cluster: Cluster) -> list[DocumentPool]:
    """Return the pools of a round, those of the whole cluster among them."""
    found = []
    for entry in round_.cluster.pools:
        level = WHOLE_CLUSTER
        names: tuple[str, ...] = ("",)
        domain = np.zeros(cluster.num_hosts, dtype=np.int64)
        if entry.level is not None:
            level = cluster.level_index(entry.level)
            domain, names = cluster.domain[level].astype(np.int64), cluster.names[level]
        capacity = np.array([entry.domains.get(n, entry.capacity) for n in names], dtype=np.int64)
        pool = DocumentPool(entry, level, domain, capacity)
        np.maximum(capacity, pool.held(cluster, round_.jobs), out=capacity)
        found.append(pool)
    return found
