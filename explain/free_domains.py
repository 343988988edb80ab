"""Whole domains that are free once a plan is carried out, level by level."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.topology import Cluster


class FreeDomains(NamedTuple):
    """Domains of a level all of whose GPUs are free and may be used, before and after.

    `added` is how many more domains of the level there are after than before.
    """

    level: str
    before: int
    after: int
    added: int = 0


def free_domains(
    round_: Round, plan: Plan, round_after: Round, plan_after: Plan
) -> tuple[FreeDomains, ...]:
    """Count the free domains of each level after two plans; domains without GPUs do not count."""
    free, total = free_and_total(round_, plan)
    free_after, total_after = free_and_total(round_after, plan_after)
    levels = dict.fromkeys((*free, *free_after))
    return tuple(
        FreeDomains(
            level,
            free.get(level, 0),
            free_after.get(level, 0),
            total_after.get(level, 0) - total.get(level, 0),
        )
        for level in levels
    )


def free_and_total(round_: Round, plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return the free domains and all domains with GPUs, by level."""
    cluster = build_cluster(round_.cluster)
    has = cluster.gpu_count > 0
    blocked = has & ~_free_hosts(round_, plan, cluster)
    free: dict[str, int] = {}
    total: dict[str, int] = {}
    for number, level in enumerate(cluster.levels):
        domain = cluster.domain[number]
        size = len(cluster.names[number])
        with_gpus = np.bincount(domain[has], minlength=size) > 0
        held = np.bincount(domain[blocked], minlength=size) > 0
        free[level] = int((with_gpus & ~held).sum())
        total[level] = int(with_gpus.sum())
    return free, total


def _free_hosts(round_: Round, plan: Plan, cluster: Cluster) -> Bools:
    """Return whether each host is free: nobody is on it, and all of it may be used (hosts,)."""
    away = [entry.name for entry in round_.cluster.hosts if not entry.healthy]
    away += [one.host for one in round_.reservations]
    names = {host for name in (*away, *round_.policy.vacate) for host in expand(name)}
    names |= unavailable_hosts(round_.leases, round_.now)
    names |= {task.host for decision in plan.decisions for task in decision.tasks}
    free = np.ones(cluster.num_hosts, dtype=np.bool_)
    free[[cluster.host_index[name] for name in names]] = False
    return free
