"""Host selection for gangs: on which hosts the tasks of a group go, by displacement cost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster

ChooseHosts: TypeAlias = Callable[
    [Cluster, Group, NDArray[np.float64], Ints], list[tuple[int, int]]
]
"""Host selection of a group: (host, tasks) pairs, [] if it does not fit.

Its arguments are the cluster, the group, what displacing costs per host, float64 (hosts,), and how
many tasks each host then holds, int64 (hosts,)."""


def compact_hosts(
    cluster: Cluster, group: Group, loss: NDArray[np.float64], each: Ints
) -> list[tuple[int, int]]:
    """Choose hosts in the innermost weighted domain that holds all tasks, of least cost per task.

    Inside it, few domains of the innermost weighted level, and hosts of least cost. For gangs that
    a model starts: it has reserved GPUs elsewhere for the jobs that are displaced.
    """
    count = group.count
    hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
    if each[hosts].sum() < count:
        return []
    levels = sorted(level for level, _ in group.weights if level < len(cluster.levels) - 1)
    for level in reversed(levels):
        domain = cluster.domain[level][hosts]
        held = np.bincount(domain, weights=each[hosts])
        enough = np.flatnonzero(held >= count)
        if len(enough):
            cost = np.bincount(domain, weights=loss[hosts])
            best = enough[np.argmin(cost[enough] / held[enough])]
            hosts = hosts[domain == best]
            break
    domain = cluster.domain[levels[-1]][hosts] if levels else np.zeros(len(hosts), np.int64)
    order = np.lexsort((loss[hosts], domain))
    hosts, parts = hosts[order], np.split(order, np.flatnonzero(np.diff(domain[order])) + 1)
    starts = np.cumsum([0, *map(len, parts)])
    tasks = [int(each[hosts[a:b]].sum()) for a, b in pairwise(starts)]
    mean = [float(loss[hosts[a:b]].mean()) for a, b in pairwise(starts)]
    chosen: list[tuple[int, int]] = []
    for at in sorted(range(len(parts)), key=lambda p: (-min(tasks[p], count), mean[p])):
        for host in hosts[starts[at] : starts[at + 1]].tolist():
            taken = min(count, int(each[host]))
            if taken:
                chosen.append((host, taken))
                count -= taken
    return chosen


def cheapest_hosts(
    cluster: Cluster, group: Group, loss: NDArray[np.float64], each: Ints
) -> list[tuple[int, int]]:
    """Choose the hosts of least cost; among equal ones those in domains that hold most tasks.

    For gangs that no model has decided to start, and that must be worth what they displace.
    """
    count = group.count
    hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
    if each[hosts].sum() < count:
        return []
    levels = sorted(level for level, _ in group.weights if level < len(cluster.levels) - 1)
    # Fractions of a unit are what stopping costs: a term after value, before spread.
    lost = np.floor(loss / np.maximum(each, 1))
    hosts = hosts[np.argsort(loss[hosts] / each[hosts], kind="stable")]
    needed = int(np.searchsorted(np.cumsum(each[hosts]), count)) + 1
    least = np.floor(loss[hosts[:needed]].sum())
    for level in reversed(levels):
        domain = cluster.domain[level]
        inside, cost = _cheapest_domain(hosts, domain[hosts], loss, each, count)
        if np.floor(cost) <= least:
            hosts = hosts[domain[hosts] == inside]
            needed = int(np.searchsorted(np.cumsum(each[hosts]), count)) + 1
            break
    # The last ones may be any that lose as little: those in domains that hold most.
    worst = lost[hosts[needed - 1]]
    rank = np.zeros(len(hosts), dtype=np.int64)
    if levels:
        domain = cluster.domain[levels[-1]][hosts]
        good = lost[hosts] <= worst
        held = np.bincount(domain, weights=good * each[hosts])
        rank = np.unique(np.stack([-held[domain], domain]), axis=1, return_inverse=True)[1]
    order = np.lexsort((loss[hosts], rank.reshape(-1), np.sign(lost[hosts] - worst)))
    chosen: list[tuple[int, int]] = []
    for host in hosts[order].tolist():
        taken = min(count, int(each[host]))
        chosen.append((host, taken))
        count -= taken
        if not count:
            break
    return chosen


def _cheapest_domain(
    hosts: Ints, domain: Ints, loss: NDArray[np.float64], each: Ints, count: int
) -> tuple[int, float]:
    """Return the domain where `count` tasks cost least on its best hosts, and that cost.

    (-1, inf) if no domain holds them all.
    """
    order = np.argsort(domain, kind="stable")
    hosts, domain = hosts[order], domain[order]
    starts = np.flatnonzero(np.diff(domain, prepend=-1))
    ends = np.append(starts[1:], len(hosts)) - 1
    tasks = np.concatenate([[0], np.cumsum(each[hosts])])
    lost = np.concatenate([[0.0], np.cumsum(loss[hosts])])
    last = np.searchsorted(tasks[1:], tasks[starts] + count)
    cost = np.where(last <= ends, lost[np.minimum(last, ends) + 1] - lost[starts], np.inf)
    best = int(cost.argmin())
    return (
        (int(domain[starts[best]]), float(cost[best])) if np.isfinite(cost[best]) else (-1, np.inf)
    )
