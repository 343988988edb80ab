"""Groups of jobs that take turns on their GPUs: one period of each."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.plan import Plan
from placewright.report.facts.turns import Member, Turns, timelines_of
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import MAX_ROWS, Bar, Cell, Spans, Table, table
from placewright.report.text import gpus, milliseconds, percent

STYLES = 6
"""Kinds of bars that the style sheet tells apart."""


def turns(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield the groups of a plan, a row for each job."""
    found = timelines_of(subject.round, plan, MAX_ROWS)
    if found is None:
        return
    stages = ", ".join(f"{name} (bar {number})" for number, name in enumerate(found.resources, 1))
    yield table(
        "Groups that take turns",
        ("where", ">GPUs", ">period", ">in use", "job", ">speed", "one period"),
        (
            row
            for group in found.turns
            for number, member in enumerate(group.members)
            for row in [_row(subject, group, member, number == 0)]
        ),
        f"Stages of an iteration, from above: {stages}."
        + (f" {found.more:,} more groups are not shown." if found.more else ""),
    )


def _row(subject: Subject, group: Turns, member: Member, is_first: bool) -> tuple[Cell, ...]:
    about = (
        group.where,
        gpus(group.milli_gpu),
        milliseconds(group.period),
        percent(group.efficiency),
    )
    bars = (
        Bar(bar.start, bar.end, f"s{bar.resource % STYLES}", lane=bar.resource)
        for bar in member.bars
    )
    return (
        *(about if is_first else ("",) * len(about)),
        subject.cell(member.name),
        percent(member.speed),
        Spans("", tuple(bars), lanes=max(bar.resource for bar in member.bars) + 1),
    )


PANELS = PolicyPanels("Groups", turns)
