"""Capacity rows of groups and jobs: blocks of GPUs, amounts, quotas and caps.

Each row is valid for every plan, wherever tasks are placed; rows serve bounds and the choice of
groups. A job with several options counts with the least that any of them takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.quotas import accounts_of, resources_held
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.allowed_hosts import HostMasks
from placewright.formulations.interleaving.problem.residual_capacity import AccountLimit
from placewright.instances.derived.host_sets import is_anywhere
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

Allowed: TypeAlias = tuple[Hashable, frozenset[str]]
"""What tells allowed hosts apart, and hosts that a job runs on nevertheless."""


@dataclass(frozen=True, slots=True)
class Row:
    """A capacity row: what each job takes with its group (`shared`) and alone (`own`), (jobs,).

    A group takes the most that one member shares, and all that members own.
    """

    shared: Ints
    own: Ints
    limit: int


def block_rows(
    jobs: Sequence[Job], masks: HostMasks, hosts: Bools, gpus: Ints, parts: Ints
) -> Iterable[Row]:
    """Yield rows of disjoint blocks of s GPUs on one host, for sets of hosts and sizes s.

    A task of m GPUs takes floor(m / s) disjoint blocks of its host, which has floor(n / s).

    Parameters
    ----------
    hosts
        Where tasks may be after the round, (hosts,).
    gpus
        GPUs that they may have as a whole there, (hosts,).
    parts
        Milli-GPU that they may have of other GPUs there, (hosts,).
    """
    allowed = {key: mask & hosts for key, mask in _all_masks(jobs, masks).items()}
    sizes = sorted(
        {max(g.gpu // WHOLE_GPU, 1) for j in jobs for o in j.options for g in o.groups if g.gpu}
    )
    for within in _host_sets(allowed, hosts):
        contained = {key for key, mask in allowed.items() if not (mask & ~within).any()}
        for size in sizes:
            taken = np.array([_least_blocks(job, contained, size) for job in jobs], dtype=np.int64)
            if size == 1:
                limit = int(gpus[within].sum()) * WHOLE_GPU + int(parts[within].sum())
            else:
                limit = int((gpus[within] // size).sum())
            if taken.sum() > limit:
                yield Row(taken, np.zeros_like(taken), limit)


def amount_rows(
    jobs: Sequence[Job], cluster: Cluster, hosts: Bools, held: Ints, bucket: Ints
) -> Iterable[Row]:
    """Yield rows of host resources: members of a group add up, but for CPU.

    Parameters
    ----------
    held
        What cannot be had, (resources,): that of jobs that stay.
    bucket
        Of each job, negative for those that share with nobody, (jobs,).
    """
    for r, name in enumerate(cluster.resources):
        taken = np.array([_least_amount(job, name) for job in jobs], dtype=np.int64)
        limit = int(cluster.capacity[hosts, r].sum()) - int(held[r])
        # A group takes the CPU that one member asks, whichever asks most.
        shares = bucket >= 0 if name == "cpu" else np.zeros(len(jobs), dtype=bool)
        row = Row(np.where(shares, taken, 0), np.where(shares, 0, taken), limit)
        if (row.shared + row.own).sum() > limit:
            yield row


def quota_rows(jobs: Sequence[Job], quota: Mapping[AccountLimit, int]) -> Iterable[Row]:
    """Yield rows of quotas and caps."""
    accounts = [accounts_of(job) for job in jobs] if quota else []
    for (account, measure), limit in quota.items():
        taken = np.array(
            [
                min(map(measure.asked_by, job.options)) if account in mine else 0
                for job, mine in zip(jobs, accounts, strict=True)
            ],
            dtype=np.int64,
        )
        if taken.sum() > limit:
            yield Row(np.zeros_like(taken), taken, limit)


def _least_amount(job: Job, resource: str) -> int:
    return min(resources_held(option).get(resource, 0) for option in job.options)


def _least_blocks(job: Job, contained: set[Allowed], size: int) -> int:
    return min(
        sum(
            g.count * _blocks(g, size)
            for g in option.groups
            if _host_restriction(job, g) in contained
        )
        for option in job.options
    )


def _blocks(group: TaskGroup, size: int) -> int:
    return group.gpu if size == 1 else group.gpu // WHOLE_GPU // size


def _host_restriction(job: Job, group: TaskGroup) -> Allowed:
    tasks = () if job.running is None or is_anywhere(group) else job.running.tasks
    return HostMasks.key(group), frozenset(task.host for task in tasks)


def _all_masks(jobs: Sequence[Job], masks: HostMasks) -> dict[Allowed, Bools]:
    found: dict[Allowed, Bools] = {}
    for job in jobs:
        for group in (g for option in job.options for g in option.groups):
            key = _host_restriction(job, group)
            if key not in found:
                found[key] = masks.with_current(job, group)
    return found


def fits_some_host(jobs: Sequence[Job], masks: HostMasks, hosts: Bools) -> Bools:
    """Return which jobs run, or have an option whose tasks each fit some host (jobs,).

    Parameters
    ----------
    hosts
        Where tasks may arrive, (hosts,).
    """
    known: dict[tuple[object, ...], bool] = {}
    cluster = masks.cluster

    def fits(group: TaskGroup) -> bool:
        resources = tuple(sorted(group.resources.items()))
        key = (group.gpu, group.cpu, group.memory, resources, masks.key(group))
        if key not in known:
            feasible = masks.of(group) & hosts
            feasible &= cluster.gpu_count * WHOLE_GPU >= group.gpu
            asked = {"cpu": group.cpu, "memory": group.memory, **group.resources}
            for r, name in enumerate(cluster.resources):
                feasible &= cluster.capacity[:, r] >= asked.pop(name, 0)
            known[key] = bool(feasible.any()) and not any(asked.values())
        return known[key]

    return np.array(
        [
            job.running is not None or any(all(map(fits, o.groups)) for o in job.options)
            for job in jobs
        ],
        dtype=bool,
    )


def _host_sets(allowed: Mapping[Allowed, Bools], hosts: Bools) -> list[Bools]:
    """Return the sets of hosts with rows of their own: all, and the largest that jobs name."""
    seen = {mask.tobytes(): mask for mask in (hosts, *allowed.values())}
    first, *others = seen.values()
    others.sort(key=lambda mask: -int(mask.sum()))
    return [first, *others[: parameters.PARAMETERS.max_host_sets - 1]]
