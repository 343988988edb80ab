"""Pools: what the domains of a level, or the whole cluster, have of a resource.

A task takes its `demand` from the pools around its host. Where a resource is counted per job, a job
of several tasks takes its use once from each domain in which it has one (`Choice.uses`); a job of
one task takes it like any other demand.

What the whole cluster has, and what all domains can give together, are accounts (quotas.py): rows
over the options of all jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.job_compiler import CompiledJob
from placewright.formulations.gang.problem.jobs import Group, JobClass
from placewright.formulations.gang.problem.quotas import (
    QuotaKey,
    account_numbers,
    of_use,
    use_numbers,
)
from placewright.formulations.gang.problem.shapes import ShapeTable
from placewright.instances.documents.job import Job
from placewright.instances.documents.pools import Pool as PoolEntry
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import HOST_LEVEL, UNLIMITED, WHOLE_GPU

WHOLE_CLUSTER = -1
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


def compile_pools(
    round_: Round,
    cluster: Cluster,
    shapes: ShapeTable,
    running: Sequence[CompiledJob],
    pinned: Sequence[CompiledJob],
) -> tuple[Pool, ...]:
    """Return the pools of a round, those of the whole cluster among them.

    Parameters
    ----------
    running, pinned
        All running jobs, and those that may not move.
    """
    numbers, found = use_numbers(round_), []
    for entry in round_.cluster.pools:
        level = _level(cluster, entry)
        domain = np.zeros(cluster.num_hosts, dtype=np.int64)
        names: Sequence[str] = ("",)
        if level != WHOLE_CLUSTER:
            domain, names = cluster.domain[level].astype(np.int64), cluster.names[level]
        capacity = np.array([entry.domains.get(n, entry.capacity) for n in names], dtype=np.int64)
        held, fixed = (_held(entry, domain, len(names), jobs) for jobs in (running, pinned))
        found.append(
            Pool(
                entry.resource,
                level,
                domain,
                np.maximum(capacity, held) - fixed,
                shapes.demand_of_pool(entry.resource),
                numbers.get(entry.resource, PER_TASK),
            )
        )
    return tuple(found)


def _level(cluster: Cluster, entry: PoolEntry) -> int:
    if entry.level is None:
        return WHOLE_CLUSTER
    return (
        len(cluster.levels) - 1 if entry.level == HOST_LEVEL else cluster.levels.index(entry.level)
    )


def _held(entry: PoolEntry, domain: Ints, number: int, jobs: Iterable[CompiledJob]) -> Ints:
    """Return what running jobs hold of each domain, int64 (domains,)."""
    held = np.zeros(number, dtype=np.int64)
    for fact in jobs:
        for d, amount in taken_of(entry, fact.job, _domains(fact, domain)).items():
            held[d] += amount
    return held


def _domains(fact: CompiledJob, domain: Ints) -> list[tuple[int, int]]:
    """Return group and domain of each task of a running job."""
    places = () if fact.held is None else fact.held.places
    return [(group, int(domain[host])) for group, _, host, _ in places]


def taken_by_gang(pool: Pool, group: Group) -> int:
    """Return what the tasks of a group take of the pools of a level together, at least."""
    used = 0 if pool.use == PER_TASK else dict(group.uses).get(pool.resource, 0)
    return group.count * int(pool.demand[group.shape]) + used


def taken_of(entry: PoolEntry, job: Job, tasks: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """Return by domain what a running job takes of a pool; `tasks` are (group, domain) pairs."""
    if job.running is None:
        return {}
    option = job.options[job.running.option]
    if entry.per == "job":
        amount = option.uses.get(entry.resource, 0)
        return {d: amount for _, d in tasks} if amount else {}
    each = [group.resources.get(entry.resource, 0) for group in option.groups]
    found: dict[int, int] = {}
    for group, d in tasks if any(each) else ():
        found[d] = found.get(d, 0) + each[group]
    return found


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
