"""The schedule of stages: when each job runs, as a Gantt chart, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.explain.stages import Wait, waits_of
from placewright.instances.documents.plan import Plan
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Bar, Spans, Table, table
from placewright.report.text import after


def bars_of(wait: Wait, now: int, seconds: int) -> tuple[Bar, ...]:
    """Return when tasks of a job run, as fractions of the time until all is done.

    Of three styles: what ran before, what begins now, and what begins later.
    """
    said = wait.scheduled
    length = said.end - (said.waves[-1][0] if said.waves else said.start)
    bars = []
    for begin in [begin for begin, _ in said.waves] or [said.start]:
        style = "s0" if begin < now else "s1" if begin == now else "s2"
        first, last = max(0, begin - now), begin + length - now
        bars.append(Bar(first / seconds, last / seconds, style))
    return tuple(bars)


def span_of(waits: dict[str, Wait], now: int) -> int:
    """Return the seconds from now until all is done."""
    return max([wait.scheduled.end - now for wait in waits.values()], default=1)


def schedule(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield when each job of a plan runs."""
    now, waits = subject.round.now, waits_of(subject.round, plan)
    seconds = span_of(waits, now)
    if waits:
        yield table(
            "Schedule, in the order of the round",
            ("job", ">tasks", ">from", ">to", "when", "waits"),
            (
                (
                    subject.cell(name),
                    str(wait.scheduled.tasks),
                    after(wait.scheduled.start, now),
                    after(wait.scheduled.end, now),
                    Spans("", bars_of(wait, now, seconds)),
                    wait.text(now),
                )
                for name, wait in waits.items()
            ),
        )


PANELS = PolicyPanels("Schedule", schedule)
