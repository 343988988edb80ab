"""Checks of pools: their domains exist, each is given once, and options use what there is."""

from __future__ import annotations

from placewright.instances.derived.names import check_known
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology.units import HOST_LEVEL


def check_pools(document: ClusterDocument) -> None:
    """Refuse pools of levels or domains that the cluster does not have, or given twice.

    All pools of a resource count per task, or all count per job.

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Cluster document.
    """
    errors = Errors()
    first: dict[str, int] = {}
    seen: set[tuple[str, str | None]] = set()
    for i, pool in enumerate(document.pools):
        path: Path = ("pools", i)
        before = first.setdefault(pool.resource, i)
        with errors:
            if (pool.resource, pool.level) in seen:
                raise InvalidInputError(
                    f"pool of this level given twice; expected each pool of {pool.resource} once",
                    path=(*path, "level"),
                    value=pool.level,
                )
            if pool.per != document.pools[before].per:
                raise InvalidInputError(
                    f"expected {document.pools[before].per} as in pools[{before}], "
                    f"which is of {pool.resource}, too",
                    path=(*path, "per"),
                    value=pool.per,
                )
            _check_domains(pool, path, document)
        seen.add((pool.resource, pool.level))
    errors.refuse()


def _check_domains(pool: Pool, path: Path, document: ClusterDocument) -> None:
    if pool.level is None:
        if pool.domains:
            raise InvalidInputError(
                "given without a level; expected the level of these domains",
                path=(*path, "domains"),
                show_value=False,
            )
        return
    check_known(pool.level, (*document.levels, HOST_LEVEL), "level", (*path, "level"))
    if not pool.domains:
        return
    if pool.level == HOST_LEVEL:
        known = {name for entry in document.hosts for name in expand(entry.name)}
    else:
        known = {domain.name for domain in document.domains if domain.level == pool.level}
    errors = Errors()
    for name in pool.domains:
        with errors:
            check_known(name, known, f"domain of level {pool.level}", (*path, "domains", name))
    errors.refuse()


def check_uses(round_: Round) -> None:
    """Refuse options that use what no pool has per job, and no cap limits that no host has.

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Round document.
    """
    pools = {pool.resource: pool.per for pool in round_.cluster.pools}
    per_job = {resource for resource, per in pools.items() if per == "job"}
    capped = {name for cap in round_.caps.values() for name in cap.resources if "@" in name}
    if capped:
        capped -= {name for entry in round_.cluster.hosts for name in entry.resources}
        per_job |= capped - pools.keys()
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        for j, option in enumerate(job.options):
            for name in option.uses:
                with errors:
                    path = ("jobs", i, "options", j, "uses", name)
                    if pools.get(name) == "task":
                        raise InvalidInputError(
                            "its pool has per: task; expected in resources of the task groups",
                            path=path,
                            value=option.uses[name],
                        )
                    what = "resource of a pool with per: job, or of a cap"
                    check_known(name, per_job, what, path)
    errors.refuse()
