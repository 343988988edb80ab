"""Rules that bind a job: pools, quotas, caps, cells; and hosts that are away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from placewright.explain.facts.fact import Edit, Fact, Stratum, group, named
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import expected_end, hosts_away
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.presets.presets import with_health
from placewright.topology.units import UNLIMITED

# Hosts that are away: unhealthy, reserved, to be vacated, or taken by maintenance too early.
#
# A host with several of these, or with some reserved GPUs, is one fact: without it the host is as
# good as any other.


UNHEALTHY, RESERVED, PARTLY = "unhealthy", "reserved", "reserved in part"
TO_VACATE, MAINTENANCE = "to be vacated", "soon in maintenance"
Listed = TypeVar("Listed", Reservation, Outage)


def away(round_: Round, name: str, able: Collection[str] = ()) -> list[Fact]:
    """Return all hosts that are away for a pending job as one fact; nothing if none is.

    Of those some are `able` to hold a task of it: if there are any, it names these alone.
    """
    causes = causes_of(round_, named(name, round_))
    if not causes:
        return []
    names = (host for entry in round_.cluster.hosts for host in expand(entry.name))
    away_now = tuple(host for host in names if host in causes)
    return [_hosts(away_now, causes, _domains(round_.cluster), able)]


def causes_of(round_: Round, job: Job) -> dict[str, tuple[str, ...]]:
    """Return why hosts are away for a pending job, by name."""
    causes: defaultdict[str, list[str]] = defaultdict(list)
    for entry in round_.cluster.hosts:
        for host in () if entry.healthy else expand(entry.name):
            causes[host].append(UNHEALTHY)
    for one in round_.reservations:
        for host in expand(one.host):
            causes[host].append(RESERVED if one.gpus is None else PARTLY)
    for listed in round_.policy.vacate:
        for host in expand(listed):
            causes[host].append(TO_VACATE)
    for host in hosts_away(round_, round_.now, expected_end(job, round_.now)):
        causes[host].append(MAINTENANCE)
    return {host: tuple(dict.fromkeys(why)) for host, why in causes.items()}


def _hosts(
    names: tuple[str, ...],
    causes: Mapping[str, tuple[str, ...]],
    domains: Sequence[Mapping[str, str]],
    able: Collection[str],
    depth: int = 0,
) -> Fact:
    """Return the fact that some hosts are away.

    From depth 1 on they are away for the same causes, from depth 2 on in one domain of the first
    level, and so on.
    """
    where = f" in {domains[depth - 2][names[0]]}" if depth > 1 else ""
    shown = [name for name in names if name in able] or names
    each = " and " if len({causes[name] for name in shown}) == 1 else " or "
    why = each.join(dict.fromkeys(cause for name in shown for cause in causes[name]))
    if len(shown) == 1:
        text = f"host {shown[0]} is {why}"
    else:
        text = f"{count(len(shown), 'host')}{where} are {why}: {several(shown)}"

    def partitions(_: Sequence[Fact]) -> Iterable[Sequence[Fact]]:
        for deeper in range(depth + 1, len(domains) + 2):
            parts = _parts(names, causes, domains[: deeper - 1])
            yield [_hosts(part, causes, domains, able, deeper) for part in parts]
        yield [_hosts((name,), causes, domains, able) for name in names]

    about = {
        "hosts": list(names),
        "causes": list(dict.fromkeys(c for n in names for c in causes[n])),
    }
    return group(Stratum.AWAY, "hosts", text, names, back, about, partitions)


def _parts(
    names: Sequence[str],
    causes: Mapping[str, tuple[str, ...]],
    domains: Sequence[Mapping[str, str]],
) -> Iterator[tuple[str, ...]]:
    """Yield the hosts that are away for the same causes in the same domains."""
    parts: defaultdict[Hashable, list[str]] = defaultdict(list)
    for name in names:
        parts[causes[name], tuple(level[name] for level in domains)].append(name)
    return map(tuple, parts.values())


def _domains(cluster: ClusterDocument) -> list[dict[str, str]]:
    """Return the domain of each host, of each level from the outermost inwards."""
    parent = {domain.name: domain.parent for domain in cluster.domains}
    level_of = {domain.name: domain.level for domain in cluster.domains}
    domains: dict[str, dict[str, str]] = {level: {} for level in cluster.levels}
    for entry in cluster.hosts:
        above: dict[str, str] = {}
        domain = entry.parent
        while domain is not None:
            above[level_of[domain]] = domain
            domain = parent[domain]
        for name in expand(entry.name):
            for level, holder in above.items():
                domains[level][name] = holder
    return [domains[level] for level in cluster.levels]


def back(round_: Round, hosts: Collection[str]) -> Round:
    """Return the round in which some hosts are as good as any other."""
    cluster = with_health(round_.cluster, dict.fromkeys(hosts, True))
    policy = round_.policy
    vacate: list[str] = []
    for listed in policy.vacate:
        names = _names_left(listed, hosts)
        vacate += [listed] if names is None else names
    return round_.model_copy(
        update={
            "cluster": cluster,
            "reservations": tuple(_left_of(round_.reservations, hosts)),
            "maintenance": tuple(_left_of(round_.maintenance, hosts)),
            "policy": policy.model_copy(update={"vacate": tuple(vacate)}),
        }
    )


def _left_of(entries: Sequence[Listed], hosts: Collection[str]) -> Iterator[Listed]:
    """Yield the entries without some hosts; a range of which some are left, host by host."""
    for entry in entries:
        names = _names_left(entry.host, hosts)
        if names is None:
            yield entry
        else:
            for name in names:
                yield entry.model_copy(update={"host": name})


def _names_left(listed: str, hosts: Collection[str]) -> list[str] | None:
    """Return what a name or range is without some hosts; None if none of them is in it."""
    names = expand(listed)
    left = [name for name in names if name not in hosts]
    return None if len(left) == len(names) else left


# Rules that bind a job: pools, its tenant's quotas, its caps; if it is guaranteed, cells.


def rules(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the rules that bind a pending job."""
    job = named(name, round_)
    yield from _pools(round_, job)
    for cap in job.caps:
        yield from _caps(round_, cap)
    own = next((tenant for tenant in round_.tenants if tenant.name == job.tenant), None)
    if own is None:
        return
    yield from _quotas(round_, own)
    if own.cells and not job.opportunistic:
        for tenant in sorted(round_.tenants, key=lambda one: one is not own):
            if tenant.cells:
                yield _cells(tenant, own=tenant is own)


def _quotas(round_: Round, tenant: Tenant) -> Iterator[Fact]:
    for resource, amount in tenant.quota.items():
        used = round_.used_by(tenant.name, resource)
        in_use = f" ({amount_text(resource, used)} in use)" if used else ""
        yield Fact(
            Stratum.RULES,
            "quota",
            f"tenant {tenant.name} may hold {amount_text(resource, amount)}{in_use}",
            _without_quota(tenant.name, resource),
            {"tenant": tenant.name, "resource": resource, "amount": amount, "used": used},
        )


def _caps(round_: Round, name: str) -> Iterator[Fact]:
    for measure, most in round_.caps[name].limits.items():
        used = round_.held_of(name, measure)
        in_use = f" ({measure.text(used)} in use)" if used else ""
        yield Fact(
            Stratum.RULES,
            "cap",
            f"cap {name} allows {measure.text(most)}{in_use}",
            _without_limit(name, measure),
            {"cap": name, **measure.facts, "amount": most, "used": used},
        )


def _pools(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield the pools from which the job takes."""
    asked = {name for option in job.options for name, amount in option.uses.items() if amount}
    groups = (group for option in job.options for group in option.groups)
    asked |= {name for group in groups for name, amount in group.resources.items() if amount}
    for number, pool in enumerate(round_.cluster.pools):
        if pool.resource not in asked:
            continue
        others = [f"{name} {amount:,}" for name, amount in pool.domains.items()]
        where = "the cluster has" if pool.level is None else f"each {pool.level} has"
        but = f" ({several(others)})" if others else ""
        for_all = "all jobs together" if pool.per == "task" else "all jobs with tasks there"
        yield Fact(
            Stratum.RULES,
            "pool",
            f"{where} {amount_text(pool.resource, pool.capacity)}{but} for {for_all}",
            _without_pool(number),
            {"resource": pool.resource, "level": pool.level, "amount": pool.capacity},
        )


def _without_pool(number: int) -> Edit:
    """Return the edit by which a pool has as much as can be asked."""

    def edit(round_: Round) -> Round:
        pools = [
            pool.model_copy(update={"capacity": UNLIMITED, "domains": {}}) if k == number else pool
            for k, pool in enumerate(round_.cluster.pools)
        ]
        cluster = round_.cluster.model_copy(update={"pools": tuple(pools)})
        return round_.model_copy(update={"cluster": cluster})

    return edit


def _without_limit(name: str, measure: Measure) -> Edit:
    def edit(round_: Round) -> Round:
        left = {one: most for one, most in round_.caps[name].limits.items() if one != measure}
        return round_.model_copy(update={"caps": {**round_.caps, name: Cap.of(left)}})

    return edit


def _cells(tenant: Tenant, *, own: bool) -> Fact:
    owned = ", ".join(
        count(one.count, one.level) + (f" of {one.gpu_model}" if one.gpu_model else "")
        for one in tenant.cells
    )
    text = f"tenant {tenant.name} owns {owned}"
    if own:
        text = f"guaranteed jobs of tenant {tenant.name} run in its cells: {owned}"

    def edit(round_: Round) -> Round:
        bindings = tuple(one for one in round_.bindings if one.tenant != tenant.name)
        return _edit_tenant(
            round_.model_copy(update={"bindings": bindings}), tenant.name, _NO_CELLS
        )

    return Fact(Stratum.RULES, "cells", text, edit, {"tenant": tenant.name, "own": own})


_NO_CELLS: Mapping[str, Any] = {"cells": ()}


def _without_quota(name: str, resource: str) -> Edit:
    def edit(round_: Round) -> Round:
        (quota,) = (one.quota for one in round_.tenants if one.name == name)
        left = {other: amount for other, amount in quota.items() if other != resource}
        return _edit_tenant(round_, name, {"quota": left})

    return edit


def _edit_tenant(round_: Round, name: str, update: Mapping[str, Any]) -> Round:
    tenants = tuple(
        one.model_copy(update=update) if one.name == name else one for one in round_.tenants
    )
    return round_.model_copy(update={"tenants": tenants})
