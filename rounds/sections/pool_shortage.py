"""What a pool lacks where hosts alone have places for an option (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.feasibility import places_by_domain
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice
from placewright.instances.derived.pools import PoolDomains
from placewright.instances.documents.option import Option
from placewright.rounds.sections.pool_states import PoolsLeft
from placewright.topology import Cluster
from placewright.topology.units import UNLIMITED


def beyond_whole_cluster(pools: PoolsLeft, option: Option) -> dict[str, Any]:
    """Return what a pool of the whole cluster lacks for an option, nothing if none does."""
    for pool, limit, left in zip(pools.pools, pools.limit, pools.left, strict=True):
        if pool.pool.level is None:
            asked = asked_of(pool, option)
            if asked > left[0]:
                return _detail(pool, 0, asked, left, limit)
    return {}


def room_in_cluster(pools: PoolsLeft, option: Option, group: int) -> int:
    """Return for how many tasks of a group pools of the whole cluster have room, or `UNLIMITED`."""
    room = UNLIMITED
    for pool, left in zip(pools.pools, pools.left, strict=True):
        each = pool.asked(option)[group] if pool.pool.level is None else 0
        if each:
            times = max(int(left[0]), 0) // each
            room = min(room, times) if pool.pool.per == "task" or not times else room
    return room


def asked_of(pool: PoolDomains, option: Option) -> int:
    """Return what an option takes of a pool of the whole cluster."""
    each = pool.asked(option)
    if pool.pool.per == "job":
        return max(each)
    return sum(amount * group.count for amount, group in zip(each, option.groups, strict=True))


def pool_shortage(
    hosts: Placement, choice: Choice, pools: PoolsLeft, option: Option
) -> dict[str, Any]:
    """Return the fields of a `Detail` that say of which domain of a pool an option lacks something.

    Pools of the whole cluster come first, then those of levels as documents list them. Of the
    domains of a level it is one where hosts take most of the option: if they take all of it, the
    one with most left, since any of them would do; else the one with least.

    Parameters
    ----------
    hosts
        The hosts without pools, where the option has places.
    choice, option
        An option, also as the document has it.
    """
    if lack := beyond_whole_cluster(pools, option):
        return lack
    open_ = hosts.open_to(choice.label)
    fitting = [np.where(open_, hosts.fits(group.shape), 0) for group in choice.groups]
    may = _hosts_of_enough(hosts.problem.cluster, choice, fitting)
    counts = np.array([group.count for group in choice.groups])
    for pool, limit, left in zip(pools.pools, pools.limit, pools.left, strict=True):
        each = pool.asked(option)
        if pool.pool.level is None or not any(each):
            continue
        held = [np.bincount(pool.of_host, number, len(pool.names)) for number in fitting]
        tasks = np.minimum(np.array(held, dtype=np.int64).T, counts)
        asked = np.full(len(pool.names), max(each)) if pool.pool.per == "job" else tasks @ each
        candidates = np.zeros(len(pool.names), dtype=np.bool_)
        candidates[pool.of_host[may]] = True
        short = np.flatnonzero(candidates & (asked > left))
        if len(short):
            whole = (tasks[short] == counts).all(axis=1)
            order = np.lexsort((np.where(whole, -1, 1) * left[short], -tasks[short].sum(axis=1)))
            best = int(short[order[0]])
            return _detail(pool, best, int(asked[best]), left, limit)
    return {}


def _hosts_of_enough(cluster: Cluster, choice: Choice, fitting: Sequence[Ints]) -> Bools:
    """Return the hosts that may hold some task, bool (hosts,).

    Where a group has to be in one domain of a level, those of domains that hold all of it.
    """
    may = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for group, number in zip(choice.groups, fitting, strict=True):
        able = number > 0
        for level in {group.required, choice.joint_level} - {NO_LEVEL}:
            enough = places_by_domain(cluster, group, number, level) >= group.count
            able &= enough[cluster.domain[level]]
        may |= able
    return may


def _detail(pool: PoolDomains, domain: int, asked: int, left: Ints, limit: Ints) -> dict[str, Any]:
    name = pool.names[domain]
    return {
        "resource": pool.pool.resource,
        **({} if name is None else {"level": pool.pool.level, "domain": name}),
        "asked": asked,
        "free": int(left[domain]),
        "limit": int(limit[domain]),
    }
