"""Edits of pools: what all domains of a level, or some of them, have."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.derived.names import check_known
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import DomainEntry, HostEntry
from placewright.instances.documents.edits import PoolEdit
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import HOST_LEVEL


def pool(round_: Round, edits: dict[str, PoolEdit]) -> Round:
    """Change what pools have, by resource; the level of an edit says of which of its pools."""
    pools = list(round_.cluster.pools)
    for resource, edit in edits.items():
        check_known(resource, {one.resource for one in pools}, "resource of a pool", (resource,))
        found = [
            k for k, one in enumerate(pools) if (one.resource, one.level) == (resource, edit.level)
        ]
        if not found:
            raise _no_pool(resource, edit.level, [o.level for o in pools if o.resource == resource])
        pools[found[0]] = _edited(resource, pools[found[0]], edit)
    if tuple(pools) == round_.cluster.pools:
        return round_
    cluster = round_.cluster.model_copy(update={"pools": tuple(pools)})
    return round_.model_copy(update={"cluster": cluster})


def _no_pool(resource: str, level: str | None, levels: Sequence[str | None]) -> InvalidInputError:
    """Return the error that a resource has no pool of a level, but of others."""
    named = " or ".join(one for one in levels if one is not None)
    if level is None:
        text = f"missing; the whole cluster has no pool of {resource}, expected {named}"
        return InvalidInputError(text, path=(resource, "level"), show_value=False)
    none = "none, since the whole cluster shares it" if None in levels else ""
    expected = " or ".join(filter(None, (named, none)))
    return InvalidInputError(
        f"no pool of {resource} of this level; expected {expected}",
        path=(resource, "level"),
        value=level,
    )


def _edited(resource: str, pool: Pool, edit: PoolEdit) -> Pool:
    if edit.domains:
        has = {name: pool.domains.get(name, pool.capacity) for name in edit.domains}
        changed = {name: _amount(resource, edit, amount) for name, amount in has.items()}
        return pool.model_copy(update={"domains": {**pool.domains, **changed}})
    if edit.to is not None:
        return pool.model_copy(update={"capacity": edit.to, "domains": {}})
    return pool.model_copy(
        update={
            "capacity": _amount(resource, edit, pool.capacity),
            "domains": {n: _amount(resource, edit, has) for n, has in pool.domains.items()},
        }
    )


def _amount(resource: str, edit: PoolEdit, has: int) -> int:
    """Return what a domain has afterwards."""
    if edit.to is not None:
        return edit.to
    amount = has + (edit.more or 0) - (edit.less or 0)
    if amount < 0:
        raise InvalidInputError(
            f"expected at most what a domain has, {has}", path=(resource, "less"), value=edit.less
        )
    return amount


def pools_with_copies(
    pools: Sequence[Pool], domains: Sequence[DomainEntry], hosts: Sequence[HostEntry], prefix: str
) -> tuple[Pool, ...]:
    """Return pools of which copies of domains and hosts, named with a prefix, have as much."""
    copies = {one.name for one in domains}
    if any(pool.level == HOST_LEVEL and pool.domains for pool in pools):
        copies |= {name for one in hosts for name in expand(one.name)}
    found = []
    for pool in pools:
        more = {prefix + n: has for n, has in pool.domains.items() if prefix + n in copies}
        found.append(pool.model_copy(update={"domains": {**pool.domains, **more}}))
    return tuple(found)
