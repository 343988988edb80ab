"""Pools: what the domains of a level, or the whole cluster, have of a resource.

A task takes its `demand` from the pools around its host. Where a resource is counted per job, a job
of several tasks takes its use once from each domain in which it has one (`Choice.uses`); a job of
one task takes it like any other demand.

What the whole cluster has, and what all domains can give together, are accounts (quotas.py): rows
over the options of all jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Choice, Group, JobClass
from placewright.formulations.gang.problem.quotas import (
    QuotaKey,
    account_numbers,
    of_use,
    use_numbers,
)
from placewright.formulations.gang.problem.shapes import ShapeTable
from placewright.instances.derived.pools import pools_of, running_places
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import UNLIMITED, WHOLE_GPU

WHOLE_CLUSTER = -1
"""Level index of the whole cluster, which holds the outermost domains."""

PER_TASK = -1


@dataclass(frozen=True, eq=False, slots=True)
class Pool:
    """A pool of each domain of a level.

    Attributes
    ----------
    resource : str
    level : int
        Index of the level; `WHOLE_CLUSTER` where all hosts share one pool.
    domain : int64 (hosts,)
        The domain of each host.
    limit : int64 (domains,)
        What jobs that are not pinned may take. A domain that holds more than it has may keep it.
    demand : int64 (shapes,)
        What a task takes of the pools around its host.
    use : int
        Number of the resource in `Choice.uses`, `PER_TASK` if it is counted per task.
    """

    resource: str
    level: int
    domain: Ints
    limit: Ints
    demand: Ints
    use: int

    def used_by(self, uses: Iterable[tuple[int, int]]) -> int:
        """Return what a job of several tasks takes of each domain in which it has one."""
        return 0 if self.use == PER_TASK else dict(uses).get(self.use, 0)

    def taken(self, choice: Choice, tasks: Iterable[tuple[int, int, int]]) -> dict[int, int]:
        """Return what a job takes of each domain of which it takes something.

        `tasks` are (group, host, number).
        """
        amount = self.used_by(choice.uses) if choice.num_tasks > 1 else 0
        each = [int(self.demand[group.shape]) for group in choice.groups]
        found: dict[int, int] = {}
        for group, host, number in tasks if amount or any(each) else ():
            d = int(self.domain[host])
            found[d] = amount or found.get(d, 0) + number * each[group]
        return found


def compile_pools(round_: Round, cluster: Cluster, shapes: ShapeTable) -> tuple[Pool, ...]:
    """Return the pools of a round, those of the whole cluster among them."""
    if not round_.cluster.pools:
        return ()
    numbers = use_numbers(round_)
    pinned = [job for job in round_.jobs if job.running is not None and job.running.pinned]
    held, fixed = (running_places(jobs, cluster) for jobs in (round_.jobs, pinned))
    return tuple(
        Pool(
            one.pool.resource,
            WHOLE_CLUSTER if one.pool.level is None else cluster.level_index(one.pool.level),
            one.of_host,
            one.limit(held) - one.held(fixed),
            shapes.demand_of_pool(one.pool.resource),
            numbers.get(one.pool.resource, PER_TASK),
        )
        for one in pools_of(round_, cluster)
    )


def taken_by_gang(pool: Pool, group: Group) -> int:
    """Return what the tasks of a group take of the pools of a level together, at least."""
    used = 0 if pool.use == PER_TASK else dict(group.uses).get(pool.resource, 0)
    return group.count * int(pool.demand[group.shape]) + used


def totals_of_pools(
    round_: Round,
    cluster: Cluster,
    pools: Iterable[Pool],
    classes: Iterable[JobClass],
    shape_gpu: Ints,
) -> dict[QuotaKey, int]:
    """Return what jobs that are not pinned may take of each resource of pools in all.

    A domain takes no more than its limit, nor than the domains inside it take together, nor than
    its hosts do with all their GPUs; and only multiples of what divides all demands.
    """
    accounts = account_numbers(round_)
    choices = {id(o): o for job_class in classes for o in job_class.choices}.values()
    of_resource: defaultdict[str, list[Pool]] = defaultdict(list)
    for pool in pools:
        of_resource[pool.resource].append(pool)
    totals: dict[QuotaKey, int] = {}
    for resource, mine in of_resource.items():
        amount = (
            cluster.resources.index(resource) if mine[0].use == PER_TASK else of_use(mine[0].use)
        )
        used = [mine[0].used_by(choice.uses) for choice in choices]
        divisor = max(gcd(*mine[0].demand.tolist(), *used), 1)
        host = np.arange(cluster.num_hosts)
        most = _most_of_hosts(cluster, mine[0], used, shape_gpu)
        for pool in sorted(mine, key=lambda pool: -pool.level):
            inside = np.zeros(len(pool.limit), dtype=np.int64)
            np.add.at(inside, pool.domain[host], most)
            domains, first = np.unique(pool.domain, return_index=True)
            most = np.minimum(pool.limit - pool.limit % divisor, inside)[domains]
            host = first
        total, key = int(most.sum()), (accounts["pool", resource], amount)
        for pool in mine:
            if pool.level == WHOLE_CLUSTER:
                totals[key] = int(pool.limit[0])
        if total < totals.get(key, UNLIMITED):
            totals[accounts["total", resource], amount] = total
    return totals


def _most_of_hosts(cluster: Cluster, pool: Pool, used: list[int], shape_gpu: Ints) -> Ints:
    """Return how much tasks can take on each host with all its GPUs, int64 (hosts,)."""
    takes = pool.demand > 0
    if any(used) or (shape_gpu[takes] == 0).any():
        return np.full(cluster.num_hosts, UNLIMITED, dtype=np.int64)
    milli = cluster.gpu_count.astype(np.int64) * WHOLE_GPU
    each = [milli * d // g for d, g in zip(pool.demand[takes], shape_gpu[takes], strict=True)]
    most = np.zeros(cluster.num_hosts, dtype=np.int64)
    for one in each:
        np.maximum(most, one, out=most)
    return most
