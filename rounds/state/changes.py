"""The next round: the last one with its plan carried out and the reported changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from placewright.instances.checks.cluster import check_pools
from placewright.instances.checks.limits import check_caps_of_jobs, check_cells
from placewright.instances.checks.magnitudes import check_magnitudes
from placewright.instances.checks.policies import CHECKS
from placewright.instances.checks.round import (
    check_jobs,
    check_limits,
    known_hosts,
    trusted,
    with_invalid_jobs,
)
from placewright.instances.derived.arrived_copies import with_arrived_copies, with_replicas
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.leases import jobs_after_work
from placewright.instances.derived.names import check_known, check_unique
from placewright.instances.derived.waves import with_waves, without_done
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.cells import bindings_in
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.geo import Copying, Dataset, Geo, Region, WanLink
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.plan_data import Drop, Flow
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.errors import ENTRY, InvalidInputError, Path
from placewright.instances.presets.presets import with_health
from placewright.rounds.state.admission import jobs_with_promises


def with_pools(cluster: ClusterDocument, changed: Sequence[Pool]) -> ClusterDocument:
    """Return a cluster in which each changed pool takes the place of that of its level.

    Raises InvalidInputError for a pool of a resource and level that there is none of, or that
    counts otherwise.
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


# Transfers from round to round: copies under way, deletions, and the residual capacity of links.
#
# A plan's transfers go on while the next rounds are decided. A replica occupies storage until it is
# deleted; flows use a link's budget for the whole window, and its bandwidth until they end.
REPLICAS, FLOWS = "replicas", "flows"
_BITS, _MEGA = 8 * 2**30, 10**6


@dataclass(frozen=True, slots=True)
class TransferOrders:
    """Transfers that earlier plans ordered and that are still under way.

    `began`: start of the current window, in seconds on the round's clock; None before the first
    plan. `spent`: GiB of each link's budget that the window's flows use. `flows`, `drops`: flows
    and deletions that may not be over.
    """

    began: int | None = None
    spent: Mapping[tuple[str, str], int] | None = None
    flows: tuple[Flow, ...] = ()
    drops: tuple[Drop, ...] = ()

    def residual_round(self, round_: Round) -> Round:
        """Return the residual round: storage and links without what these orders still need."""
        if "geo" not in round_.policy.spec.sections or self.began is None:
            return round_
        geo, now = round_.geo, round_.now
        size = {dataset.name: dataset.size for dataset in geo.datasets}
        kept: defaultdict[str, int] = defaultdict(int)
        for drop in self.drops:
            if drop.at > now:
                kept[drop.region] += size.get(drop.dataset, 0)
        spent = {} if now - self.began >= geo.window_s else self.spent or {}
        busy = _peak_rates((flow for flow in self.flows if flow.end > now), now)
        update = {
            "regions": tuple(_without(region, kept[region.name]) for region in geo.regions),
            "links": tuple(
                _left(geo, link, spent.get(pair, 0), busy.get(pair, 0))
                for link in geo.links
                for pair in [(link.source, link.target)]
            ),
        }
        return round_.model_copy(update={"geo": geo.model_copy(update=update)})

    def after(self, round_: Round, sections: Iterable[Mapping[str, Any]]) -> TransferOrders:
        """Return the orders after a valid plan with these sections is carried out at `now`."""
        if "geo" not in round_.policy.spec.sections:
            return self
        now, window = round_.now, round_.geo.window_s
        _, drops, flows = orders_in(sections)
        began, spent = self.began, dict(self.spent or {})
        if began is None or now - began >= window:
            began, spent = now if began is None else now - (now - began) % window, {}
        for flow in flows:
            for pair in pairwise(flow.path):
                spent[pair] = spent.get(pair, 0) + flow.gib
        return TransferOrders(
            began,
            spent,
            (*(flow for flow in self.flows if flow.end > now), *flows),
            (*(drop for drop in self.drops if drop.at > now), *drops),
        )


def orders_in(
    sections: Iterable[Mapping[str, Any]],
) -> tuple[tuple[Copying, ...], tuple[Drop, ...], tuple[Flow, ...]]:
    """Return what the sections of a valid plan order: copies, deletions, and flows."""
    copies: list[Copying] = []
    drops: list[Drop] = []
    flows: list[Flow] = []
    for section in sections:
        if section["kind"] == REPLICAS:
            copies += map(Copying.model_validate, section.get("creates", ()))
            drops += map(Drop.model_validate, section.get("drops", ()))
        elif section["kind"] == FLOWS:
            flows += map(Flow.model_validate, section["flows"])
    return tuple(copies), tuple(drops), tuple(flows)


def geo_after_plan(round_: Round, sections: Iterable[Mapping[str, Any]]) -> Geo:
    """Return the section `geo` once a valid plan is carried out: copies under way, replicas gone.

    A replica that is to be deleted is gone at once; `TransferOrders` keep its storage
    occupied until then.
    """
    if "geo" not in round_.policy.spec.sections:
        return round_.geo
    geo = with_arrived_copies(round_.geo, round_.now)
    copies, drops, _ = orders_in(sections)
    gone = {(drop.dataset, drop.region) for drop in drops}
    touched = {name for name, _ in gone}
    datasets = tuple(
        with_replicas(one, (r for r in one.replicas if (one.name, r) not in gone))
        if one.name in touched
        else one
        for one in geo.datasets
    )
    return geo.model_copy(update={"datasets": datasets, "copying": (*geo.copying, *copies)})


def with_updates(
    geo: Geo,
    datasets: Sequence[Dataset],
    links: Sequence[WanLink],
    regions: Sequence[Region],
    copying: Sequence[Copying] | None,
) -> Geo:
    """Return the section with entries added or replaced.

    A copy under way to where a dataset says that it has a replica is no longer one.
    """
    data = {one.name: one for one in (*geo.datasets, *datasets)}
    there = {(one.name, region) for one in datasets for region in one.replicas}
    coming = geo.copying if copying is None else copying
    return geo.model_copy(
        update={
            "datasets": tuple(data.values()),
            "links": tuple({(k.source, k.target): k for k in (*geo.links, *links)}.values()),
            "regions": tuple({one.name: one for one in (*geo.regions, *regions)}.values()),
            "copying": tuple(one for one in coming if (one.dataset, one.region) not in there),
        }
    )


def _without(region: Region, gib: int) -> Region:
    if region.storage is None or not gib:
        return region
    return region.model_copy(update={"storage": max(0, region.storage - gib)})


def _left(geo: Geo, link: WanLink, spent: int, busy: int) -> WanLink:
    """Return a link without the GiB and the Mbit/s that flows take of it.

    Some bandwidth is left in any case, as jobs go on reading over the link.
    """
    if not spent and not busy:
        return link
    update = {
        "budget": max(0, geo.budget(link) - spent),
        "bandwidth": min(link.bandwidth, max(1, link.bandwidth - busy)),
    }
    return link.model_copy(update=update)


def _peak_rates(flows: Iterable[Flow], now: int) -> dict[tuple[str, str], int]:
    """Return the most Mbit/s, rounded up, that flows take of each link at once from now on."""
    over: defaultdict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in flows:
        for pair in pairwise(flow.path):
            over[pair].append(flow)
    return {pair: _peak(mine, now) for pair, mine in over.items()}


def _peak(flows: Sequence[Flow], now: int) -> int:
    changes: defaultdict[int, int] = defaultdict(int)
    for flow in flows:
        rate = -(-flow.gib * _BITS // (_MEGA * (flow.end - flow.start)))
        changes[max(now, flow.start)] += rate
        changes[flow.end] -= rate
    rate = most = 0
    for at in sorted(changes):
        rate += changes[at]
        most = max(most, rate)
    return most


_TYPES: Mapping[str, tuple[type, str]] = {
    "removed": (str, "a name"),
    "updated": (Job, "a Job"),
    "added": (Job, "a Job"),
    "order": (str, "a name"),
    "health": (bool, "true or false"),
    "quotas": (Mapping, "a mapping"),
    "caps": (Mapping, "a mapping"),
    "pools": (Pool, "a Pool"),
    "reservations": (Reservation, "a Reservation"),
    "maintenance": (Outage, "an Outage"),
    "outages": (Outage, "an Outage"),
    "datasets": (Dataset, "a Dataset"),
    "links": (WanLink, "a WanLink"),
    "regions": (Region, "a Region"),
    "copying": (Copying, "a Copying"),
}
"""Of the entries of `Changes`."""


def _check_type(name: str, given: Any) -> None:
    """Refuse what is not of the type of a field of `Changes`, or has an entry that is not."""
    if name not in _TYPES:
        if not isinstance(given, int):
            raise InvalidInputError("expected an integer", (name,), given)
        return
    kind, expected = _TYPES[name]
    entries: Iterable[tuple[str | int, object]]
    if name in ("health", "quotas", "caps"):
        if not isinstance(given, Mapping):
            raise InvalidInputError("expected a mapping by name", (name,), given)
        entries = given.items()
    else:
        if isinstance(given, str) or not isinstance(given, Collection):
            problem = f"expected a list, of which each is {expected}"
            raise InvalidInputError(problem, (name,), given)
        entries = enumerate(given)
    for key, entry in entries:
        if not isinstance(entry, kind):
            raise InvalidInputError(f"expected {expected}", (name, key), entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What happened between two rounds.

    Parameters
    ----------
    removed
        Names of jobs that ended or were cancelled, pending or running.
    updated
        Jobs that take the place of those of the same name, as they are now: one that did not start
        after all has no `running`, one that runs elsewhere says where.
    added
        New jobs, pending or running; a name that is also `removed` may come back.
    order
        Names of all jobs that the next round has, in the order in which it lists them; () keeps
        that of the last round, and added jobs come last.
    health
        Whether hosts are healthy, by name or range; others stay as they are.
    quotas
        New quotas of tenants, by name, as a document has them (`gpu`: 8, 0.25 or "250m");
        a tenant that is not known yet is added.
    caps
        New caps, by name, as a document has them; one that is not known yet is added.
    pools
        Each takes the place of the pool of its resource and level, which the round has.
    reservations, maintenance
        Take the place of all of them; None leaves them.
    outages
        Take the place of all outages of the section `leases`; None leaves them.
    datasets, links, regions
        Entries of the section `geo`, of policies `geo` and `replicas`: each takes the place of the
        one of that name, of a link with these ends, or is new.
    copying
        Take the place of all copies under way; None leaves them. They are those that the plans
        ordered: replicas once the round's time has come.
    now
        The time of the next round, no earlier than the last one; None leaves it. Jobs with a
        deadline that run have done work by then, at the pace of their option; those that did more
        or less are `updated`, and those that are done are `removed`.

    Raises
    ------
    InvalidInputError
        If a field is of another type: with its name, its value and what was expected.
    """

    removed: Collection[str] = ()
    updated: Sequence[Job] = ()
    added: Sequence[Job] = ()
    order: Sequence[str] = ()
    health: Mapping[str, bool] = field(default_factory=dict)
    quotas: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    caps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pools: Sequence[Pool] = ()
    reservations: Sequence[Reservation] | None = None
    maintenance: Sequence[Outage] | None = None
    outages: Sequence[Outage] | None = None
    datasets: Sequence[Dataset] = ()
    links: Sequence[WanLink] = ()
    regions: Sequence[Region] = ()
    copying: Sequence[Copying] | None = None
    now: int | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            given = getattr(self, one.name)
            if given is not None or one.default is not None:
                _check_type(one.name, given)


def apply_plan(round_: Round, plan: Plan, restart_s: Mapping[str, int]) -> Round:
    """Return the round after its plan has been carried out at `now`.

    Whatever started or moved has just saved its work: its checkpoint is `now`, and who starts
    `started` now. A job that starts
    takes `restart_s` seconds to start again, by name, 0 if it is not there. Jobs have the promises
    that the plan gives them.
    """
    if any(job.stage is not None for job in round_.jobs):
        round_, plan = with_waves(round_, plan)
    jobs = list(jobs_with_promises(round_, plan.sections))
    for index, (job, decision) in enumerate(zip(round_.jobs, plan.decisions, strict=True)):
        running: Running | None
        if decision.decision is DecisionKind.START and decision.option is not None:
            running = Running.model_construct(
                option=decision.option,
                tasks=decision.tasks,
                checkpoint=round_.now,
                started=round_.now,
                restart_s=restart_s.get(job.name, 0),
            )
        elif decision.decision.moves and job.running is not None:
            update = {
                "option": decision.option,
                "tasks": decision.tasks,
                "checkpoint": round_.now,
            }
            running = job.running.model_copy(update=update)
        elif decision.decision is DecisionKind.PREEMPT:
            running = None
        else:
            continue
        jobs[index] = jobs[index].model_copy(update={"running": running})
    bindings, geo = bindings_in(plan.sections), geo_after_plan(round_, plan.sections)
    return round_.model_copy(update={"jobs": tuple(jobs), "bindings": bindings, "geo": geo})


def apply_changes(round_: Round, changes: Changes, hosts: Mapping[str, Hardware]) -> Round:
    """Return a legal round with the changes made; only what they touch is checked.

    `round_`: a checked round. `hosts`: from `hosts_by_name`, which does not depend on health.
    Raises InvalidInputError if the first fault. Its path leads into the changes, or, where quotas,
    reservations or the policy no longer fit the round, into that.
    """
    now = _now(round_, changes)
    jobs = _jobs(round_, changes, now - round_.now)
    following = round_.model_copy(
        update={
            "now": now,
            "cluster": _cluster(round_.cluster, changes, hosts),
            "jobs": jobs,
            "tenants": _tenants(round_, changes),
            "caps": _caps(round_, changes),
            "sharing": _sharing(round_.sharing, jobs),
            "leases": round_.leases
            if changes.outages is None
            else round_.leases.model_copy(update={"outages": tuple(changes.outages)}),
            "geo": _geo(round_, changes, now),
            "reservations": round_.reservations
            if changes.reservations is None
            else tuple(changes.reservations),
            "maintenance": round_.maintenance
            if changes.maintenance is None
            else tuple(changes.maintenance),
        }
    )
    _check_changed_jobs(following, changes, hosts)
    if changes.caps and not round_.invalid:
        check_caps_of_jobs(following)
    if round_.invalid:  # a change may have made them valid
        return with_invalid_jobs(following)
    check_limits(following, hosts)
    check_cells(following)
    if changes.added or changes.updated:  # sums over all jobs
        CHECKS[following.policy.formulation].jobs(following)
        check_magnitudes(following)
    return trusted(following)


def _jobs(round_: Round, changes: Changes, seconds: int) -> tuple[Job, ...]:
    """Return the jobs that stay, in their order and as updated, then the added ones.

    Those that run and are not updated have done the work of `seconds`.
    """
    updated = {job.name: job for job in changes.updated}
    check_unique((job.name for job in changes.updated), "job", ("updated",))
    removed = frozenset(changes.removed)
    known = {job.name for job in round_.jobs}
    for name in changes.removed:
        check_known(name, known, "job", ("removed",))
    known -= removed
    for i, job in enumerate(changes.updated):
        check_known(job.name, known, "job", ("updated", i, "name"))
    check_unique((job.name for job in changes.added), "job", ("added",))
    for i, job in enumerate(changes.added):
        if job.name in known:
            raise InvalidInputError(
                "job exists already; expected a new name",
                path=("added", i, "name"),
                value=job.name,
            )
    later = jobs_after_work(round_.jobs, round_.leases, seconds) if seconds else round_.jobs
    stay = (updated.get(job.name, job) for job in later if job.name not in removed)
    jobs = (*without_done(stay, removed), *changes.added)
    if not changes.order:
        return jobs
    named = {job.name: job for job in jobs}
    if len(changes.order) != len(named) or named.keys() != set(changes.order):
        raise InvalidInputError(
            "expected each job of the next round once", path=("order",), show_value=False
        )
    return tuple(named[name] for name in changes.order)


def _sharing(sharing: Sharing, jobs: Sequence[Job]) -> Sharing:
    """Return the section `sharing` without the conflicts of jobs that ended."""
    if not sharing.conflicts:
        return sharing
    names = {job.name for job in jobs}
    left = tuple(pair for pair in sharing.conflicts if names.issuperset(pair))
    return sharing.model_copy(update={"conflicts": left})


def _geo(round_: Round, changes: Changes, now: int) -> Geo:
    """Return the section `geo` at `now`, with the changes."""
    given = {
        "datasets": changes.datasets,
        "links": changes.links,
        "regions": changes.regions,
        "copying": changes.copying,
    }
    named = [name for name, entries in given.items() if entries]
    if "geo" not in round_.policy.spec.sections:
        if named:
            raise InvalidInputError(
                f"not used by policy {round_.policy.formulation!r}; expected none",
                path=(named[0],),
                show_value=False,
            )
        return round_.geo
    check_unique((one.name for one in changes.datasets), "dataset", ("datasets",))
    check_unique((one.name for one in changes.regions), "region", ("regions",))
    geo = with_updates(
        round_.geo, changes.datasets, changes.links, changes.regions, changes.copying
    )
    return with_arrived_copies(geo, now)


def _now(round_: Round, changes: Changes) -> int:
    if changes.now is None:
        return round_.now
    if not round_.now <= changes.now <= MAX_NOW:
        raise InvalidInputError(
            f"expected no earlier than the last round, {round_.now}, and at most {MAX_NOW}",
            path=("now",),
            value=changes.now,
        )
    return changes.now


def _cluster(
    cluster: ClusterDocument, changes: Changes, hosts: Mapping[str, Hardware]
) -> ClusterDocument:
    cluster = with_pools(cluster, changes.pools)
    if not changes.health:
        return cluster
    health = {
        host: healthy
        for name, healthy in changes.health.items()
        for host in known_hosts(name, hosts, ("health", name))
    }
    return with_health(cluster, health)


def _tenants(round_: Round, changes: Changes) -> tuple[Tenant, ...]:
    if not changes.quotas:
        return round_.tenants
    tenants = {tenant.name: tenant for tenant in round_.tenants}
    for name, quota in changes.quotas.items():
        try:
            known = tenants.get(name)
            fields = {"name": name} if known is None else known.model_dump()
            tenants[name] = Tenant.model_validate({**fields, "quota": dict(quota)})
        except ValidationError as error:
            raise invalid_input(error, Tenant).under("quotas", name) from None
    return tuple(tenants.values())


def _caps(round_: Round, changes: Changes) -> dict[str, Cap]:
    caps = dict(round_.caps)
    for name, cap in changes.caps.items():
        try:
            caps[name] = Cap.model_validate(dict(cap))
        except ValidationError as error:
            raise invalid_input(error, Cap).under("caps", name) from None
    return caps


def _check_changed_jobs(round_: Round, changes: Changes, hosts: Mapping[str, Hardware]) -> None:
    """Check the changed jobs together with those that run on the same hosts."""
    mine = (*changes.updated, *changes.added)
    names = {job.name for job in mine}
    touched = {task.host for job in mine if job.running is not None for task in job.running.tasks}
    beside = tuple(_beside(round_, names, touched)) if touched else ()
    try:
        # A host that overflows is reported for the job that is checked last.
        check_jobs(round_.model_copy(update={"jobs": (*beside, *mine)}), hosts)
    except InvalidInputError as error:
        raise error.moved(lambda at: _path(at, len(beside), len(changes.updated))) from None


def _beside(round_: Round, names: Collection[str], touched: Collection[str]) -> Iterator[Job]:
    for job in round_.jobs:
        running = None if job.name in names else job.running
        if running is not None and any(task.host in touched for task in running.tasks):
            yield job


def _path(path: Path, beside: int, updated: int) -> Path:
    """Translate the path of a checked job to its place in the changes."""
    if path[0] != "jobs" or len(path) < ENTRY:
        return path
    index, rest = int(path[1]), path[ENTRY:]
    index -= beside
    return ("updated", index, *rest) if index < updated else ("added", index - updated, *rest)
