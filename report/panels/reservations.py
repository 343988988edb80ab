"""Backfilling: which waiting jobs have a reservation, when and where."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.derived.phrases import several
from placewright.instances.documents.plan import Plan
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import NONE, after, gpus
from placewright.rounds.backfill.queue import reservations_of

MAX_HOSTS = 4


def reservations(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield the reservations of a plan, if it has some."""
    found, now = reservations_of(plan.sections), subject.round.now
    if found:
        yield table(
            "Reservations, in the order of the queue",
            ("job", ">GPUs", ">from", ">to", "where"),
            (
                (
                    subject.cell(name),
                    gpus(subject.jobs[name].options[entry["option"]].milli_gpu),
                    after(entry["at"], now),
                    NONE if entry["end"] is None else after(entry["end"], now),
                    several([task["host"] for task in entry["tasks"]], MAX_HOSTS),
                )
                for name, entry in found.items()
            ),
        )


PANELS = PolicyPanels("Reservations", reservations)
