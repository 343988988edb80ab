"""What is wrong with the facts of a reason that names a pool."""

from __future__ import annotations

import numpy as np

from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Detail
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts


def wrong_pool(state: FreeHosts, option: Option, detail: Detail) -> str:
    """Say why a detail does not name a pool domain that has too little, "" if it does.

    An option asks there what its job uses, or what its tasks ask for which hosts have places.
    """
    pools = state.pools
    numbers = (
        number
        for number, pool in enumerate(pools.pools)
        if (pool.resource, pool.level) == (detail.resource, detail.level)
        and detail.domain in pools.names[number]
    )
    number = next(numbers, None)
    if number is None:
        where = "the whole cluster" if detail.domain is None else repr(detail.domain)
        return f"{where} has no pool of {detail.resource!r}; expected a pool and its domain"
    pool, domain = pools.pools[number], pools.names[number][detail.domain]
    hosts = pools.of_host[number] == domain
    asked = option.uses.get(pool.resource, 0)
    if pool.per == "task":
        asked = 0
        for group in option.groups:
            places = int(np.minimum(state.fitting(group)[hosts], group.count).sum())
            asked += group.resources.get(pool.resource, 0) * min(places, group.count)
    free, limit = int(pools.left[number][domain]), int(pools.limit[number][domain])
    said, true = (detail.asked, detail.free, detail.limit), (asked, free, limit)
    if said != true or asked <= free:
        return f"asked, free and limit are {said}; expected {true}, with more asked than free"
    return ""
