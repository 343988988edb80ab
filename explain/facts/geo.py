"""Facts of policy `geo`: data, regions, copies, and what these have to keep to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import (
    Edit,
    Fact,
    GroupEdit,
    PolicyFacts,
    Situation,
    Stratum,
    edit_job,
    group,
    named,
)
from placewright.explain.facts.gang import base, jobs_that_run, question, started
from placewright.explain.facts.rules import away, rules
from placewright.explain.places import GroupPlaces, NearestPlaces
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.derived.arrived_copies import with_arrived_copies
from placewright.instances.derived.phrases import several, span
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.geo import (
    MAX_WINDOW,
    Copying,
    Dataset,
    Geo,
    Read,
    Region,
    WanLink,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.quantities import amount_text, part_text
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG

# Places of a job by region: what fits there, and why it may not be there at all.


MOST = 4
"""Places of a task group that are told."""


def places(round_: Round, name: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of the first option of a job, those where it may be first.

    They are regions, or domains of a lower level if a task group has to be in one.
    """
    index = next(j for j, one in enumerate(round_.jobs) if one.name == name)
    policy = round_.policy.model_copy(
        update={"formulation": GANG.name, "terms": ("value",), "keep_sizes": True}
    )
    gangs = round_.model_copy(update={"policy": policy, "geo": Geo()})
    region_of = _region_of_domains(round_)
    why_not = {
        region: tuple(reasons_against(round_, named(name, round_), region))
        for region in dict.fromkeys(region_of.values())
    }
    nearest = NearestPlaces(compile_round(gangs))
    found = nearest.of(index, most=len(region_of), level=round_.geo.level)
    return tuple(_told(one, region_of, why_not) for one in found)


def _told(
    found: GroupPlaces, region_of: Mapping[str, str], why_not: Mapping[str, tuple[str, ...]]
) -> GroupPlaces:
    """Return the nearest places with why the job may not be there, most useful first."""
    told = [replace(one, why_not=why_not[region_of[one.name]]) for one in found.places]
    return replace(found, places=tuple(sorted(told, key=lambda one: bool(one.why_not))[:MOST]))


def _region_of_domains(round_: Round) -> dict[str, str]:
    """Return the region of each domain, of itself for a region, and of each host."""
    parent = {domain.name: domain.parent for domain in round_.cluster.domains}
    level_of = {domain.name: domain.level for domain in round_.cluster.domains}

    def region(domain: str | None) -> str | None:
        while domain is not None and level_of[domain] != round_.geo.level:
            domain = parent[domain]
        return domain

    found = {name: of for name in parent if (of := region(name)) is not None}
    for entry in round_.cluster.hosts:
        if (of := region(entry.parent)) is not None:
            found |= dict.fromkeys(expand(entry.name), of)
    return found


def reasons_against(round_: Round, job: Job, region: str) -> Iterator[str]:
    """Yield why a job may not be in a region, whatever room there is."""
    if job.regions is not None and region not in job.regions:
        yield "not among its regions"
    geo = with_arrived_copies(round_.geo, round_.now)
    datasets = {one.name: one for one in geo.datasets}
    for read in job.reads:
        if (lack := _lack_of_data(geo, datasets[read.dataset], read, region)) is not None:
            yield lack
    quota = {one.name: one.quotas for one in geo.regions}.get(region, {}).get(job.tenant or "")
    held = _held_in(round_, job.tenant, region)
    if quota is not None and held + min(option.milli_gpu for option in job.options) > quota:
        yield f"quota of {job.tenant} there, {part_text('gpu', held, quota)} in use"


def _lack_of_data(geo: Geo, data: Dataset, read: Read, region: str) -> str | None:
    """Return why a job cannot read a dataset in a region; None if it can."""
    if data.regions is not None and region not in data.regions:
        return f"{data.name} may not be there"
    if region in data.replicas:
        return None
    coming = next((c for c in geo.copying if (c.dataset, c.region) == (data.name, region)), None)
    if not read.remote:
        return f"no replica of {data.name}" + ("" if coming is None else " yet")
    linked = {one.source for one in geo.links if one.target == region and one.bandwidth}
    if linked.isdisjoint(data.replicas):
        return f"no link to a replica of {data.name}"
    return None


def _held_in(round_: Round, tenant: str | None, region: str) -> int:
    """Return the milli-GPU that running jobs of a tenant hold in a region."""
    region_of = _region_of_domains(round_)
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in round_.jobs
        if job.tenant == tenant and job.running is not None
        for task in job.running.tasks
        if region_of[task.host] == region
    )


# Data in regions: what a job reads, where its data may be, and what is on its way.
#
# Where replicas are, and between which regions there are links at all, is no fact but the ground on
# which all facts stand, as are the hosts.


MAX_BANDWIDTH = 10**9
"""Of a link that works again, in Mbit/s: nothing is said of how fast it is."""


def asks_of_data(round_: Round, name: str) -> Iterator[Fact]:
    """Yield in which regions a job may run and what it reads, in the order of preference.

    Who no longer asks for a replica in its own region still reads the data, over a link if need be.
    """
    job = named(name, round_)
    if job.regions is not None:
        edit = edit_job(name, lambda one: one.model_copy(update={"regions": None}))
        about = {"regions": list(job.regions)}
        text = f"runs in region {several(job.regions, conjunction='or')} only"
        yield Fact(Stratum.ASKS, "regions", text, edit, about)
    replicas = {one.name: one.replicas for one in round_.geo.datasets}
    for read in job.reads:
        text = f"reads {read.dataset} ({_where(replicas[read.dataset])})"
        yield _of_read(name, read, "read", text, lambda one: () if one.remote else (one,))
    for read in job.reads:
        if not read.remote:
            text = f"reads {read.dataset} only where a replica is"
            text += f" ({_where(replicas[read.dataset])})"
            yield _of_read(name, read, "not_remote", text, _made_remote)


def _where(replicas: tuple[str, ...]) -> str:
    return f"replicas in {several(replicas)}" if replicas else "no replica anywhere"


def _made_remote(read: Read) -> tuple[Read, ...]:
    return (read.model_copy(update={"remote": True}),)


def _of_read(
    name: str, asked: Read, kind: str, text: str, change: Callable[[Read], tuple[Read, ...]]
) -> Fact:
    """Return the fact of one read of a job, with what becomes of the read without it."""

    def reads(all_of_them: tuple[Read, ...]) -> tuple[Read, ...]:
        return tuple(
            kept
            for one in all_of_them
            for kept in (change(one) if one.dataset == asked.dataset else (one,))
        )

    edit = edit_job(name, lambda one: one.model_copy(update={"reads": reads(one.reads)}))
    return Fact(Stratum.ASKS, kind, text, edit, {"dataset": asked.dataset, "gib": asked.gib})


def rules_on_data(round_: Round, name: str) -> Iterator[Fact]:
    """Yield where the data of a job may be."""
    read = {one.dataset for one in named(name, round_).reads}
    for dataset in round_.geo.datasets:
        if dataset.name in read and dataset.regions is not None:
            yield Fact(
                Stratum.RULES,
                "residency",
                f"{dataset.name} stays in region {several(dataset.regions, conjunction='or')}",
                _edit_datasets(dataset.name, {"regions": None}),
                {"dataset": dataset.name, "regions": list(dataset.regions)},
            )


def links_away(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the links that carry nothing now, of a job that reads data."""
    for link in round_.geo.links if named(name, round_).reads else ():
        if link.bandwidth == 0:
            yield Fact(
                Stratum.AWAY,
                "link",
                f"the link from {link.source} to {link.target} carries nothing",
                _repaired(link),
                {"source": link.source, "target": link.target},
            )


def copies_under_way(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the copies of a job's data that are under way: nobody can read them yet."""
    read = {one.dataset for one in named(name, round_).reads}
    for copy in round_.geo.copying:
        if copy.dataset in read and copy.ready > round_.now:
            text = f"{copy.dataset} is on its way to {copy.region}"
            yield Fact(
                Stratum.HELD,
                "copying",
                f"{text}, there in {span(copy.ready - round_.now)}",
                _arrived(copy),
                {"dataset": copy.dataset, "region": copy.region, "ready": copy.ready},
            )


def _edit_datasets(name: str, update: dict[str, Any]) -> Edit:
    def change(one: Dataset) -> Dataset:
        return one.model_copy(update=update) if one.name == name else one

    return _edit_geo(lambda _, geo: {"datasets": tuple(map(change, geo.datasets))})


def _repaired(link: WanLink) -> Edit:
    ends = link.source, link.target

    def change(one: WanLink) -> WanLink:
        works = one.bandwidth > 0 or (one.source, one.target) != ends
        return one if works else one.model_copy(update={"bandwidth": MAX_BANDWIDTH})

    return _edit_geo(lambda _, geo: {"links": tuple(map(change, geo.links))})


def _arrived(copy: Copying) -> Edit:
    def change(one: Copying, now: int) -> Copying:
        is_it = (one.dataset, one.region) == (copy.dataset, copy.region)
        return one.model_copy(update={"ready": min(one.ready, now)}) if is_it else one

    return _edit_geo(lambda now, geo: {"copying": tuple(change(one, now) for one in geo.copying)})


def _edit_geo(update: Callable[[int, Geo], dict[str, Any]]) -> Edit:
    def edit(round_: Round) -> Round:
        geo = round_.geo.model_copy(update=update(round_.now, round_.geo))
        return round_.model_copy(update={"geo": geo})

    return edit


def quotas_of_regions(round_: Round, name: str) -> Iterator[Fact]:
    """Yield what the tenant of a job may hold in regions."""
    tenant = named(name, round_).tenant
    for region in round_.geo.regions:
        if tenant is not None and tenant in region.quotas:
            amount = region.quotas[tenant]
            yield Fact(
                Stratum.RULES,
                "region_quota",
                f"tenant {tenant} may hold {amount_text('gpu', amount)} in region {region.name}",
                _without_quota(region.name, tenant),
                {"tenant": tenant, "region": region.name, "amount": amount},
            )


def _without_quota(region: str, tenant: str) -> Edit:
    def update(_: int, geo: Geo) -> dict[str, Any]:
        return {
            "regions": tuple(
                one.model_copy(
                    update={"quotas": {t: a for t, a in one.quotas.items() if t != tenant}}
                )
                if one.name == region
                else one
                for one in geo.regions
            )
        }

    return _edit_geo(update)


# What copies of data have to keep to: storage, budgets of links, the window, and other data.


def rules_on_copies(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the window of copies, the storage of regions and the budgets of links."""
    geo = round_.geo
    if not named(name, round_).reads:
        return
    text = f"copies end within {span(geo.window_s)}"
    yield Fact(Stratum.RULES, "window", text, _without_window, {"seconds": geo.window_s})
    limits = {one.name: one.storage for one in geo.regions if one.storage is not None}
    if limits:

        def storage(names: Sequence[str]) -> str:
            (only, *others) = names
            if others:
                return f"{len(names):,} regions have limited storage"
            return f"region {only} stores at most {limits[only]:,} GiB"

        yield _apart(Stratum.RULES, "storage", tuple(limits), storage, _without_storage)
    budgets = {_link(one): one.budget for one in geo.links if one.budget is not None}
    if budgets:

        def budget(names: Sequence[str]) -> str:
            (only, *others) = names
            if others:
                return f"{len(names):,} links have a budget"
            return f"copies take at most {budgets[only]:,} GiB of the link from {only}"

        yield _apart(Stratum.RULES, "budget", tuple(budgets), budget, _without_budget)


def data_held(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the data that a job does not read: it fills regions, or is on its way there."""
    job = named(name, round_)
    read = {one.dataset for one in job.reads}
    moving = {one.dataset for one in round_.geo.copying}
    others = tuple(
        one.name
        for one in round_.geo.datasets
        if one.name not in read and (one.replicas or one.name in moving)
    )
    if not job.reads or not others:
        return
    sizes = {one.name: one.size for one in round_.geo.datasets}

    def text(names: Sequence[str]) -> str:
        size = f"{sum(sizes[one] for one in names):,} GiB"
        if len(names) == 1:
            return f"{names[0]} ({size}) is kept, too"
        return f"{len(names):,} other datasets ({size}) are kept, too"

    yield _apart(Stratum.HELD, "data", others, text, _without_data)


def _apart(
    stratum: Stratum,
    kind: str,
    names: Sequence[str],
    text: Callable[[Sequence[str]], str],
    together: GroupEdit,
) -> Fact:
    """Return the fact of some entries, which falls apart into that of each of them."""

    def partitions(_: Sequence[Fact]) -> Iterable[Sequence[Fact]]:
        yield [_apart(stratum, kind, (one,), text, together) for one in names]

    return group(stratum, kind, text(names), names, together, {"names": list(names)}, partitions)


def _link(one: WanLink) -> str:
    return f"{one.source} to {one.target}"


def _update_geo(round_: Round, **update: Any) -> Round:
    return round_.model_copy(update={"geo": round_.geo.model_copy(update=update)})


def _without_window(round_: Round) -> Round:
    return _update_geo(round_, window_s=MAX_WINDOW)


def _without_storage(round_: Round, names: Collection[str]) -> Round:
    def of_region(one: Region) -> Region:
        return one.model_copy(update={"storage": None}) if one.name in names else one

    return _update_geo(round_, regions=tuple(map(of_region, round_.geo.regions)))


def _without_budget(round_: Round, names: Collection[str]) -> Round:
    def of_link(one: WanLink) -> WanLink:
        return one.model_copy(update={"budget": None}) if _link(one) in names else one

    return _update_geo(round_, links=tuple(map(of_link, round_.geo.links)))


def _without_data(round_: Round, names: Collection[str]) -> Round:
    """Return the round without some data; regions that held more than their storage may still."""
    geo = round_.geo
    there = {(one.name, region) for one in geo.datasets for region in one.replicas}
    there |= {(one.dataset, one.region) for one in geo.copying}
    size = {one.name: one.size for one in geo.datasets}
    held = Counter[str]()
    for dataset, region in there:
        held[region] += size[dataset]

    def of_region(one: Region) -> Region:
        if one.storage is None or held[one.name] <= one.storage:
            return one
        return one.model_copy(update={"storage": held[one.name]})

    return _update_geo(
        round_,
        datasets=tuple(one for one in geo.datasets if one.name not in names),
        copying=tuple(one for one in geo.copying if one.dataset not in names),
        regions=tuple(map(of_region, geo.regions)),
    )


# Facts of policy `geo`: a job starts if some region has places for its tasks and all its data.


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    return [
        *asks(round_, job),
        *asks_of_data(round_, job),
        *rules(round_, job),
        *quotas_of_regions(round_, job),
        *rules_on_data(round_, job),
        *away(round_, job),
        *links_away(round_, job),
        *copies_under_way(round_, job),
        *jobs_that_run(situation, round_, job),
    ]


POLICY = PolicyFacts(base, facts, question, started, places)
