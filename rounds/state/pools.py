"""Pools of the next round: what each has from now on."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.checks.cluster import check_pools
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.pools import Pool
from placewright.instances.errors import InvalidInputError


def with_pools(cluster: ClusterDocument, changed: Sequence[Pool]) -> ClusterDocument:
    """Return a cluster in which each changed pool takes the place of that of its level.

    Raises
    ------
    InvalidInputError
        For a pool of a resource and level that there is none of, or that counts otherwise.
    """
    if not changed:
        return cluster
    check_pools(cluster.model_copy(update={"pools": tuple(changed)}))
    pools = {(pool.resource, pool.level): pool for pool in cluster.pools}
    for i, pool in enumerate(changed):
        known = pools.get((pool.resource, pool.level))
        if known is None or known.per != pool.per:
            raise InvalidInputError(
                f"no pool of {pool.resource} of this level with per: {pool.per}; "
                "expected one of the round",
                path=("pools", i),
                show_value=False,
            )
        pools[pool.resource, pool.level] = pool
    return cluster.model_copy(update={"pools": tuple(pools.values())})
