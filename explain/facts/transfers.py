"""What copies of data have to keep to: storage, budgets of links, the window, and other data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from placewright.explain.facts.fact import Fact, GroupEdit, Stratum, group, named
from placewright.instances.derived.durations import span
from placewright.instances.documents.geo import MAX_WINDOW, Region, WanLink
from placewright.instances.documents.round import Round


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
