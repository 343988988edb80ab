"""Capacity rows of groups and jobs, and what is left beside jobs that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.limits import (
    Account,
    accounts_of,
    held_before,
    limits_of,
    resources_held,
)
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.formulations.interleaving import parameters
from placewright.instances.derived.names import AllowedHosts, is_anywhere
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU


class HostMasks:
    """The hosts that task groups allow, (hosts,); those of one mask are worked out once.

    `cluster`: the hosts. `host_sets`: those of the round.
    """

    def __init__(self, cluster: Cluster, host_sets: Mapping[str, Sequence[str]]) -> None:
        self.cluster = cluster
        self._allowed = AllowedHosts(host_sets)
        self._known: dict[Hashable, Bools] = {}

    @staticmethod
    def key(group: TaskGroup) -> Hashable:
        """Return what is equal for groups that allow the same hosts in the same words."""
        return group.gpu_models, group.hosts, group.host_sets

    def of(self, group: TaskGroup) -> Bools:
        """Return the hosts that a task group allows; not to be written to."""
        key = self.key(group)
        if key not in self._known:
            self._known[key] = self._mask(group)
        return self._known[key]

    def with_current(self, job: Job, group: TaskGroup) -> Bools:
        """Return the hosts where tasks of a job may be: those allowed, and where it runs."""
        mask = self.of(group)
        if job.running is None or is_anywhere(group):
            return mask
        mask = mask.copy()
        mask[[self.cluster.host_index[task.host] for task in job.running.tasks]] = True
        return mask

    def _mask(self, group: TaskGroup) -> Bools:
        cluster, mask = self.cluster, np.ones(self.cluster.num_hosts, dtype=bool)
        if group.gpu_models is not None:
            index = {name: i for i, name in enumerate(cluster.gpu_models)}
            mask &= np.isin(cluster.gpu_model, [index[model] for model in group.gpu_models])
        named = self._allowed.of(group)
        return mask if named is None else mask & host_mask(cluster, tuple(named))


TaskPlace: TypeAlias = tuple[int, int, str, frozenset[int]]
"""Group, index, host and GPUs of a task."""


class ResidualCapacity:
    """Where tasks may be after the round, less what staying jobs hold.

    `hosts` (hosts,): hosts where something may arrive or runs. `gpus` (hosts,): GPUs that jobs that
    do not stay may have as a whole. `parts` (hosts,): milli-GPU that they may have of the other
    GPUs, beside shares that stay. `held` (resources,): what jobs that stay hold of the resources of
    all hosts.
    """

    def __init__(
        self,
        round_: Round,
        cluster: Cluster,
        colocated: Mapping[int, tuple[int, ...]],
        stays: Collection[int],
        open_hosts: OpenHosts,
    ) -> None:
        index = cluster.host_index
        used: dict[bool, Counter[tuple[str, int]]] = {True: Counter(), False: Counter()}
        cpu: dict[tuple[int, TaskPlace], int] = {}
        self.hosts = open_hosts.hosts.copy()
        self.held = np.zeros(len(cluster.resources), dtype=np.int64)
        for j in colocated:
            job = round_.jobs[j]
            for place, task, group in _running_tasks(job):
                self.hosts[index[task.host]] = True
                for gpu in task.gpus if colocated[j][0] == j or j not in stays else ():
                    used[j in stays][task.host, gpu] += min(group.gpu, WHOLE_GPU)
                if j in stays:
                    first = colocated[j][0], place
                    cpu[first] = max(cpu.get(first, 0), group.cpu)
                    for r, name in enumerate(cluster.resources[1:], start=1):
                        amount = group.memory if name == "memory" else group.resources.get(name, 0)
                        self.held[r] += amount
        self.held[0] = sum(cpu.values())
        self.gpus = np.where(open_hosts.hosts, cluster.gpu_count, 0).astype(np.int64)
        self.parts = np.zeros_like(self.gpus)
        for host, gpu in open_hosts.closed | used[True].keys():
            self.gpus[index[host]] -= open_hosts.hosts[index[host]]
            if open_hosts(host, gpu):
                self.parts[index[host]] += WHOLE_GPU - used[True][host, gpu]
        for host, gpu in used[False]:
            # What runs where nothing may arrive can go on there.
            if not open_hosts(host, gpu) and (host, gpu) not in used[True]:
                self.gpus[index[host]] += 1
            elif not open_hosts(host, gpu):
                self.parts[index[host]] += WHOLE_GPU - used[True][host, gpu]


@dataclass(frozen=True, slots=True, eq=False)
class OpenHosts:
    """Where tasks may arrive: `hosts` (hosts,), less their reserved GPUs `closed`."""

    hosts: Bools
    closed: frozenset[tuple[str, int]]
    cluster: Cluster

    @property
    def gpus(self) -> int:
        """Number of GPUs at which tasks may arrive."""
        index = self.cluster.host_index
        closed = sum(bool(self.hosts[index[host]]) for host, _ in self.closed)
        return int(self.cluster.gpu_count[self.hosts].sum()) - closed

    def __call__(self, host: str, gpu: int) -> bool:
        """Whether a task may arrive at a GPU."""
        return bool(self.hosts[self.cluster.host_index[host]]) and (host, gpu) not in self.closed


def running_together(round_: Round) -> dict[int, tuple[int, ...]]:
    """Return for each running job the jobs on its GPUs, itself included, ascending."""
    colocated: dict[int, tuple[int, ...]] = {
        j: (j,) for j, job in enumerate(round_.jobs) if job.running is not None
    }
    for group in running_groups(round_):
        colocated |= dict.fromkeys(group, group)
    return colocated


def find_open_hosts(round_: Round, cluster: Cluster) -> OpenHosts:
    """Return where tasks may arrive."""
    index = cluster.host_index
    hosts = np.zeros(cluster.num_hosts, dtype=bool)
    for entry in round_.cluster.hosts:
        if entry.healthy:
            hosts[[index[name] for name in expand(entry.name)]] = True
    closed: set[tuple[str, int]] = set()
    for reservation in round_.reservations:
        for name in expand(reservation.host):
            if reservation.gpus is None:
                hosts[index[name]] = False
            else:
                closed.update((name, gpu) for gpu in reservation.gpus)
    return OpenHosts(hosts, frozenset(closed), cluster)


def _running_tasks(job: Job) -> Iterator[tuple[TaskPlace, Task, TaskGroup]]:
    """Yield the places, tasks and task groups of a running job."""
    if job.running is not None:
        groups = job.options[job.running.option].groups
        for t in job.running.tasks:
            yield (t.group, t.index, t.host, frozenset(t.gpus)), t, groups[t.group]


AccountLimit: TypeAlias = tuple[Account, Measure]
"""A quota or cap, and an amount that it limits."""


def quota_left(round_: Round, stays: Collection[int]) -> dict[AccountLimit, int]:
    """Return what quotas and caps leave for jobs that do not stay."""
    limits = limits_of(round_)
    held, free = held_before(round_, limits), held_before(round_, limits, stays)
    return {
        (account, measure): max(most, held[account][measure])
        - (held[account][measure] - free[account][measure])
        for account, measures in limits.items()
        for measure, most in measures.items()
    }


def amounts_held(
    job: Job, option: int, left: Mapping[AccountLimit, int]
) -> dict[AccountLimit, int]:
    """Return what a job with an option counts in the quotas and caps of `left`."""
    mine = accounts_of(job) if left else ()
    return {key: key[1].asked_by(job.options[option]) for key in left if key[0] in mine}


# Capacity rows of groups and jobs: blocks of GPUs, amounts, quotas and caps.
#
# Each row is valid for every plan, wherever tasks are placed; rows serve bounds and the choice of
# groups. A job with several options counts with the least that any of them takes.


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
    `hosts`: where tasks may be after the round, (hosts,). `gpus`: GPUs that they may have as a
    whole there, (hosts,). `parts`: milli-GPU that they may have of other GPUs there, (hosts,).
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

    `held`: what cannot be had, (resources,): that of jobs that stay. `bucket`: of each job,
    negative for those that share with nobody, (jobs,).
    """
    asked = [[resources_held(option) for option in job.options] for job in jobs]
    for r, name in enumerate(cluster.resources):
        taken = np.array(
            [min(held.get(name, 0) for held in each) for each in asked], dtype=np.int64
        )
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


def _least_blocks(job: Job, contained: set[Allowed], size: int) -> int:
    return min(
        sum(
            g.count * (g.gpu if size == 1 else g.gpu // WHOLE_GPU // size)
            for g in option.groups
            if _host_restriction(job, g) in contained
        )
        for option in job.options
    )


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

    `hosts`: where tasks may arrive, (hosts,).
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
