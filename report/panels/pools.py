"""Pools: what jobs take of each domain of what hosts share, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placewright.report.facts.pools import PoolUsage, fullest, pool_usage
from placewright.report.panels.subject import Subject
from placewright.report.table import MAX_ROWS, Cell, Meter, Table, table
from placewright.report.text import percent, resource_text


def pools(subject: Subject) -> Iterator[Table]:
    """Yield the domains of all pools, the fullest after the first plan first."""
    first, *others = (pool_usage(subject.round, subject.cluster, plan) for plan in subject.plans)
    if not first:
        return
    of_others = [{(one.resource, one.where): one for one in usages} for usages in others]

    def row(usage: PoolUsage) -> tuple[Cell, ...]:
        same = [usage, *(found[usage.resource, usage.where] for found in of_others)]
        return (
            usage.resource,
            usage.where,
            resource_text(usage.resource, usage.before),
            *map(_meter, same),
            resource_text(usage.resource, usage.capacity),
        )

    shown = fullest(first, MAX_ROWS)
    made = table(
        "Pools, fullest first",
        ("resource", "where", ">before", *(f">{name}" for name in subject.names), ">capacity"),
        map(row, shown),
    )
    yield replace(made, more=len(first) - len(shown))


def _meter(usage: PoolUsage) -> Meter:
    text = f"{resource_text(usage.resource, usage.after)}, {percent(usage.share)}"
    return Meter(text, min(1.0, usage.share), tight=True)
