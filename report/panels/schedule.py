"""The schedule of stages: when each job runs."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.plan import Plan
from placewright.report.panels.policies import PolicyPanels
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import after


def schedule(subject: Subject, plan: Plan) -> Iterator[Table]:
    """Yield when each job of a plan runs."""
    now = subject.round.now
    for section in plan.sections:
        if section["kind"] == "schedule":
            yield table(
                "Schedule, in the order of the round",
                ("job", ">tasks", ">from", ">to", "after"),
                (
                    (
                        subject.cell(entry["job"]),
                        str(entry["tasks"]),
                        after(entry["start"], now),
                        after(entry["end"], now),
                        "",
                    )
                    for entry in section["jobs"]
                ),
            )


PANELS = PolicyPanels("Schedule", schedule)
