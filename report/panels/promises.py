"""Promises and their leases: given, broken and refused."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.derived.phrases import duration
from placewright.instances.documents.plan import Plan
from placewright.report.facts.promises import Interval, Promise, Promises, Refused, promises_of
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Bar, Cell, Spans, Table, table
from placewright.report.text import NONE, after, gpus, intervals, number

MAX_INTERVALS = 3


def promises(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield what a plan promises."""
    found = promises_of(subject.round, plan)
    if found is None:
        return
    now, leases = subject.round.now, subject.round.leases
    last = _last(found)
    if found.broken:
        yield table(
            "Broken promises",
            ("job", "promised by", ">value", "now"),
            (
                (
                    subject.cell(one.job),
                    after(one.before.at, now),
                    number(one.before.value),
                    "none" if one.after is None else f"by {after(one.after.at, now)}",
                )
                for one in found.broken
            ),
        )
    if found.given:
        yield table(
            "Promises, earliest first",
            ("job", ">GPUs", ">value", ">by", ">finish", ">slack", "promise", "leases"),
            (_given(subject, one, last) for one in found.given),
            f"Lease 0 begins now; each takes {duration(leases.length_s)}. The line shows leases 0 "
            f"to {last - 1:,}.",
        )
    if found.refused:
        yield table(
            "Refused, and the finish that could be promised",
            ("job", ">GPUs", ">last due", ">offer", "leases of the offer"),
            (_refused(subject, one, last) for one in found.refused),
        )
    if found.best_effort:
        yield table(
            "Best effort in this lease",
            ("job", ">GPUs", "asked for a promise"),
            (
                (subject.cell(one.job), gpus(one.milli_gpu), "yes" if one.asked else "no")
                for one in found.best_effort
            ),
        )


def _last(found: Promises) -> int:
    """Return the number of leases that are drawn."""
    leases = [*(one.leases for one in found.given), *(one.leases for one in found.refused)]
    ends = [some[-1][1] for some in leases if some]
    return max(ends, default=1)


def _given(subject: Subject, one: Promise, last: int) -> tuple[Cell, ...]:
    now = subject.round.now
    before = one.before
    kept = "new" if before is None else "kept" if before.at == one.due.at else "moved"
    return (
        subject.cell(one.job),
        gpus(one.milli_gpu),
        number(one.due.value),
        after(one.due.at, now),
        after(one.finish, now),
        duration(one.slack),
        kept,
        _spans(one.leases, last),
    )


def _refused(subject: Subject, one: Refused, last: int) -> tuple[Cell, ...]:
    now = subject.round.now
    return (
        subject.cell(one.job),
        gpus(one.milli_gpu),
        after(one.dues[-1].at, now),
        "none" if one.finish is None else after(one.finish, now),
        _spans(one.leases, last) if one.leases else NONE,
    )


def _spans(leases: tuple[Interval, ...], last: int) -> Spans:
    bars = (Bar(first / last, end / last) for first, end in leases)
    return Spans(intervals(leases, MAX_INTERVALS), tuple(bars))


PANELS = PolicyPanels("Leases", promises)
