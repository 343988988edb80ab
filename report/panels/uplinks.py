"""Uplinks: what jobs send over the links of domains, before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placewright.report.facts.uplinks import UplinkUsage, uplink_usage
from placewright.report.panels.subject import Subject
from placewright.report.table import MAX_ROWS, Cell, Meter, Table, table
from placewright.report.text import megabits, percent


def uplinks(subject: Subject) -> Iterator[Table]:
    """Yield the links over which jobs send, the fullest after the first plan first."""
    first, *others = (uplink_usage(subject.round, subject.cluster, plan) for plan in subject.plans)
    if not first:
        return
    of_others = [{one.where: one for one in usages} for usages in others]

    def row(usage: UplinkUsage) -> tuple[Cell, ...]:
        idle = replace(usage, after=0)
        same = [usage, *(found.get(usage.where, idle) for found in of_others)]
        return (
            usage.where,
            megabits(usage.before),
            *map(_meter, same),
            megabits(usage.bandwidth),
        )

    made = table(
        "Uplinks, fullest first",
        ("where", ">before", *(f">{name}" for name in subject.names), ">bandwidth"),
        map(row, first[:MAX_ROWS]),
    )
    yield replace(made, more=max(0, len(first) - MAX_ROWS))


def _meter(usage: UplinkUsage) -> Meter:
    text = f"{megabits(usage.after)}, {percent(usage.share)}"
    return Meter(text, min(1.0, usage.share), tight=True)
