"""Changes that others than the owner of a job can make, of pools too, and what time brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.explain.conflict import minimal_subset, up_to
from placewright.explain.corrections.change import (
    MAX_NEEDED,
    Amounts,
    Change,
    Failed,
    Form,
    Names,
    Step,
    Suffices,
    each,
    edit_of,
    least_amount,
)
from placewright.instances.derived.arrays import (
    PoolDomains,
    build_cluster,
    build_state,
    pools_of,
    running_places,
)
from placewright.instances.derived.phrases import counted, duration, span
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import expected_end
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.edits import Edit
from placewright.instances.documents.geo import Region
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.quantities import amount_text, write_amount
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import WAITING_PART
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

# Changes by which pools have more for a job that waits.


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


# Changes that others than the owner of a job can make, and what time brings.


HORIZONS = (3600, 4 * 3600, 24 * 3600)
"""Seconds of waiting that are changes of their own: less waiting, and another change with it."""

_UNITS = {"gpu": (1000, 50), "cpu": (1000, 1000), "memory": (1024, 1024)}
"""Steps of a quota: where whole units are asked, and else."""


@dataclass(frozen=True, slots=True)
class Until:
    """A change by waiting until some running jobs are expected to have ended.

    Attributes
    ----------
    now
        The time of the round.
    ends
        When jobs are expected to end, and their names, in this order.
    """

    now: int
    ends: tuple[tuple[int, str], ...]
    kind: str = "time"

    @property
    def strongest(self) -> Form:
        """The change until all have ended."""
        return self._form(self.ends[-1][0], [name for _, name in self.ends])

    def least(self, suffices: Suffices) -> Form:
        """Return the change until the first time that suffices; it names the jobs that matter."""
        times = sorted({end for end, _ in self.ends})
        found = least_amount(0, len(times), lambda n: suffices((edit_of(at=times[n - 1]),)))
        at = times[found.least - 1]
        ended = [name for end, name in self.ends if end <= at]
        if suffices((edit_of(end=ended),)):
            needed = minimal_subset(
                ended,
                lambda names: suffices([edit_of(end=[*names])] if names else []),
                accepts=up_to(MAX_NEEDED),
            )
            ended = ended if needed is None else needed
        return self._form(at, ended, least=found.proven)

    def _form(self, at: int, ended: Sequence[str], *, least: bool = True) -> Form:
        until = f" until {_ended(ended)}" if ended else ""
        return Form(f"wait {duration(at - self.now)}{until}", (edit_of(at=at),), least)


def cluster_changes(
    round_: Round, job: Job, started: Sequence[str] = (), failed: Failed | None = None
) -> Iterator[Change]:
    """Return what would let a pending job start without changing what it asks.

    Parameters
    ----------
    started
        Names of jobs that a plan starts: they could give way.
    failed
        Is told of changes that cannot be listed.
    """
    sources = (
        _quotas(round_, job),
        _caps(round_, job),
        pool_changes(round_, job),
        _quotas_of_regions(round_, job),
        _hosts_back(round_),
        _ends(round_, {*started, job.name.removesuffix(WAITING_PART)}),
        _give_way(round_, started),
        _data(round_, job),
    )
    return each(sources, failed)


def _give_way(round_: Round, started: Sequence[str]) -> Iterator[Change]:
    if started:
        priority = {one.name: one.priority for one in round_.jobs}
        yield Names(
            "give_way",
            tuple(sorted(started, key=priority.__getitem__)),
            lambda names: f"let {counted(names, 'job')} wait",
            lambda names: (edit_of(remove=list(names)),),
        )


def _quotas(round_: Round, job: Job) -> Iterator[Change]:
    tenant = next((one for one in round_.tenants if one.name == job.tenant), None)
    if tenant is None:
        return
    for resource, limit in tenant.quota.items():
        asked = max(option.amount_of(resource) for option in job.options)
        excess = asked + round_.used_by(tenant.name, resource) - limit
        if excess <= 0:
            continue
        whole, part = _UNITS.get(resource, (1, 1))
        yield _more_quota(tenant.name, resource, excess, whole if asked % whole == 0 else part)


def _more_quota(tenant: str, resource: str, excess: int, unit: int) -> Amounts:
    """Return the change by which a tenant may hold more of a resource, by units."""

    def text(units: int) -> str:
        return f"raise the quota of {tenant} by {amount_text(resource, units * unit)}"

    def edits(units: int) -> tuple[Edit, ...]:
        more = {resource: write_amount(resource, units * unit)}
        return (edit_of(quota={tenant: {"more": more}}),)

    return Amounts("quota", -(-excess // unit), text, edits)


def _caps(round_: Round, job: Job) -> Iterator[Change]:
    for name in job.caps:
        for measure, limit in round_.caps[name].limits.items():
            asked = max(map(measure.asked_by, job.options))
            excess = asked + round_.held_of(name, measure) - limit
            if excess > 0:
                whole, part = _UNITS.get(str(measure.facts["resource"]), (1, 1))
                yield _higher_cap(name, measure, limit, excess, part if asked % whole else whole)


def _higher_cap(name: str, measure: Measure, limit: int, excess: int, unit: int) -> Amounts:
    """Return the change by which a cap allows more of what it limits, by units."""

    def text(units: int) -> str:
        had = measure.text(limit).partition(" ")[0]
        return f"raise cap {name} from {had} to {measure.text(limit + units * unit)}"

    def edits(units: int) -> tuple[Edit, ...]:
        return (edit_of(cap={name: {"more": measure.as_cap(units * unit)}}),)

    return Amounts("cap", -(-excess // unit), text, edits)


def _quotas_of_regions(round_: Round, job: Job) -> Iterator[Change]:
    """Yield more quota in each region where it is short."""
    tenant = job.tenant
    asked = max(option.milli_gpu for option in job.options)
    for region in round_.geo.regions if tenant is not None else ():
        if tenant is None or tenant not in region.quotas:
            continue
        held = round_.used_by(tenant, "gpu")  # in all regions: at most so much is there
        if asked + held > region.quotas[tenant]:
            yield _more_in(tenant, region, asked + held)


def _more_in(tenant: str, region: Region, enough: int) -> Amounts:
    """Return the change by which a tenant may hold more GPUs in a region, by whole ones."""
    limit, unit = region.quotas[tenant], _UNITS["gpu"][0]
    whole = limit // unit

    def text(units: int) -> str:
        more = amount_text("gpu", (whole + units) * unit)
        had = amount_text("gpu", limit).partition(" ")[0]
        return f"raise the quota of {tenant} in region {region.name} from {had} to {more}"

    def edits(units: int) -> tuple[Edit, ...]:
        amounts = {region.name: write_amount("gpu", (whole + units) * unit)}
        return (edit_of(quota={tenant: {"in_regions": amounts}}),)

    return Amounts("quota", -(-enough // unit) - whole, text, edits)


def _hosts_back(round_: Round) -> Iterator[Change]:
    reserved = _expanded(one.host for one in round_.reservations)
    if reserved:
        yield Names(
            "release", reserved, lambda n: f"release {counted(n, 'host')}", _edits("release")
        )
    vacated = _expanded(round_.policy.vacate)
    if vacated:
        text = "keep using {}".format
        yield Names("keep_using", vacated, lambda n: text(counted(n, "host")), _edits("restore"))
    away = _expanded(entry.name for entry in round_.cluster.hosts if not entry.healthy)
    if away:
        yield Names("repair", away, lambda n: f"repair {counted(n, 'host')}", _edits("restore"))
    out = _expanded(one.host for one in round_.leases.outages)
    if out:
        yield Names("no_outage", out, _no_outage, _edits("restore"))


def _no_outage(names: Sequence[str]) -> str:
    return f"end the outage of {counted(names, 'host')}"


def _edits(verb: str) -> Callable[[Sequence[str]], tuple[Edit, ...]]:
    return lambda names: (edit_of(**{verb: list(names)}),)


def _ends(round_: Round, but: set[str]) -> Iterator[Change]:
    """Yield the time when running jobs are expected to end, and the end of all others.

    `but`: jobs whose end is none: those that a plan starts, and the part of the gang that runs.
    """
    now = round_.now
    running = [one for one in round_.jobs if one.running is not None and one.name not in but]
    ends = {one.name: expected_end(one, now) for one in running}
    known = sorted((end, name) for name, end in ends.items() if end is not None and end > now)
    horizons = (*(now + seconds for seconds in HORIZONS), known[-1][0] if known else now)
    until = (tuple(one for one in known if one[0] <= horizon) for horizon in horizons)
    yield from (Until(now, some) for some in dict.fromkeys(until) if some)
    others = tuple(name for name, end in ends.items() if end is None)
    if others:
        text = "wait until {} (no end is known)".format
        yield Names("ended", others, lambda n: text(_ended(n)), _edits("end"))


def _data(round_: Round, job: Job) -> Iterator[Change]:
    """Yield further replicas of what a job reads."""
    if "geo" not in round_.policy.spec.sections:
        return
    read = {one.dataset for one in job.reads}
    coming = sorted(
        (one.ready, one.dataset, one.region)
        for one in round_.geo.copying
        if one.dataset in read and one.ready > round_.now
    )
    if coming:

        def text(number: int) -> str:
            ready, dataset, region = coming[number - 1]
            return f"wait {span(ready - round_.now)} until {dataset} is in region {region}"

        yield Amounts("time", len(coming), text, lambda i: (edit_of(at=coming[i - 1][0]),))
    regions = [one.name for one in round_.geo.regions]
    for dataset in round_.geo.datasets:
        if all(read.dataset != dataset.name for read in job.reads):
            continue
        for region in regions if dataset.regions is None else dataset.regions:
            if region in dataset.replicas or region not in (job.regions or regions):
                continue
            edit = edit_of(replicate={"dataset": dataset.name, "regions": [region]})
            form = Form(f"copy {dataset.name} to region {region}", (edit,))
            yield Step("replicate", form)


def _expanded(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for name in names for host in expand(name)))


def _ended(names: Sequence[str]) -> str:
    return f"{counted(names, 'job')} {'has' if len(names) == 1 else 'have'} ended"
