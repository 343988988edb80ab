"""Residual capacity of pools once guaranteed jobs start and others leave."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.pools import Places, places_of, pools_of, running_places
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round


class ResidualPools:
    """What is left of the pools of a round without its running jobs; (pool, domain) pairs.

    Attributes
    ----------
    pools : tuple of PoolDomains
    limits : list of int64 (domains,)
        Of each pool what jobs may hold after the round.
    """

    def __init__(self, round_: Round) -> None:
        self._jobs = round_.jobs
        self._cluster = build_cluster(round_.cluster) if round_.cluster.pools else None
        self.pools = () if self._cluster is None else pools_of(round_, self._cluster)
        running = [] if self._cluster is None else running_places(self._jobs, self._cluster)
        self.limits: list[Ints] = [pool.limit(running) for pool in self.pools]
        self._left = [limit.copy() for limit in self.limits]

    def start(self, job: int, option: int, tasks: Sequence[Task]) -> set[tuple[int, int]]:
        """Charge what a job takes; return the domains that it takes from."""
        return self._charge(self._jobs[job].options[option], tasks, 1)

    def keep(self, job: int, times: int = 1) -> set[tuple[int, int]]:
        """Charge what a running job holds (`times` 1), or release it (-1)."""
        running = self._jobs[job].running
        if running is None:
            return set()
        return self._charge(self._jobs[job].options[running.option], running.tasks, times)

    def enough(self, domains: Collection[tuple[int, int]]) -> bool:
        """Whether no more than may be is taken of some domains."""
        return all(self._left[pool][domain] >= 0 for pool, domain in domains)

    def _charge(self, option: Option, tasks: Sequence[Task], times: int) -> set[tuple[int, int]]:
        places, charged = self._places(tasks), set[tuple[int, int]]()
        for k, pool in enumerate(self.pools):
            for domain, amount in pool.taken(option, places).items():
                self._left[k][domain] -= times * amount
                charged.add((k, domain))
        return charged

    def _places(self, tasks: Sequence[Task]) -> Places:
        return [] if self._cluster is None else places_of(tasks, self._cluster)


def cluster_with_limits(round_: Round) -> ClusterDocument:
    """Return the cluster with as much in its pools as jobs may hold after the round."""
    if not round_.cluster.pools:
        return round_.cluster
    found, residual = [], ResidualPools(round_)
    for pool, limit in zip(residual.pools, residual.limits, strict=True):
        more = {pool.names[d]: int(limit[d]) for d in np.flatnonzero(limit > pool.capacity)}
        capacity = more.pop(None, pool.pool.capacity)
        domains = {**pool.pool.domains, **{str(name): most for name, most in more.items()}}
        found.append(pool.pool.model_copy(update={"capacity": capacity, "domains": domains}))
    return round_.cluster.model_copy(update={"pools": tuple(found)})
