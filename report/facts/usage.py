"""Usage before and after a plan: GPUs by model, and what each tenant holds of quota and cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.report.facts.placed import HOLDING, Placed, placed_after, placed_before
from placewright.report.facts.pools import pool_totals
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

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
