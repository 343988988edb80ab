"""Pools over arrays: the domain of each host, what domains have, and what jobs take of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Task
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.topology import Cluster

Places: TypeAlias = Sequence[tuple[int, int]]
"""The group and the host of each task, as indices."""


class PoolDomains:
    """A pool and the domains of its level.

    Attributes
    ----------
    pool : Pool
        What a document says.
    names : tuple of str or None
        Names of the domains; None is the whole cluster.
    of_host : int64 (hosts,)
        The domain of each host.
    capacity : int64 (domains,)
        What each domain has.
    """

    def __init__(self, pool: Pool, cluster: Cluster) -> None:
        self.pool = pool
        self.names: tuple[str | None, ...] = (None,)
        self.of_host: Ints = np.zeros(cluster.num_hosts, dtype=np.int64)
        if pool.level is not None:
            level = cluster.level_index(pool.level)
            self.names, self.of_host = cluster.names[level], cluster.domain[level].astype(np.int64)
        self.capacity: Ints = np.array(
            [pool.domains.get(name or "", pool.capacity) for name in self.names], dtype=np.int64
        )

    def asked(self, option: Option) -> list[int]:
        """Return what a task of each group takes, or per job what any of them has the job take."""
        if self.pool.per == "job":
            return [option.uses.get(self.pool.resource, 0)] * len(option.groups)
        return [group.resources.get(self.pool.resource, 0) for group in option.groups]

    def taken(self, option: Option, places: Places) -> dict[int, int]:
        """Return by domain what a job takes in some places."""
        each = self.asked(option)
        taken: dict[int, int] = {}
        for group, host in places if any(each) else ():
            if each[group]:
                before = 0 if self.pool.per == "job" else taken.get(int(self.of_host[host]), 0)
                taken[int(self.of_host[host])] = before + each[group]
        return taken

    def held(self, jobs: Iterable[tuple[Option, Places]]) -> Ints:
        """Return what jobs take of each domain, int64 (domains,)."""
        held = np.zeros(len(self.names), dtype=np.int64)
        for option, places in jobs:
            for domain, amount in self.taken(option, places).items():
                held[domain] += amount
        return held

    def limit(self, running: Iterable[tuple[Option, Places]]) -> Ints:
        """Return what jobs may hold of each domain, int64 (domains,), beside those that run.

        That is what it has, or what all running jobs hold of it if that is more.
        """
        return np.maximum(self.capacity, self.held(running))


def pools_of(round_: Round, cluster: Cluster) -> tuple[PoolDomains, ...]:
    """Return the pools of a round's cluster, as documents list them."""
    return tuple(PoolDomains(pool, cluster) for pool in round_.cluster.pools)


def places_of(tasks: Iterable[Task], cluster: Cluster) -> Places:
    """Return the places of tasks."""
    return [(task.group, cluster.host_index[task.host]) for task in tasks]


def running_places(jobs: Iterable[Job], cluster: Cluster) -> list[tuple[Option, Places]]:
    """Return the option and the places of each of the jobs that runs."""
    return [
        (job.options[job.running.option], places_of(job.running.tasks, cluster))
        for job in jobs
        if job.running is not None
    ]
