"""The tables of data: replicas created and deleted, links, waiting jobs, new homes."""

from __future__ import annotations

from rich.console import Console

from placewright.cli.format.table import MAX_ROWS, print_rest, print_table, table
from placewright.instances.derived.phrases import count, several
from placewright.report.facts.regions import NOWHERE, Change, ChangeKind, LinkUse, RegionPlan
from placewright.report.text import NONE, after, count_gpus, gib, gpus, money, number, percent

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
