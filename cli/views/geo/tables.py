"""The tables of regions: their load, replicas that come and go, links, and who waits for data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from placewright.cli.format.table import print_more, print_table, table
from placewright.cli.views.geo.replica_tables import print_data
from placewright.instances.derived.phrases import count, duration
from placewright.report.facts.regions import NOWHERE, RegionPlan, heat
from placewright.report.text import NONE, count_gpus, gib, gpus, load, money, percent, term_text

MAX_REGIONS = 40
COUNTED = "A job is counted where it runs, or else where most of what it reads is."
COUNTED_AT_HOME = (
    "Before, a job is counted where it runs, or else where most of what it reads is; "
    "after, in the region that is to be its home."
)


def print_region_tables(console: Console, facts: RegionPlan) -> None:
    """Print what a plan does to regions: load, replicas, links, and who waits for data."""
    console.print(COUNTED_AT_HOME if facts.slow else COUNTED, soft_wrap=True)
    console.print(window_text(facts), soft_wrap=True)
    for line in _remarks(facts):
        console.print(line, soft_wrap=True)
    console.print()
    _print_gpus(console, facts)
    _print_storage(console, facts)
    print_data(console, facts)


def window_text(facts: RegionPlan) -> str:
    """Say what times are counted from, and how long a window is."""
    round_ = facts.regions.round
    return (
        f"Times are from now, {round_.now:,} s on the round's clock; reads and budgets of links "
        f"are those of a window of {duration(round_.geo.window_s)}."
    )


def hottest_text(facts: RegionPlan) -> str | None:
    """Describe the load of the hottest region and its bound; None without a plan."""
    if facts.plan is None:
        return None
    texts = [
        f"{load(asked[region], supply[region])} in {facts.regions.names[region]}"
        for supply in [facts.regions.gpus]
        for asked in (facts.before, facts.after)
        for region in [int(heat(asked, supply).argmax())]
    ]
    term = facts.term("hottest")
    proven = (
        f"; {term.proof} bound {term_text('hottest', term.bound)}, given the terms before it"
        if term is not None and term.bound is not None
        else ""
    )
    return (
        f"Hottest region, GPUs asked over GPUs there: {texts[0]} before, {texts[1]} after{proven}"
    )


def _remarks(facts: RegionPlan) -> list[str]:
    """Say what no row of the tables shows."""
    lines = [hottest_text(facts)] if facts.slow else []
    nowhere = [place for place in facts.places if place.before == NOWHERE]
    if nowhere:
        asked = count_gpus(sum(place.asked for place in nowhere))
        lines.append(
            f"Counted in no region before: {count(len(nowhere), 'job')} asking {asked}, "
            "since no region has any of what they read."
        )
    return [line for line in lines if line is not None]


def _print_gpus(console: Console, facts: RegionPlan) -> None:
    """Print the GPUs of each region, and who asks or holds them."""
    order = by_load(facts)
    rows = [(facts.regions.names[region], [region]) for region in order[:MAX_REGIONS]]
    rows.append((f"all {len(order):,}", order))
    print_table(console, _asked(facts, rows) if facts.slow else _held(facts, rows))
    print_more(console, len(order) - MAX_REGIONS, "more region")


def _asked(facts: RegionPlan, rows: Sequence[tuple[str, list[int]]]) -> Table:
    """Say how many GPUs are asked of each region or all before and after."""
    columns = ("GPUs", "asked before", "after", "load before", "after", "short of a model")
    made = table("GPUs by region, hottest before first", "region", *columns, right=columns)
    for name, chosen in rows:
        there, before, asked, short = (
            int(of[chosen].sum())
            for of in (facts.regions.gpus, facts.before, facts.after, facts.short)
        )
        loads = load(before, there), load(asked, there)
        made.add_row(name, gpus(there), gpus(before), gpus(asked), *loads, gpus(short))
    return made


def _held(facts: RegionPlan, rows: Sequence[tuple[str, list[int]]]) -> Table:
    """Say how many GPUs of each region or all are held, what waits, is read and paid."""
    columns = (
        "GPUs", "asked", "held before", "after", "load", "waiting", "remote reads", "$/hour"
    )  # fmt: skip
    made = table("GPUs by region, fullest before first", "region", *columns, right=columns)
    for name, chosen in rows:
        there, asked, before, held, waiting = (
            int(of[chosen].sum())
            for of in (facts.regions.gpus, facts.before, facts.held, facts.after, facts.waiting)
        )
        made.add_row(
            name,
            gpus(there),
            gpus(asked),
            gpus(before),
            gpus(held),
            load(held, there),
            gpus(waiting),
            gib(int(facts.remote[chosen].sum())),
            money(int(facts.cost[chosen].sum())),
        )
    return made


def _print_storage(console: Console, facts: RegionPlan) -> None:
    """Print what regions store before and after, if some replica comes or goes."""
    regions = facts.regions
    if not facts.slow and not facts.changes:
        return
    columns = ("before", "after", "limit", "full", "remote reads")
    made = table("Storage by region, fullest after first", "region", *columns, right=columns)

    def full(region: int) -> float:
        limit = regions.storage[region]
        return 0.0 if limit is None else facts.stored[region] / max(limit, 1)

    order = sorted(range(len(regions.names)), key=lambda r: (-full(r), r))
    for region in order[:MAX_REGIONS]:
        limit = regions.storage[region]
        made.add_row(
            regions.names[region],
            gib(int(regions.held[region])),
            gib(int(facts.stored[region])),
            NONE if limit is None else gib(limit),
            NONE if limit is None else percent(full(region)),
            gib(int(facts.remote[region])),
        )
    print_table(console, made)
    print_more(console, len(order) - MAX_REGIONS, "more region")


def by_load(facts: RegionPlan) -> list[int]:
    """Return the regions, the one of which most is asked, or held, before the plan first."""
    hot = heat(facts.before if facts.slow else facts.held, facts.regions.gpus)
    return [int(region) for region in np.argsort(-hot, kind="stable")]
