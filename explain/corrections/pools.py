"""Changes by which pools have more for a job that waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Ints
from placewright.explain.corrections.change import Amounts, Change, edit_of
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.derived.pools import PoolDomains, pools_of, running_places
from placewright.instances.documents.edits import Edit
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

MOST_DOMAINS = 3
"""Domains of a level of which one alone could have more."""


def pool_changes(round_: Round, job: Job) -> Iterator[Change]:
    """Yield more of each pool of which there is too little for all that a pending job asks.

    Where all its tasks have to be in one domain of the pool's level, that is more of one domain:
    of those where hosts have room those with most left. Else each domain has more.
    """
    if not round_.cluster.pools:
        return
    cluster = build_cluster(round_.cluster)
    running = running_places(round_.jobs, cluster)
    for pool in pools_of(round_, cluster):
        asked = max(_asked(pool, option) for option in job.options)
        short = asked - (pool.capacity - pool.held(running))
        if not asked or (short <= 0).all():
            continue
        if pool.pool.level is None or not _is_in_one(pool, job, cluster):
            yield _more(pool, None, int(short.max()))
            continue
        for domain in _nearest(round_, job, cluster, pool, short):
            yield _more(pool, domain, int(short[domain]))


def _asked(pool: PoolDomains, option: Option) -> int:
    """Return the most that an option takes of a domain."""
    each = pool.asked(option)
    if pool.pool.per == "job":
        return max(each)
    return sum(amount * group.count for amount, group in zip(each, option.groups, strict=True))


def _is_in_one(pool: PoolDomains, job: Job, cluster: Cluster) -> bool:
    """Whether each option has to be in one domain of the level of a pool."""
    if pool.pool.level is None:
        return True
    levels = cluster.levels[cluster.level_index(pool.pool.level) :]
    return all(
        option.required in levels
        or (
            len(option.groups) == 1
            and (option.groups[0].count == 1 or option.groups[0].required in levels)
        )
        for option in job.options
    )


def _nearest(
    round_: Round, job: Job, cluster: Cluster, pool: PoolDomains, short: Ints
) -> list[int]:
    """Return the domains that are short, where hosts have room for the job those with most left."""
    state, group = build_state(round_, cluster), job.options[0].groups[0]
    free = state.whole_free(cluster).astype(np.int64) * WHOLE_GPU * state.healthy
    places = free // group.gpu if group.gpu else np.where(state.healthy, group.count, 0)
    enough = np.bincount(pool.of_host, places, len(pool.names)) >= group.count
    order = np.lexsort((short, ~enough))
    return [int(d) for d in order if short[d] > 0][:MOST_DOMAINS]


def _more(pool: PoolDomains, domain: int | None, most: int) -> Amounts:
    """Return the change by which a domain, or each, has more, by units."""
    entry = pool.pool
    resource, level = entry.resource, entry.level
    where = "the cluster" if level is None else f"each {level}"
    had = int(pool.capacity[domain or 0])
    if domain is not None:
        where = f"{level} {pool.names[domain]}"

    def text(units: int) -> str:
        if domain is None and level is not None:
            return f"raise {resource} of {where} by {units:,}"
        return f"raise {resource} of {where} from {had:,} to {had + units:,}"

    def edits(units: int) -> tuple[Edit, ...]:
        change: dict[str, object] = {"more": units}
        if level is not None:
            change["level"] = level
        if domain is not None:
            change["domains"] = [pool.names[domain]]
        return (edit_of(pool={resource: change}),)

    return Amounts("pool", most, text, edits)
