"""How many tasks of a group each domain of the tree counts for.

Summed up the tree, with two caps: a domain limit caps what a domain counts for, and from the
slices' level upwards only whole slices count. Both caps are those of a tree, so whatever a domain
counts for can be placed there; on so many hosts see host_ranges.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.placement.host_ranges import host_steps, tasks_on_hosts
from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster

NO_POOLS: Mapping[int, Ints] = MappingProxyType({})


def tasks_by_level(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints] = NO_POOLS
) -> list[Ints]:
    """Return per level how many tasks each domain counts for; `per_host` has them per host.

    `room` has, by level, for how many tasks the pools of each domain have room. A group on so many
    hosts counts as if it were in one domain alone.
    """
    held = tasks_on_tree(cluster, group, per_host, room)
    if group.num_hosts is not None:
        for level, here in enumerate(held):
            steps = host_steps(cluster, group, per_host, room, level)
            np.minimum(
                here, tasks_on_hosts(group, steps, cluster.domain[level], len(here)), out=here
            )
    return held


def tasks_in_all(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints] = NO_POOLS
) -> int:
    """Return how many tasks all hosts count for together, with what `tasks_by_level` takes."""
    total = int(tasks_on_tree(cluster, group, per_host, room)[0].sum())
    if group.num_hosts is None:
        return total
    steps = host_steps(cluster, group, per_host, room)
    return min(total, int(tasks_on_hosts(group, steps, np.zeros_like(per_host), 1)[0]))


def tasks_on_tree(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints]
) -> list[Ints]:
    """Return per level what each domain counts for, whatever the number of hosts."""
    per_host = np.minimum(per_host, group.count)
    held: list[Ints] = []
    for level in reversed(range(len(cluster.levels))):
        if held:
            above = cluster.parent[level + 1]
            number = len(cluster.names[level])
            per_host = np.bincount(above, weights=held[-1], minlength=number).astype(np.int64)
        if group.domain_limit is not None and group.domain_limit.level == level:
            per_host = np.minimum(per_host, group.domain_limit.max_tasks)
        if level in room:
            per_host = np.minimum(per_host, room[level])
        if group.slices is not None and level <= group.slices.level:
            per_host = per_host - per_host % group.slices.size
        held.append(per_host)
    held.reverse()
    for level in range(1, len(held)) if room else ():
        np.minimum(held[level], held[level - 1][cluster.parent[level]], out=held[level])
    return held
