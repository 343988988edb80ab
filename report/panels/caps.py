"""Caps: what the jobs that count in each hold together, before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Plan
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import percent

_Used = defaultdict[str, defaultdict[Measure, int]]


def caps(subject: Subject) -> Iterator[Table]:
    """Yield the limits of all caps, the fullest after the first plan first."""
    if not subject.round.caps:
        return
    before = _used(subject, _running(subject))
    after = [_used(subject, _placed(subject, plan)) for plan in subject.plans]

    def row(name: str, measure: Measure, most: int) -> tuple[Cell, ...]:
        return (
            name,
            measure.text(before[name][measure]),
            *(_meter(measure, used[name][measure], most) for used in after),
            measure.text(most),
        )

    limits = [
        (name, measure, most)
        for name, cap in subject.round.caps.items()
        for measure, most in cap.limits.items()
    ]
    limits.sort(key=lambda one: -after[0][one[0]][one[1]] / max(one[2], 1))
    yield table(
        "Caps, fullest first",
        ("cap", ">before", *(f">{name}" for name in subject.names), ">limit"),
        (row(*one) for one in limits),
    )


def _running(subject: Subject) -> Iterator[tuple[str, Option]]:
    for job in subject.round.jobs:
        if job.running is not None:
            yield job.name, job.options[job.running.option]


def _placed(subject: Subject, plan: Plan) -> Iterator[tuple[str, Option]]:
    for decision in plan.decisions:
        if decision.option is not None:
            yield decision.job, subject.jobs[decision.job].options[decision.option]


def _used(subject: Subject, held: Iterator[tuple[str, Option]]) -> _Used:
    """Return what jobs count in each cap, by what it limits."""
    used: _Used = defaultdict(lambda: defaultdict(int))
    for job, option in held:
        for name in subject.jobs[job].caps:
            for measure in subject.round.caps[name].limits:
                used[name][measure] += measure.asked_by(option)
    return used


def _meter(measure: Measure, used: int, most: int) -> Meter:
    part = used / most if most else 1.0
    return Meter(f"{measure.text(used)}, {percent(part)}", min(1.0, part), tight=True)
