"""Data in regions: what a job reads, where its data may be, and what is on its way.

Where replicas are, and between which regions there are links at all, is no fact but the ground on
which all facts stand, as are the hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placewright.explain.facts.fact import Edit, Fact, Stratum, edit_job, named
from placewright.instances.derived.durations import span
from placewright.instances.derived.phrases import several
from placewright.instances.documents.geo import Copying, Dataset, Geo, Read, WanLink
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round

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
