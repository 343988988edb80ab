"""Groups on so many hosts: how many tasks they have places for, and which hosts they take.

A host adds a *step* of tasks or several: slices of one host each, else single tasks. Domain limits
and pools cap what the hosts of a domain add, and these domains are those of a tree. So hosts add
most in the order of what they hold, each what its domains still take after those before it, and
the first k hosts hold the most that k hosts can: a group fits exactly if the first `most` hosts
hold its tasks and `least` hosts have room for a step. With slices of several hosts that is
necessary only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang.problem.jobs import Group
from placewright.topology import Cluster


class HostSteps(NamedTuple):
    """What each host adds, int64 (hosts,), and whether it counts as one of them, bool (hosts,).

    `caps` are, per level with some, innermost first, the domain of each host and the most steps of
    each domain; `step` is how many tasks one is.
    """

    added: Ints
    counts: Bools
    caps: Sequence[tuple[Ints, Ints]]
    step: int


def host_steps(
    cluster: Cluster, group: Group, per_host: Ints, room: Mapping[int, Ints], level: int = 0
) -> HostSteps:
    """Return what hosts add to a group inside domains of a level, or in all of the cluster.

    `per_host` and `room` are as in `tasks_by_level`.
    """
    slices, limit = group.slices, group.domain_limit
    step = slices.size if slices is not None and slices.level == len(cluster.levels) - 1 else 1
    caps: list[tuple[Ints, Ints]] = []
    for inner in reversed(range(level, len(cluster.levels))):
        most = room.get(inner)
        if limit is not None and limit.level == inner:
            number = len(cluster.names[inner])
            most = np.minimum(number * [limit.max_tasks] if most is None else most, limit.max_tasks)
        if most is not None:
            caps.append((cluster.domain[inner], most // step))
    added = np.minimum(per_host, group.count) // step
    counts = added > 0
    for domain, most in caps:
        order = np.lexsort((-added, ~counts, domain))
        before, mine, end = _before(domain, added, order), added[order], most[domain[order]]
        added[order] = np.minimum(before + mine, end) - np.minimum(before, end)
        counts[order] &= _before(domain, counts.astype(np.int64), order) < end
    return HostSteps(added, counts, caps, step)


def tasks_on_hosts(group: Group, steps: HostSteps, domain: Ints, number: int) -> Ints:
    """Return how many tasks the hosts of each of `number` domains hold, no more hosts than may be.

    0 where too few have room.
    """
    asked = group.num_hosts
    if asked is None:
        raise ValueError("the group may be on any number of hosts")
    order = np.lexsort((-steps.added, ~steps.counts, domain))
    first = _before(domain, np.ones_like(steps.added), order) < asked.most
    hosts = order[first]
    held = np.bincount(domain[hosts], weights=steps.added[hosts], minlength=number)
    enough = np.bincount(domain, weights=steps.counts, minlength=number) >= asked.least
    tasks: Ints = np.where(enough, held, 0).astype(np.int64) * steps.step
    return tasks


def _before(domain: Ints, amount: Ints, order: Ints) -> Ints:
    """Return, in an order by domain, what comes before each host in its domain."""
    sums = np.cumsum(amount[order]) - amount[order]
    first = np.flatnonzero(np.diff(domain[order], prepend=-1))
    before: Ints = sums - np.repeat(sums[first], np.diff(np.append(first, len(order))))
    return before


def choose_hosts(
    group: Group, steps: HostSteps, per_host: Ints, cost: Floats
) -> list[tuple[int, int]]:
    """Choose as few hosts as may be, (host, tasks) each; [] if the group does not fit.

    Hosts that hold an equal part come first, those of least cost, float64 (hosts,), among them.
    """
    asked, (added, counts, _, step) = group.num_hosts, steps
    if asked is None:
        raise ValueError("the group may be on any number of hosts")
    wanted = group.count // step
    largest = np.lexsort((cost, -added, ~counts))[: np.count_nonzero(counts)]
    needed = int(np.searchsorted(np.cumsum(added[largest]), wanted)) + 1
    number = max(asked.least, needed)
    if number > min(asked.most, len(largest)):
        return []
    holds = np.minimum(per_host, group.count) // step
    part = np.flatnonzero((holds >= -(-wanted // number)) & (holds > 0))
    cheap = part[np.lexsort((holds[part], cost[part]))]
    for order in (cheap, largest):
        taken = _take(steps, holds, order.tolist(), number, wanted)
        if taken:
            return [(host, count * step) for host, count in taken.items()]
    return []


def _take(
    steps: HostSteps, holds: Ints, order: Sequence[int], number: int, wanted: int
) -> dict[int, int]:
    """Take steps of the first hosts of an order that have room; nothing if these are too few."""
    left = [most.copy() for _, most in steps.caps]
    taken: dict[int, int] = {}

    def take(host: int, most: int) -> None:
        around = [(room, domain[host]) for room, (domain, _) in zip(left, steps.caps, strict=True)]
        amount = min([most, *(int(room[d]) for room, d in around)])
        if amount > 0:
            taken[host] = taken.get(host, 0) + amount
            for room, d in around:
                room[d] -= amount

    for host in order:
        if len(taken) == number:
            break
        take(host, 1)
    for host in list(taken):
        take(host, min(int(holds[host]) - 1, wanted - sum(taken.values())))
    return taken if len(taken) == number and sum(taken.values()) == wanted else {}
