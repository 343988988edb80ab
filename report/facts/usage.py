"""Usage before and after a plan: GPUs, quotas, shares, pools and uplinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.instances.derived.arrays import places_of, pools_of
from placewright.instances.derived.phrases import count
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.jobs import HOLDING, Placed, placed_after, placed_before
from placewright.report.text import NONE, percent
from placewright.topology import Cluster
from placewright.topology.collectives import Uplinks, uplinks_of
from placewright.topology.units import WHOLE_GPU

# Pools: what each domain has of what hosts share, and what jobs take before and after a plan.


WHOLE_CLUSTER = "whole cluster"


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """What jobs take of a pool in one domain of its level, before and after a plan.

    Parameters
    ----------
    resource
        What hosts share.
    level, domain
        The pool's level and one of its domains; None is the whole cluster.
    capacity
        What the domain has; jobs that ran before may take more.
    before, after
        What jobs take; the same without a plan.
    """

    resource: str
    level: str | None
    domain: str | None
    capacity: int
    before: int
    after: int

    @property
    def where(self) -> str:
        """The level and the domain, such as `rack r0`, or `whole cluster`."""
        return WHOLE_CLUSTER if self.domain is None else f"{self.level} {self.domain}"

    @property
    def share(self) -> float:
        """The part of the capacity that is taken after the plan; all of it if there is none."""
        return self.after / self.capacity if self.capacity else float(self.after > 0)


def pool_usage(round_: Round, cluster: Cluster, plan: Plan | None = None) -> list[PoolUsage]:
    """Return the usage of each domain of each pool, the fullest after the plan first."""
    pools = pools_of(round_, cluster)
    if not pools:
        return []
    jobs = {job.name: job for job in round_.jobs}
    placed = placed_before(round_.jobs), None if plan is None else placed_after(jobs, plan)
    before, after = (
        None if one is None else [(option, places_of(tasks, cluster)) for option, tasks in one]
        for one in placed
    )
    found: list[PoolUsage] = []
    for pool in pools:
        old = pool.held(before or ())
        new = old if after is None else pool.held(after)
        found += [
            PoolUsage(pool.pool.resource, pool.pool.level, name, int(has), int(a), int(b))
            for name, has, a, b in zip(pool.names, pool.capacity, old, new, strict=True)
        ]
    return sorted(found, key=lambda usage: -usage.share)


def fullest(usages: Sequence[PoolUsage], most: int | None) -> list[PoolUsage]:
    """Return the fullest domains, at most so many (None: all), of each pool about as many."""
    if most is None or len(usages) <= most:
        return list(usages)
    place: Counter[tuple[str, str | None]] = Counter()
    ranks = []
    for number, usage in enumerate(usages):
        ranks.append((place[usage.resource, usage.level], number))
        place[usage.resource, usage.level] += 1
    return [usages[number] for number in sorted(number for _, number in sorted(ranks)[:most])]


def pool_totals(round_: Round, cluster: Cluster) -> dict[str, int]:
    """Return what all domains of a resource's pools have together; of several pools, the least."""
    totals: dict[str, int] = {}
    for one in pools_of(round_, cluster):
        total, resource = int(one.capacity.sum()), one.pool.resource
        totals[resource] = min(total, totals.get(resource, total))
    return totals


# What a plan says of tenants: their shares of the cluster, and the cells that they use.


PER_CLUSTER = 100_000
"""Units of a dominant share that are the whole cluster."""


def shares_of(plan: Plan) -> list[tuple[str, str, str]]:
    """Return tenant, dominant share and its resource of each tenant, the least share first."""
    found = sorted(_entries(plan, "shares", "tenants"), key=lambda entry: entry["share"])
    return [
        (entry["tenant"], percent(entry["share"] / PER_CLUSTER), entry["resource"] or NONE)
        for entry in found
    ]


def cells_of(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return tenant, kind of cell, domain and jobs inside of each cell in use."""
    return [
        (
            entry["tenant"],
            f"{entry['level']} (cell {entry['cell']})",
            entry["domain"],
            ", ".join(entry["jobs"])
            if len(entry["jobs"]) <= 2
            else count(len(entry["jobs"]), "job"),
        )
        for entry in _entries(plan, "cells", "bindings")
    ]


def _entries(plan: Plan, kind: str, key: str) -> Iterator[Mapping[str, Any]]:
    for section in plan.sections:
        if section["kind"] == kind:
            yield from section[key]


# Uplinks: what groups of tasks send over the links of domains, before and after a plan.


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
        UplinkUsage(cluster.levels[link.level], name, int(mbps), int(a), int(b))
        for link, before, after in zip(links, old, new, strict=True)
        for name, mbps, a, b in zip(
            cluster.names[link.level], link.mbps, before, after, strict=True
        )
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


# Usage before and after a plan: GPUs by model, and what each tenant holds of quota and cluster.


GPU = "gpu"


class ModelUsage(NamedTuple):
    """Of a GPU model: its GPUs, and the milli-GPU in use before and after.

    Its GPUs are those of healthy hosts, and on others those on which a job runs on.
    """

    model: str
    gpus: int
    before: int
    after: int


class TenantUsage(NamedTuple):
    """What a tenant holds of a resource before and after, in the units of documents' attributes.

    `limit` is its quota (None: none), `capacity` what all healthy hosts have, `waiting` what its
    waiting jobs ask. A tenant without a name are the jobs of nobody.
    """

    tenant: str | None
    resource: str
    before: int
    after: int
    limit: int | None
    capacity: int
    waiting: int


def gpu_usage(round_: Round, plan: Plan, cluster: Cluster) -> list[ModelUsage]:
    """Count GPUs by model; one that jobs take turns on is in use once."""
    model = np.repeat(cluster.gpu_model, cluster.gpu_count)
    healthy = np.repeat(_healthy(round_), cluster.gpu_count)
    jobs = {job.name: job for job in round_.jobs}
    before = _in_use(cluster, placed_before(round_.jobs))
    after = _in_use(cluster, placed_after(jobs, plan))
    return [
        ModelUsage(
            name,
            int(((healthy | (after > 0)) & of_model).sum()),
            int(before[of_model].sum()),
            int(after[of_model].sum()),
        )
        for index, name in enumerate(cluster.gpu_models)
        for of_model in (model == index,)
    ]


def tenant_usage(round_: Round, plan: Plan, cluster: Cluster) -> list[TenantUsage]:
    """Return the usage of each tenant, largest first.

    Of GPUs (where the cluster has none, of cpu and memory), and of what else its quota names.
    """
    quotas = {tenant.name: tenant.quota for tenant in round_.tenants}
    names: dict[str | None, None] = dict.fromkeys(quotas)
    names |= dict.fromkeys(job.tenant for job in round_.jobs)
    if set(names) <= {None}:
        return []
    main = (GPU,) if cluster.num_gpus else ("cpu", "memory")
    resources = dict.fromkeys((*main, *(name for quota in quotas.values() for name in quota)))
    capacity = _capacity(round_, cluster)
    jobs = {job.name: job for job in round_.jobs}
    found = []
    for resource in resources:
        before, after, waiting = (dict.fromkeys(names, 0) for _ in range(3))
        for job in round_.jobs:
            if job.running is not None:
                before[job.tenant] += _amount(job.options[job.running.option], resource)
        for decision in plan.decisions:
            job = jobs[decision.job]
            if decision.decision in HOLDING:
                after[job.tenant] += _amount(job.options[decision.option or 0], resource)
            elif decision.decision is DecisionKind.WAIT:
                waiting[job.tenant] += max(_amount(option, resource) for option in job.options)
        found += [
            TenantUsage(
                tenant,
                resource,
                before[tenant],
                after[tenant],
                quotas.get(tenant or "", {}).get(resource),
                capacity.get(resource, 0),
                waiting[tenant],
            )
            for tenant in names
            if resource in main or resource in quotas.get(tenant or "", {})
        ]
    held = {usage.tenant: usage.after for usage in found if usage.resource == main[0]}
    return sorted(found, key=lambda usage: (-held[usage.tenant], usage.tenant or ""))


def _in_use(cluster: Cluster, held: Iterable[Placed]) -> NDArray[np.int64]:
    """Return the milli-GPU in use of each GPU."""
    used = np.zeros(cluster.num_gpus, dtype=np.int64)
    start = cluster.gpu_start.tolist()
    for option, tasks in held:
        for task in tasks:
            share = min(option.groups[task.group].gpu, WHOLE_GPU)
            first = start[cluster.host_index[task.host]]
            for gpu in task.gpus:
                used[first + gpu] += share
    return np.minimum(used, WHOLE_GPU)


def _healthy(round_: Round) -> NDArray[np.bool_]:
    """Return whether each host is healthy (hosts,)."""
    entries = round_.cluster.hosts
    healthy = [entry.healthy for entry in entries for _ in expand(entry.name)]
    return np.array(healthy, dtype=np.bool_)


def _capacity(round_: Round, cluster: Cluster) -> dict[str, int]:
    """Return what the healthy hosts have of each resource, or of one that they share, its pools."""
    healthy = _healthy(round_)
    totals = cluster.capacity[healthy].sum(axis=0).tolist()
    return {
        GPU: int(cluster.gpu_count[healthy].sum()) * WHOLE_GPU,
        **dict(zip(cluster.resources, totals, strict=True)),
        **pool_totals(round_, cluster),
    }


def _amount(option: Option, resource: str) -> int:
    """Return what an option asks of a resource."""
    if resource == GPU:
        return option.milli_gpu
    return sum(group.count * _of_group(group, resource) for group in option.groups)


def _of_group(group: TaskGroup, resource: str) -> int:
    return {"cpu": group.cpu, "memory": group.memory, **group.resources}.get(resource, 0)
