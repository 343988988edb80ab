"""Hosts of regions while a rule decides about one job after the other: free GPUs, and quotas.

Jobs ask whole GPUs and nothing else. Of all hosts that have enough free GPUs a task takes one with
the fewest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from placewright import Round
from placewright.formulations.common.wan.arrays import NONE, Wan
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

__all__ = ["Hosts", "Need", "Placed", "need_of"]

Need: TypeAlias = tuple[tuple[int, int, int, int], ...]
"""(group, tasks, GPUs of one, level whose domain they share) of an option, widest tasks first."""

Placed: TypeAlias = list[tuple[int, int, tuple[int, ...]]]
"""(group, host, GPUs) of each task."""


def need_of(job: Job, option: int, levels: Sequence[str]) -> Need:
    """Return what an option asks.

    Raises
    ------
    ValueError
        If it asks anything but whole GPUs of some models, in a domain of some level.
    """
    asked, needs = job.options[option], []
    for number, group in enumerate(asked.groups):
        other = bool(group.cpu or group.memory or group.resources or group.gpu_memory)
        other |= bool(group.hosts or group.host_sets or group.slices or group.apart)
        if group.gpu < WHOLE_GPU or other or asked.required:
            raise ValueError(f"job {job.name!r} asks for more than whole GPUs of some models")
        level = NONE if group.required is None else levels.index(group.required)
        needs.append((number, group.count, group.gpu // WHOLE_GPU, level))
    return tuple(sorted(needs, key=lambda need: -need[2]))


class Hosts:
    """Free GPUs by host, and by region and model the hosts with so many of them."""

    def __init__(self, wan: Wan) -> None:
        round_ = wan.round
        self.cluster: Cluster = build_cluster(round_.cluster)
        cluster, state = self.cluster, build_state(round_, self.cluster)
        self.region = wan.host_region.tolist()
        self.model = cluster.gpu_model.tolist()
        usable = state.gpu_free == WHOLE_GPU
        self.free: list[list[int]] = []
        for h in range(cluster.num_hosts):
            first, last = int(cluster.gpu_start[h]), int(cluster.gpu_start[h + 1])
            mine = np.flatnonzero(usable[first:last]).tolist() if state.healthy[h] else []
            self.free.append(mine)
        for reservation in round_.reservations:
            for name in expand(reservation.host):
                host = cluster.host_index[name]
                kept = set(self.free[host] if reservation.gpus is None else reservation.gpus)
                self.free[host] = [gpu for gpu in self.free[host] if gpu not in kept]
        self.healthy = state.healthy
        widest = int(cluster.gpu_count.max(initial=0))
        self.hosts_by_free = [
            [[dict[int, None]() for _ in range(widest + 1)] for _ in wan.models]
            for _ in wan.regions
        ]
        self.idle = np.zeros((len(wan.regions), len(wan.models)), dtype=np.int64)
        for h, gpus in enumerate(self.free):
            if gpus:
                self._enter(h, len(gpus))
        self.floor: dict[int, int] = {}
        self.quotas = _Quotas(round_, wan.regions)

    def fits(self, need: Need, region: int, model: int) -> bool:
        """Whether the free GPUs are there, one group at a time."""
        if self.idle[region, model] < sum(count * gpus for _, count, gpus, _ in need):
            return False
        by_free = self.hosts_by_free[region][model]
        return all(
            sum(len(by_free[n]) * (n // gpus) for n in range(gpus, len(by_free))) >= count
            for _, count, gpus, _ in need
        )

    def take(self, need: Need, region: int, model: int, priority: int) -> Placed | None:
        """Place all tasks, or none."""
        if not self.fits(need, region, model):
            return None
        placed: Placed = []
        for group, count, gpus, level in need:
            within = self._domain(region, model, count, gpus, level)
            for _ in range(count):
                host = self._host(region, model, gpus, priority, within)
                if host is None:
                    self.give(placed)
                    return None
                placed.append((group, host, self._use(host, gpus)))
        return placed

    def give(self, placed: Iterable[tuple[int, int, tuple[int, ...]]]) -> None:
        """Take back what was placed."""
        for _, host, gpus in placed:
            if self.healthy[host]:
                self._leave(host)
                self.free[host].extend(gpus)
                self._enter(host, len(self.free[host]))

    def retake(self, placed: Placed) -> None:
        """Hold these very GPUs again."""
        for _, host, gpus in placed:
            if self.healthy[host]:
                self._leave(host)
                self.free[host] = [gpu for gpu in self.free[host] if gpu not in gpus]
                self._enter(host, len(self.free[host]))

    def _domain(
        self, region: int, model: int, count: int, gpus: int, level: int
    ) -> Container[int] | None:
        """Return the hosts of a domain that all tasks fit into with least to spare; None: all."""
        if level == NONE:
            return None
        domain = self.cluster.domain[level]
        hosts: dict[int, list[int]] = {}
        for bucket in self.hosts_by_free[region][model][gpus:]:
            for host in bucket:
                hosts.setdefault(int(domain[host]), []).append(host)
        if len(hosts) == 1:
            return None
        capacity = {d: sum(len(self.free[h]) // gpus for h in mine) for d, mine in hosts.items()}
        able = [d for d in hosts if capacity[d] >= count]
        return set(hosts[min(able, key=capacity.__getitem__)]) if able else ()

    def _host(
        self, region: int, model: int, gpus: int, priority: int, within: Container[int] | None
    ) -> int | None:
        for bucket in self.hosts_by_free[region][model][gpus:]:
            for host in bucket:
                welcome = not self.floor or self.floor.get(host, priority - 1) < priority
                if welcome and (within is None or host in within):
                    return host
        return None

    def _use(self, host: int, gpus: int) -> tuple[int, ...]:
        self._leave(host)
        free = self.free[host]
        taken, self.free[host] = tuple(free[:gpus]), free[gpus:]
        self._enter(host, len(free) - gpus)
        return taken

    def _leave(self, host: int) -> None:
        region, model, free = self.region[host], self.model[host], len(self.free[host])
        self.hosts_by_free[region][model][free].pop(host, None)
        self.idle[region, model] -= free

    def _enter(self, host: int, free: int) -> None:
        region, model = self.region[host], self.model[host]
        if free:
            self.hosts_by_free[region][model][free][host] = None
        self.idle[region, model] += free


class _Quotas:
    """What tenants hold, and may hold: everywhere (region None), and by region."""

    def __init__(self, round_: Round, regions: tuple[str, ...]) -> None:
        self.limits: dict[tuple[str, int | None], int] = {
            (t.name, None): t.quota["gpu"] for t in round_.tenants if "gpu" in t.quota
        }
        index = {name: r for r, name in enumerate(regions)}
        for region in round_.geo.regions:
            for tenant, limit in region.quotas.items():
                self.limits[tenant, index[region.name]] = limit
        self.held: defaultdict[tuple[str, int | None], int] = defaultdict(int)

    def admits(self, tenant: str | None, region: int, more: int) -> bool:
        """Whether a job that starts keeps within the tenant's quotas."""
        return tenant is None or all(
            self.held[tenant, where] + more <= self.limits.get((tenant, where), 2**62)
            for where in (None, region)
        )

    def add(self, tenant: str | None, region: int, more: int) -> None:
        """Count what a job holds, or no longer does (negative)."""
        if tenant is not None:
            for where in (None, region):
                self.held[tenant, where] += more
