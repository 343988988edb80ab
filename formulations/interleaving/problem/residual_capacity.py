"""Residual capacity: open hosts, what staying jobs hold there, and what quotas leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.gang.problem.quotas import (
    Account,
    accounts_of,
    held_before,
    limits_of,
)
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

TaskPlace: TypeAlias = tuple[int, int, str, frozenset[int]]
"""Group, index, host and GPUs of a task."""


class ResidualCapacity:
    """Where tasks may be after the round, less what staying jobs hold.

    Attributes
    ----------
    hosts : bool (hosts,)
        Hosts where something may arrive or runs.
    gpus : int64 (hosts,)
        GPUs that jobs that do not stay may have as a whole.
    parts : int64 (hosts,)
        Milli-GPU that they may have of the other GPUs, beside shares that stay.
    held : int64 (resources,)
        What jobs that stay hold of the resources of all hosts.
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
