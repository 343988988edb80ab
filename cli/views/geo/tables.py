"""The tables of regions: of a round, of its plan, of data and replicas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from placewright.cli.format.console import MAX_ROWS, print_more, print_rest, print_table, table
from placewright.instances.derived.phrases import count, duration, several
from placewright.report.facts.regions import NOWHERE, Change, ChangeKind, LinkUse, RegionPlan, heat
from placewright.report.text import (
    NONE,
    after,
    count_gpus,
    gib,
    gpus,
    load,
    money,
    number,
    percent,
    term_text,
)

MAX_NAMES = 3
"""Names of jobs or datasets in one cell of a table or one line."""
ARROW = " > "


def print_data(console: Console, facts: RegionPlan) -> None:
    """Print what happens to replicas, what links carry, who waits for data, and new homes."""
    _print_counts(console, facts)
    _print_changes(console, facts)
    _print_copies(console, facts)
    _print_reads(console, facts)
    _print_waits(console, facts)
    if facts.slow:
        _print_homes(console, facts)


def _print_counts(console: Console, facts: RegionPlan) -> None:
    """Count the replicas created, moved and dropped."""
    if not facts.changes and not facts.slow:
        return
    made = table("Replicas", "change", "replicas", "size", right=("replicas", "size"))
    for kind in ChangeKind:
        # A replica that moves is one change, though a copy and a drop.
        chosen = [
            change
            for change in facts.changes
            if change.kind is kind and (kind is not ChangeKind.DROPPED or change.other is None)
        ]
        made.add_row(kind, number(len(chosen)), gib(sum(change.gib for change in chosen)))
    print_table(console, made)


def _print_changes(console: Console, facts: RegionPlan) -> None:
    """Print the first changes of replicas in their order, and how many more there are."""
    changes, now = facts.changes, facts.regions.round.now
    if not changes:
        return
    made = table(
        "Changes of replicas, in this order",
        "step",
        "dataset",
        "change",
        "size",
        "region",
        "over",
        "start",
        "done",
        right=("step", "size", "start", "done"),
    )
    for step, change in enumerate(changes[:MAX_ROWS], 1):
        made.add_row(
            number(step),
            change.dataset,
            _change_text(change),
            gib(change.gib),
            change.region,
            _paths_text(change),
            after(change.start, now),
            after(change.end, now),
        )
    print_table(console, made)
    print_rest(console, len(changes), "more change")


def _change_text(change: Change) -> str:
    """Say what happens, and where the other end of a move is."""
    if change.other is None:
        return change.kind
    if change.kind is ChangeKind.DROPPED:
        return f"dropped, moved to {change.other}"
    return f"moved from {change.other}"


def _paths_text(change: Change) -> str:
    """Write the first path of a copy, and how many there are beside it."""
    if not change.paths:
        return NONE
    more = len(change.paths) - 1
    return ARROW.join(change.paths[0]) + (f" and {more:,} more" if more else "")


def _print_copies(console: Console, facts: RegionPlan) -> None:
    """Print the links with most copies, of their budgets."""
    used = [use for use in facts.links.values() if use.copies]
    if not used:
        return
    used.sort(key=lambda use: (-use.copied, use.source, use.target))
    columns = ("flows", "size", "budget", "used")
    made = table("Copies over links, fullest first", "from", "to", *columns, right=columns)
    for use in used[:MAX_ROWS]:
        row = number(use.copies), gib(use.gib), gib(use.budget), percent(use.copied)
        made.add_row(*_ends(facts, use), *row)
    print_table(console, made)
    print_rest(console, len(used), "more link")


def _print_reads(console: Console, facts: RegionPlan) -> None:
    """Print the links over which jobs read most."""
    used = [use for use in facts.links.values() if use.jobs]
    if not used:
        return
    used.sort(key=lambda use: (-use.reads, use.source, use.target))
    columns = ("jobs", "size", "link carries", "part", "egress")
    made = table("Reads over links, most first", "from", "to", *columns, right=columns)
    for use in used[:MAX_ROWS]:
        row = number(use.jobs), gib(use.reads), gib(use.carries), percent(use.read)
        made.add_row(*_ends(facts, use), *row, money(use.egress))
    print_table(console, made)
    print_rest(console, len(used), "more link")


def _ends(facts: RegionPlan, use: LinkUse) -> tuple[str, str]:
    return facts.regions.names[use.source], facts.regions.names[use.target]


def _print_waits(console: Console, facts: RegionPlan) -> None:
    """Print who waits for data, and how many more do."""
    if not facts.waits:
        return
    now = facts.regions.round.now
    milli = sum(entry.milli_gpu for entry in facts.waits)
    made = table(
        f"Waiting for data: {count(len(facts.waits), 'job')} asking {count_gpus(milli)}",
        "job",
        "GPUs",
        "region",
        "can start",
        "data on the way",
        right=("GPUs", "can start"),
    )
    for entry in facts.waits[:MAX_ROWS]:
        made.add_row(
            entry.job,
            gpus(entry.milli_gpu),
            entry.region,
            after(entry.ready, now),
            several(entry.coming, MAX_NAMES),
        )
    print_table(console, made)
    print_rest(console, len(facts.waits), "more job")


def _print_homes(console: Console, facts: RegionPlan) -> None:
    """Print the largest jobs that are to run elsewhere than they are counted before."""
    regions = facts.regions.names
    moved = [p for p in facts.places if p.after != NOWHERE and p.after != p.before]
    moved.sort(key=lambda place: -place.milli_gpu)
    without = [place for place in facts.places if place.after == NOWHERE]
    if without:
        names = [place.job for place in without]
        milli = sum(place.milli_gpu for place in without)
        console.print(
            f"Without a home, since they can run nowhere: {several(names, MAX_NAMES)} "
            f"asking {count_gpus(milli)}",
            soft_wrap=True,
        )
        console.print()
    if not moved:
        return
    milli = sum(place.milli_gpu for place in moved)
    made = table(
        f"New homes: {count(len(moved), 'job')} asking {count_gpus(milli)}, largest first",
        "job",
        "GPUs",
        "from",
        "home",
        "GPU model",
        "remote reads",
        right=("GPUs", "remote reads"),
    )
    for place in moved[:MAX_ROWS]:
        made.add_row(
            place.job,
            gpus(place.milli_gpu),
            NONE if place.before == NOWHERE else regions[place.before],
            regions[place.after],
            place.model,
            gib(place.remote),
        )
    print_table(console, made)
    print_rest(console, len(moved), "more job")


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


def print_data_of_round(console: Console, facts: RegionPlan) -> None:
    """Print the regions of a round, hottest first, and its datasets, largest first."""
    _print_regions(console, facts)
    _print_datasets(console, facts)


def _print_regions(console: Console, facts: RegionPlan) -> None:
    """Print what each region has, is asked for, and stores."""
    regions = facts.regions
    replicas = [0] * len(regions.names)
    for dataset in regions.round.geo.datasets:
        for name in dataset.replicas:
            replicas[regions.index[name]] += 1
    columns = (*regions.models, "asked", "load", "replicas", "stored", "limit")
    made = table("Regions, hottest first", "region", *columns, right=columns)
    order = by_load(facts)
    for region in order[:MAX_REGIONS]:
        limit = regions.storage[region]
        asked = int(facts.before[region])
        made.add_row(
            regions.names[region],
            *(gpus(int(milli)) for milli in regions.supply[region]),
            gpus(asked),
            load(asked, int(regions.gpus[region])),
            number(replicas[region]),
            gib(int(regions.held[region])),
            NONE if limit is None else gib(limit),
        )
    print_table(console, made)
    print_more(console, len(order) - MAX_REGIONS, "more region")


def _print_datasets(console: Console, facts: RegionPlan) -> None:
    """Print the largest datasets: where they are and may be, and what reads them."""
    round_ = facts.regions.round
    if not round_.geo.datasets:
        return
    jobs: dict[str, int] = {}
    milli: dict[str, int] = {}
    read: dict[str, int] = {}
    for job, place in zip(round_.jobs, facts.places, strict=True):
        for entry in job.reads:
            jobs[entry.dataset] = jobs.get(entry.dataset, 0) + 1
            milli[entry.dataset] = milli.get(entry.dataset, 0) + place.asked
            read[entry.dataset] = read.get(entry.dataset, 0) + entry.gib
    coming: dict[str, list[str]] = {}
    for copy in round_.geo.copying:
        coming.setdefault(copy.dataset, []).append(copy.region)
    made = table(
        "Datasets, largest first",
        "dataset",
        "size",
        "in",
        "coming to",
        "only in",
        "jobs",
        "GPUs",
        "read",
        right=("size", "jobs", "GPUs", "read"),
    )
    order = sorted(round_.geo.datasets, key=lambda dataset: -dataset.size)
    for dataset in order[:MAX_ROWS]:
        made.add_row(
            dataset.name,
            gib(dataset.size),
            several(dataset.replicas, MAX_NAMES),
            several(coming.get(dataset.name, ()), MAX_NAMES),
            NONE if dataset.regions is None else several(dataset.regions, MAX_NAMES),
            number(jobs.get(dataset.name, 0)),
            gpus(milli.get(dataset.name, 0)),
            gib(read.get(dataset.name, 0)),
        )
    print_table(console, made)
    print_rest(console, len(order), "more dataset")
