"""Why jobs with stages wait: which job before them, or which row of capacity, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placewright.instances.checks.stage_rows import StageRows
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.stage import Scheduled, ScheduleSection


class Wait(NamedTuple):
    """When a job runs in a schedule, and what it waits for until then: nothing, if it runs now.

    That is the job before it that ends last (`after`), or, once all before it are done (`ready`),
    what is full until then (`full`); with neither, it found no place on hosts now.
    """

    scheduled: Scheduled
    ready: int
    after: str | None
    full: str | None

    def text(self, now: int) -> str:
        """Say what the job waits for, "" if for nothing."""
        if self.scheduled.start <= now:
            return ""
        if self.after is not None:
            return f"after {self.after}"
        return "no place on hosts" if self.full is None else f"{self.full} is full"


def waits_of(round_: Round, plan: Plan) -> dict[str, Wait]:
    """Return why each job of a valid plan begins when it does, by name; {} without a schedule."""
    section = next((one for one in plan.sections if one["kind"] == "schedule"), None)
    if section is None:
        return {}
    entries = {one.job: one for one in ScheduleSection.model_validate(section).jobs}
    usage = _Usage(round_, entries)
    found = {}
    for job in round_.jobs:
        entry = entries.get(job.name)
        if entry is None or job.stage is None:
            continue
        before = [entries[name] for name in job.stage.after if name in entries]
        last = max(before, key=lambda one: one.end, default=None)
        ready = max(round_.now, 0 if last is None else last.end)
        waits_for = None if last is None or entry.start > ready else last.job
        full = usage.full(entry, ready) if entry.start > ready else None
        found[job.name] = Wait(entry, ready, waits_for, full)
    return found


class _Usage:
    """What the jobs of a schedule ask of each row over time, and each task, or a gang, of them."""

    def __init__(self, round_: Round, entries: Mapping[str, Scheduled]) -> None:
        self._rows, self._each = StageRows(round_), dict[str, list[int]]()
        self._spans: list[tuple[int, int, list[int]]] = []
        for job in round_.jobs:
            if (entry := entries.get(job.name)) is None:
                continue
            waves = entry.waves or ((entry.start, 1),)
            held = job.running is not None
            asked = (
                self._rows.held(job) if held else self._rows.asked(job, job.options[entry.option])
            )
            each = [amount // sum(units for _, units in waves) for amount in asked]
            self._each[job.name], seconds = each, entry.end - waves[-1][0]
            for begin, units in waves:
                self._spans.append((begin, begin + seconds, [units * amount for amount in each]))

    def full(self, entry: Scheduled, ready: int) -> str | None:
        """Return the row that has too little for a job just before it begins; None if all have.

        What is full there at any time that the job would need counts, the earliest first.
        """
        first = max(ready, entry.start - 1)
        begins = (begin for begin, _, _ in self._spans if first < begin < entry.end)
        for at in (first, *sorted(begins)):
            running = [asked for begin, end, asked in self._spans if begin <= at < end]
            for r, (row, each) in enumerate(
                zip(self._rows.rows, self._each[entry.job], strict=True)
            ):
                mine = each if entry.start <= at else 0
                if each and sum(asked[r] for asked in running) - mine + each > row.capacity:
                    return row.text()
        return None
