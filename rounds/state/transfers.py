"""Transfers from round to round: copies under way, deletions, and the residual capacity of links.

A plan's transfers go on while the next rounds are decided. A replica occupies storage until it is
deleted; flows use a link's budget for the whole window, and its bandwidth until they end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from placewright.instances.derived.arrived_copies import with_arrived_copies, with_replicas
from placewright.instances.documents.geo import Copying, Dataset, Geo, Region, WanLink
from placewright.instances.documents.plan_data import Drop, Flow
from placewright.instances.documents.round import Round

REPLICAS, FLOWS = "replicas", "flows"
_BITS, _MEGA = 8 * 2**30, 10**6


@dataclass(frozen=True, slots=True)
class TransferOrders:
    """Transfers that earlier plans ordered and that are still under way.

    Attributes
    ----------
    began
        Start of the current window, in seconds on the round's clock; None before the first plan.
    spent
        GiB of each link's budget that the window's flows use.
    flows, drops
        Flows and deletions that may not be over.
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
