"""A plan as a table of comma-separated values, a row per task, and one per job that waits."""

from __future__ import annotations

import csv
import io

from placewright.instances.checks.round import checked
from placewright.instances.derived.doubts import why_waits
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import printable

COLUMNS = ("job", "decision", "option", "group", "task", "host", "gpus", "reason", "displaced_by")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plan_csv(round_: Round, plan: Plan) -> str:
    """Return the table; no cell can start a formula in a spreadsheet: such a cell begins with '."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    jobs = {job.name: job for job in checked(round_).jobs}
    for one in plan.decisions:
        waits = one.decision is DecisionKind.WAIT
        why = why_waits(round_, jobs[one.job], one) if waits else ""
        option = "" if one.option is None else str(one.option)
        more = (why, " ".join(one.displaced_by))
        if not one.tasks:
            writer.writerow(_cells(one.job, one.decision.value, option, "", "", "", "", *more))
        for task in one.tasks:
            gpus = " ".join(map(str, task.gpus))
            place = (str(task.group), str(task.index), task.host, gpus)
            writer.writerow(_cells(one.job, one.decision.value, option, *place, *more))
    return text.getvalue()


def _cells(*texts: str) -> list[str]:
    return [_plain(printable(text)) for text in texts]


def _plain(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
