"""Whether the facts of a reason are those of a pool that has too little."""

from __future__ import annotations

import numpy as np

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Detail
from placewright.instances.documents.pools import Pool
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts
from placewright.instances.verify.rules.gang.pools_left import asked


def is_of_pool(state: FreeHosts, option: Option, group: TaskGroup, detail: Detail) -> bool:
    """Whether some pool of the resource of a detail has too little, as the detail says."""
    return detail.host is None and any(
        _is_true(state, option, group, detail, number)
        for number in state.pools.asked(option)
        if state.pools.pools[number].resource == detail.resource
    )


def _is_true(
    state: FreeHosts, option: Option, group: TaskGroup, detail: Detail, number: int
) -> bool:
    """Whether a detail is true of one pool."""
    pool, left = state.pools.pools[number], state.pools.left[number].clip(min=0)
    said = detail.asked, detail.free
    each, whole = _of_task(pool, option, group), asked(pool, option)
    if detail.tasks is not None:
        return _has_few_places(state, option, group, detail, number)
    if detail.domain is None:
        free = int(left.sum())
        return detail.level in (None, pool.level) and said == (whole, free) and whole > free
    domain = state.pools.names[number].get(detail.domain)
    if detail.level != pool.level or domain is None or (detail.asked or 0) <= int(left[domain]):
        return False
    if said == (each, int(left[domain])) and not state.places_in_pool(option, group, number):
        return True
    # All of an option that has to be in one domain: no domain may have enough.
    joint = option.required is not None and state.is_inside(option.required, pool.level)
    hosts = state.pools.of_host[number][state.allowed(group)]
    return joint and said == (whole, int(left[domain])) and bool((left[hosts] < whole).all())


def _has_few_places(
    state: FreeHosts, option: Option, group: TaskGroup, detail: Detail, number: int
) -> bool:
    """Whether a group has as few places as a detail says where a pool has something left."""
    pool, left = state.pools.pools[number], state.pools.left[number].clip(min=0)
    hosts = np.ones_like(state.open)
    if detail.domain is not None:
        hosts = state.inside(detail.level or "", detail.domain)
    places = state.places_in_pool(option, group, number, hosts)
    each = _of_task(pool, option, group)
    needed = each if pool.per == "job" else each * group.count
    free = int(left[np.unique(state.pools.of_host[number][hosts])].sum())
    return (
        places < group.count
        and detail.places in (None, places)
        and (detail.asked, detail.free) == (needed, free)
        and (detail.places is not None or needed > free)
    )


def _of_task(pool: Pool, option: Option, group: TaskGroup) -> int:
    """Return what a task of a group takes of the pool around it, or its job there once."""
    if pool.per == "job":
        return option.uses.get(pool.resource, 0)
    return group.resources.get(pool.resource, 0)
