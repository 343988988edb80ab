"""What two plans decide differently, job by job."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.plan import Decision
from placewright.report.facts.outcomes import OUTCOMES
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import NONE, count_gpus, place


def differences(subject: Subject) -> Iterator[Table]:
    """Yield the jobs that plan B does not decide as plan A does, what costs most first."""
    found = subject.comparison
    if found is None:
        return
    yield table(
        "Jobs that B decides otherwise",
        ("job", ">GPUs", "in B it", "in A", "in B"),
        (
            (
                subject.cell(one.job.name),
                count_gpus(one.milli_gpu),
                one.change,
                _said(one.before),
                _said(one.after),
            )
            for one in found.jobs
        ),
        "" if found.jobs else "None: both decide every job alike.",
    )


def _said(decision: Decision | None) -> str:
    if decision is None:
        return NONE
    said = OUTCOMES[decision.decision]
    if decision.tasks:
        return f"{said} on {place(decision.tasks)}"
    return said if decision.reason is None else f"{said}: {decision.reason.replace('_', ' ')}"
