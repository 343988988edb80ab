"""Regions: their load, replicas that come and go, what links carry, and who waits for data."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.derived.phrases import several
from placewright.instances.documents.plan import Plan
from placewright.report.facts.regions import (
    NOWHERE,
    Change,
    ChangeKind,
    RegionPlan,
    heat,
    region_plan_of,
)
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import NONE, after, gib, gpus, load, money, number, percent

MAX_NAMES = 3


def regions(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield what a plan does to regions, data and links."""
    facts = region_plan_of(subject.round, plan)
    yield _load(facts)
    if facts.changes:
        yield _changes(subject, facts)
    if any(use.copies or use.jobs for use in facts.links.values()):
        yield _links(facts)
    if facts.waits:
        yield table(
            "Waiting for data",
            ("job", ">GPUs", "region", ">can start", "data on the way"),
            (
                (
                    subject.cell(one.job),
                    gpus(one.milli_gpu),
                    one.region,
                    after(one.ready, subject.round.now),
                    several(one.coming, MAX_NAMES),
                )
                for one in facts.waits
            ),
        )
    homes = [one for one in facts.places if one.after not in (NOWHERE, one.before)]
    if facts.slow and homes:
        names = facts.regions.names
        yield table(
            "New homes, largest first",
            ("job", ">GPUs", "from", "home", "GPU model", ">remote reads"),
            (
                (
                    subject.cell(one.job),
                    gpus(one.milli_gpu),
                    NONE if one.before == NOWHERE else names[one.before],
                    names[one.after],
                    one.model or NONE,
                    gib(one.remote),
                )
                for one in sorted(homes, key=lambda home: -home.milli_gpu)
            ),
        )


def _load(facts: RegionPlan) -> Table:
    regions_ = facts.regions
    before = facts.before if facts.slow else facts.held
    hot = heat(facts.after, regions_.gpus)
    top = max(1.0, float(hot.max(initial=0)))

    def row(region: int) -> tuple[Cell, ...]:
        limit, there = regions_.storage[region], int(regions_.gpus[region])
        after_ = int(facts.after[region])
        stored = gib(int(facts.stored[region]))
        full = 0.0 if limit is None else int(facts.stored[region]) / max(limit, 1)
        return (
            regions_.names[region],
            gpus(there),
            gpus(int(before[region])),
            gpus(after_),
            Meter(
                load(int(facts.after[region]), there),
                float(hot[region]) / top,
                tight=int(facts.after[region]) > there,
            ),
            gpus(int(facts.short[region] if facts.slow else facts.waiting[region])),
            stored if limit is None else Meter(f"{stored} of {gib(limit)}", full, tight=True),
            gib(int(facts.remote[region])),
            money(int(facts.cost[region])),
        )

    asked = "asked" if facts.slow else "held"
    return table(
        "Regions, fullest first",
        (
            "region",
            ">GPUs",
            f">{asked} before",
            ">after",
            ">load",
            ">short of a model" if facts.slow else ">waiting",
            ">stored",
            ">remote reads",
            ">an hour",
        ),
        (row(int(region)) for region in (-hot).argsort(kind="stable")),
        "A job that waits is counted where most of what it reads is.",
    )


def _changes(subject: Subject, facts: RegionPlan) -> Table:
    now = subject.round.now
    return table(
        "Changes of replicas, in this order",
        (">step", "dataset", "change", ">size", "region", "over", ">start", ">done"),
        (
            (
                number(step),
                change.dataset,
                _change(change),
                gib(change.gib),
                change.region,
                " > ".join(change.paths[0]) if change.paths else NONE,
                after(change.start, now),
                after(change.end, now),
            )
            for step, change in enumerate(facts.changes, 1)
        ),
    )


def _change(change: Change) -> str:
    if change.other is None:
        return change.kind
    if change.kind is ChangeKind.DROPPED:
        return f"dropped, moved to {change.other}"
    return f"moved from {change.other}"


def _links(facts: RegionPlan) -> Table:
    names = facts.regions.names
    used = [use for use in facts.links.values() if use.copies or use.jobs]
    used.sort(key=lambda use: (-use.copied, -use.read, use.source, use.target))
    return table(
        "Links, fullest first",
        ("from", "to", ">copies", ">of the budget", ">jobs", ">reads", ">of the link"),
        (
            (
                names[use.source],
                names[use.target],
                gib(use.gib),
                Meter(percent(use.copied), use.copied, tight=True),
                number(use.jobs),
                gib(use.reads),
                Meter(percent(use.read), use.read, tight=True),
            )
            for use in used
        ),
    )


PANELS = PolicyPanels("Regions", regions)
