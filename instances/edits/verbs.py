"""Edits of hosts, pools, regions, caps, tenants and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from placewright.instances.checks.round import hosts_by_name, known_hosts
from placewright.instances.derived import ranges
from placewright.instances.derived.arrived_copies import with_arrived_copies, with_replicas
from placewright.instances.derived.leases import jobs_after_work, work_left
from placewright.instances.derived.names import check_known
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import end_of
from placewright.instances.derived.waves import without_done
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.cluster import (
    ClusterDocument,
    DomainEntry,
    FabricEntry,
    HostEntry,
)
from placewright.instances.documents.edits import (
    AddEdit,
    CapEdit,
    GpuLinksEdit,
    LimitsEdit,
    PoolEdit,
    QuotaEdit,
    ReplicateEdit,
)
from placewright.instances.documents.geo import Region
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits, Tenant
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GANG, GEO
from placewright.instances.presets.presets import runs_of, with_health
from placewright.topology.units import HOST_LEVEL

# Edits of caps: limits set, raised, lowered or taken away.


def cap(round_: Round, edits: dict[str, CapEdit]) -> Round:
    """Change caps, by name."""
    for name in edits:
        check_known(name, round_.caps, "cap", (name,))
    changed = {
        name: _edited_cap(name, one, edits[name]) if name in edits else one
        for name, one in round_.caps.items()
    }
    return round_ if changed == round_.caps else round_.model_copy(update={"caps": changed})


def _edited_cap(name: str, cap: Cap, edit: CapEdit) -> Cap:
    have = cap.limits
    limits = {**have, **edit.to.limits}
    for field, sign in (("more", 1), ("less", -1)):
        for measure, change in getattr(edit, field).limits.items():
            path = (name, field, *measure.path)
            if measure not in have:
                raise InvalidInputError("no limit of it so far; expected to, with an amount", path)
            limits[measure] += sign * change
            if limits[measure] < 0:
                raise InvalidInputError(
                    f"expected at most the cap, {measure.text(have[measure])}",
                    path,
                    measure.text(change),
                )
    known = [measure.key for measure in have]
    for i, key in enumerate(edit.without):
        check_known(key, known, "limit", (name, "without", i))
        del limits[Measure.of_key(key)]
    return Cap.of(limits)


# Edits of the clock: who is expected to have ended is gone, and copies of data have arrived.


def at(round_: Round, now: int) -> Round:
    """Set the clock to a time, no earlier than that of the round."""
    if now < round_.now:
        raise InvalidInputError(f"expected no earlier than now, {round_.now}", value=now)
    return advance(round_, now - round_.now)


def advance(round_: Round, seconds: int) -> Round:
    """Move the clock by some seconds.

    Jobs that run and say when they started and how long they take are gone once that time is
    over. Those with deadlines have done work, and are gone once all of it is done. Copies of data
    under way have arrived if they are ready.
    """
    now = round_.now + seconds
    if now > MAX_NOW:
        raise InvalidInputError(f"expected a time of at most {MAX_NOW}", value=now)
    if not seconds:
        return round_
    ended = {job.name for job in round_.jobs if _has_ended(job, now, round_.leases, seconds)}
    left = round_.without_jobs(ended)
    jobs = jobs_after_work(without_done(left.jobs, ended), round_.leases, seconds)
    update = {"now": now, "jobs": jobs, "geo": with_arrived_copies(round_.geo, now)}
    return left.model_copy(update=update)


def _has_ended(job: Job, now: int, leases: Leases, seconds: int) -> bool:
    if job.running is None:
        return False
    if job.stage is not None:
        return end_of(job, now - seconds) <= now
    left = work_left(job, leases, seconds)
    if left is not None:
        return left <= 0
    started, runtime = job.running.started, job.expected_runtime_s
    return started is not None and runtime is not None and started + runtime <= now


# Edits of pools: what all domains of a level, or some of them, have.


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
        return InvalidInputError(text, (resource, "level"))
    none = "none, since the whole cluster shares it" if None in levels else ""
    expected = " or ".join(filter(None, (named, none)))
    return InvalidInputError(
        f"no pool of {resource} of this level; expected {expected}", (resource, "level"), level
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
            f"expected at most what a domain has, {has}", (resource, "less"), edit.less
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


# Edits of hosts: drained, failed, restored, released from reservations, or added.


REMAINING = "remaining"
MAX_NAME = 253


def drain(round_: Round, hosts: Sequence[str]) -> Round:
    """Let nothing arrive on hosts, and leave as little there as possible before all other terms."""
    policy = round_.policy
    if "policy.vacate" not in policy.spec.fields:
        raise InvalidInputError(
            f"policy {policy.formulation} drains no hosts, only {GANG.name} does; expected fail: "
            "nothing arrives there, and who runs there starts anew elsewhere",
            value=", ".join(hosts),
        )
    known = expanded(round_, hosts)
    drained = {name for entry in policy.vacate for name in ranges.expand(entry)}
    if known <= drained:
        return round_
    terms = policy.terms if REMAINING in policy.terms else (REMAINING, *policy.terms)
    vacate = tuple(dict.fromkeys((*policy.vacate, *hosts)))
    return _with_policy(round_, terms=terms, vacate=vacate)


def fail(round_: Round, hosts: Sequence[str]) -> Round:
    """Make hosts unhealthy; who runs there is pending again, pinned or not."""
    failed = expanded(round_, hosts)
    round_ = _with_cluster(round_, with_health(round_.cluster, dict.fromkeys(failed, False)))
    jobs = tuple(
        job.model_copy(update={"running": None}) if _runs_on(job, failed) else job
        for job in round_.jobs
    )
    return round_ if jobs == round_.jobs else round_.model_copy(update={"jobs": jobs})


def restore(round_: Round, hosts: Sequence[str]) -> Round:
    """Make hosts healthy, without outages and no longer drained; reservations stay."""
    back = expanded(round_, hosts)
    round_ = _with_cluster(round_, with_health(round_.cluster, dict.fromkeys(back, True)))
    if round_.leases.outages:
        outages = tuple(
            one if name == one.host else one.model_copy(update={"host": name})
            for one in round_.leases.outages
            for name in _without(one.host, back)
        )
        leases = round_.leases.model_copy(update={"outages": outages})
        round_ = round_.model_copy(update={"leases": leases})
    policy = round_.policy
    vacate = tuple(name for entry in policy.vacate for name in _without(entry, back))
    if vacate == policy.vacate:
        return round_
    terms = policy.terms
    if not vacate:
        terms = tuple(term for term in terms if term != REMAINING) or policy.spec.default
    return _with_policy(round_, terms=terms, vacate=vacate)


def release(round_: Round, hosts: Sequence[str]) -> Round:
    """Take away the reservations on hosts, or on some of their GPUs."""
    released = expanded(round_, hosts)
    reserved = {name for one in round_.reservations for name in ranges.expand(one.host)}
    if not released & reserved:
        raise InvalidInputError(
            "not reserved; expected hosts with a reservation", value=tuple(hosts)
        )
    left = tuple(
        one if name == one.host else Reservation(host=name, gpus=one.gpus)
        for one in round_.reservations
        for name in _without(one.host, released)
    )
    return round_.model_copy(update={"reservations": left})


def add(round_: Round, edit: AddEdit) -> Round:
    """Add hosts and domains: those given, or copies of a domain with all that is in it."""
    cluster = round_.cluster
    domains, hosts, fabric = list(edit.domains), list(edit.hosts), list(cluster.fabric)
    sets, pools = dict(round_.host_sets), cluster.pools
    for i, name in enumerate(edit.host_sets):
        check_known(name, sets, "host set", ("host_sets", i))
        sets[name] = (*sets[name], *(entry.name for entry in hosts))
    if edit.like is not None:
        taken = {one.name for one in cluster.domains} | hosts_by_name(cluster).keys()
        check_known(edit.like, taken, "domain or host", ("like",))
        numbers = _free_numbers(edit.like, taken)
        for _ in range(edit.count):
            prefix = f"new{next(numbers)}-"
            more_domains, more_hosts = _copied(cluster, edit.like, prefix)
            domains += more_domains
            hosts += more_hosts
            sets = _with_copies(sets, more_hosts, prefix)
            fabric += _links_of_copies(cluster, more_domains, prefix)
            pools = pools_with_copies(pools, more_domains, more_hosts, prefix)
    update: dict[str, object] = {
        "domains": (*cluster.domains, *domains),
        "hosts": (*cluster.hosts, *hosts),
    }
    update |= {"pools": pools, "fabric": tuple(fabric)}
    round_ = _with_cluster(round_, cluster.model_copy(update=update))
    return round_ if sets == round_.host_sets else round_.model_copy(update={"host_sets": sets})


def gpu_links(round_: Round, edit: GpuLinksEdit) -> Round:
    """Join the GPUs of hosts as another link matrix says."""
    cluster, to = round_.cluster, edit.to
    try:
        chosen = expanded(round_, edit.hosts)
    except InvalidInputError as error:
        raise error.under("hosts") from None
    if not isinstance(to, str):
        if to.name in {matrix.name for matrix in cluster.gpu_links}:
            raise InvalidInputError(
                "link matrix exists already; expected a new name", ("to", "name"), to.name
            )
        cluster = cluster.model_copy(update={"gpu_links": (*cluster.gpu_links, to)})
        to = to.name
    hosts = tuple(
        part.model_copy(update={"gpu_links": to}) if joined else part
        for entry in cluster.hosts
        for part, joined in runs_of(entry, chosen.__contains__)
    )
    return _with_cluster(round_, cluster.model_copy(update={"hosts": hosts}))


def expanded(round_: Round, hosts: Sequence[str]) -> frozenset[str]:
    """Return the hosts that names and ranges stand for.

    Raises
    ------
    InvalidInputError
        If one is not of the cluster; the path is its index.
    """
    known = hosts_by_name(round_.cluster)
    return frozenset(one for i, name in enumerate(hosts) for one in known_hosts(name, known, (i,)))


def _runs_on(job: Job, hosts: frozenset[str]) -> bool:
    return job.running is not None and any(task.host in hosts for task in job.running.tasks)


def _with_policy(round_: Round, **update: object) -> Round:
    return round_.model_copy(update={"policy": round_.policy.model_copy(update=update)})


def _with_cluster(round_: Round, cluster: ClusterDocument) -> Round:
    return round_ if cluster == round_.cluster else round_.model_copy(update={"cluster": cluster})


def _without(entry: str, gone: frozenset[str]) -> Iterable[str]:
    """Return a name or range as it is, or the names of it that are left."""
    names = ranges.expand(entry)
    left = [name for name in names if name not in gone]
    return (entry,) if len(left) == len(names) else left


def _links_of_copies(
    cluster: ClusterDocument, copies: Sequence[DomainEntry], prefix: str
) -> Iterator[FabricEntry]:
    """Yield links of copies of domains: to copies where both ends are copied, else to the other."""
    name = {one.name.removeprefix(prefix): one.name for one in copies}
    for link in cluster.fabric:
        a, b = link.between
        if a in name or b in name:
            yield link.model_copy(update={"between": (name.get(a, a), name.get(b, b))})


def _with_copies(
    sets: Mapping[str, tuple[str, ...]], copies: Sequence[HostEntry], prefix: str
) -> dict[str, tuple[str, ...]]:
    """Return host sets in which copies of hosts are, too, if these are; copies have a prefix."""
    copied = {name.removeprefix(prefix) for one in copies for name in ranges.expand(one.name)}
    found = {}
    for name, entries in sets.items():
        more: list[str] = []
        for entry in entries:
            mine = [host for host in ranges.expand(entry) if host in copied]
            whole = len(mine) == ranges.size(entry)
            more += [f"{prefix}{entry}"] if whole else [f"{prefix}{host}" for host in mine]
        found[name] = (*entries, *more)
    return found


def _free_numbers(like: str, taken: set[str]) -> Iterator[int]:
    number = 0
    while True:
        number += 1
        if f"new{number}-{like}" not in taken:
            yield number


def _copied(
    cluster: ClusterDocument, like: str, prefix: str
) -> tuple[list[DomainEntry], list[HostEntry]]:
    """Return the entries of a domain or host and all that is in it, under new names."""
    inside = {like}
    domains: list[DomainEntry] = []
    for entry in sorted(cluster.domains, key=lambda one: cluster.levels.index(one.level)):
        if entry.name == like or entry.parent in inside:
            inside.add(entry.name)
            domains.append(entry)
    hosts = [entry for entry in cluster.hosts if domains and entry.parent in inside]
    if not domains:
        alone = next(entry for entry in cluster.hosts if like in ranges.expand(entry.name))
        hosts = [alone.model_copy(update={"name": like})]

    def renamed(name: str) -> str:
        if len(prefix) + len(name) > MAX_NAME:
            raise InvalidInputError(
                f"too long a name to copy; expected at most {MAX_NAME - len(prefix)} characters",
                ("like",),
                name,
            )
        return prefix + name

    def parent(entry: DomainEntry | HostEntry) -> str | None:
        own = entry.parent
        return own if own is None or own not in inside or entry.name == like else prefix + own

    return (
        [
            one.model_copy(update={"name": renamed(one.name), "parent": parent(one)})
            for one in domains
        ],
        [
            one.model_copy(
                update={
                    "name": renamed(one.name),
                    "parent": parent(one),
                    "healthy": True,
                    "annotations": {},  # they say which host of the source this is
                }
            )
            for one in hosts
        ],
    )


# Edits of data: further replicas.


def replicate(round_: Round, edit: ReplicateEdit) -> Round:
    """Put replicas of a dataset into further regions; copies that are under way there are not."""
    if "geo" not in round_.policy.spec.sections:
        raise InvalidInputError(
            f"policy {round_.policy.formulation} knows no data; expected geo or replicas",
            ("dataset",),
            edit.dataset,
        )
    geo = round_.geo
    check_known(edit.dataset, {one.name for one in geo.datasets}, "dataset", ("dataset",))
    datasets = tuple(
        with_replicas(one, dict.fromkeys((*one.replicas, *edit.regions)))
        if one.name == edit.dataset
        else one
        for one in geo.datasets
    )
    copying = tuple(
        one for one in geo.copying if one.dataset != edit.dataset or one.region not in edit.regions
    )
    update = {"datasets": datasets, "copying": copying}
    return round_.model_copy(update={"geo": geo.model_copy(update=update)})


# Edits of what tenants and the policy allow: quotas, and limits of the disruption budget.


def quota(round_: Round, edits: dict[str, QuotaEdit]) -> Round:
    """Change quotas of tenants, by name."""
    known = {tenant.name for tenant in round_.tenants}
    for name in edits:
        check_known(name, known, "tenant", (name,))
    tenants = tuple(
        _with_quota(tenant, edits[tenant.name]) if tenant.name in edits else tenant
        for tenant in round_.tenants
    )
    for name, edit in edits.items():
        round_ = _in_regions(round_, name, edit.in_regions)
    return round_.model_copy(update={"tenants": tenants})


def _in_regions(round_: Round, tenant: str, amounts: Mapping[str, int]) -> Round:
    """Set what a tenant may hold in regions."""
    geo = round_.geo
    known = {one.name for one in round_.cluster.domains if one.level == geo.level}
    for region in amounts:
        path = (tenant, "in_regions", region)
        if round_.policy.spec is not GEO:
            problem = f"policy {round_.policy.formulation} knows no quotas of regions; expected geo"
            raise InvalidInputError(problem, path)
        check_known(region, known, "region", path)
    regions = {one.name: one for one in geo.regions}
    for name, amount in amounts.items():
        entry = regions.get(name, Region(name=name))
        quotas = {**entry.quotas, tenant: amount}
        regions[name] = entry.model_copy(update={"quotas": quotas})
    if not amounts:
        return round_
    changed = geo.model_copy(update={"regions": tuple(regions.values())})
    return round_.model_copy(update={"geo": changed})


def _with_quota(tenant: Tenant, edit: QuotaEdit) -> Tenant:
    amounts = {**tenant.quota, **edit.to}
    for field, sign in (("more", 1), ("less", -1)):
        for resource, change in getattr(edit, field).items():
            path = (tenant.name, field, resource)
            if resource not in tenant.quota:
                raise InvalidInputError("no quota of it so far; expected to, with an amount", path)
            amounts[resource] += sign * change
            if amounts[resource] < 0:
                raise InvalidInputError(
                    f"expected at most the quota, {amount_text(resource, tenant.quota[resource])}",
                    path,
                    amount_text(resource, change),
                )
    for i, resource in enumerate(edit.without):
        check_known(resource, tenant.quota, "quota", (tenant.name, "without", i))
        del amounts[resource]
    return tenant if amounts == tenant.quota else tenant.model_copy(update={"quota": amounts})


def limits(round_: Round, edit: LimitsEdit) -> Round:
    """Change limits of the disruption budget."""
    policy = round_.policy
    have = policy.limits.disruption if policy.limits is not None else None
    have = DisruptionLimits() if have is None else have
    update = {name: getattr(edit.to, name) for name in edit.to.model_fields_set}
    for i, name in enumerate(edit.without):
        if getattr(have, name) is None:
            raise InvalidInputError(
                "no such limit; expected one that the policy has", ("without", i), name
            )
        update[name] = None
    changed = have.model_copy(update=update)
    if changed == have:
        return round_
    new = None if changed == DisruptionLimits() else PolicyLimits(disruption=changed)
    return round_.model_copy(update={"policy": policy.model_copy(update={"limits": new})})
