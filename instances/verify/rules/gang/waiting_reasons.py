"""Rules about jobs that may not start yet, and about those that wait for a reservation."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Reason
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.reservation_section import KIND
from placewright.instances.verify.rules.gang.waiting import end_of, may_start

_MINE = (
    Reason.HELD,
    Reason.NOT_BEFORE,
    Reason.RESERVED,
    Reason.HELD_FOR_RESERVATION,
    Reason.HELD_FOR_MAINTENANCE,
)


def eligible(reading: Reading) -> Iterator[Finding]:
    """Refuse the start of a job that is held, or whose eligible time has not come."""
    for placed in reading.started:
        if not may_start(placed.job, reading.round.now):
            when = "it is held" if placed.job.held else f"before {placed.job.not_before} s"
            yield Finding(
                (*placed.path, "decision"),
                f"job {placed.job.name!r} starts, {when}; expected it to wait",
            )


def waiting_reason(reading: Reading) -> Iterator[Finding]:
    """Require that a job which waits by itself or for a reservation does so, with the right facts.

    A job held back for a reservation, or for maintenance, would not have ended by its time.
    """
    at = {
        str(job.get("job")): job.get("at")
        for entry in reading.plan.sections
        if entry.get("kind") == KIND
        for job in entry.get("jobs") or ()
    }
    now = reading.round.now
    begins = {
        max(outage.start or 0, now)
        for outage in reading.round.maintenance
        if outage.end is None or outage.end > now
    }
    for index, decision in enumerate(reading.plan.decisions):
        job, reason, detail = reading.jobs.get(decision.job), decision.reason, decision.detail
        if job is None or reason not in _MINE:
            continue
        time, other = (None, None) if detail is None else (detail.at, detail.job)
        true = {
            Reason.HELD: job.held,
            Reason.NOT_BEFORE: not may_start(job, now) and time == job.not_before,
            Reason.RESERVED: job.name in at and time == at[job.name],
            Reason.HELD_FOR_RESERVATION: other in at
            and time == at[other or ""]
            and end_of(job, now) > (time or 0),
            Reason.HELD_FOR_MAINTENANCE: time in begins and end_of(job, now) > (time or 0),
        }
        if not true[reason]:
            yield Finding(
                ("decisions", index, "reason"),
                f"job {job.name!r} waits for {reason!s}, {reason_text(reason, detail)!r}, "
                "which is not so; expected another reason",
            )


RULES_OF_WAITING_REASONS: tuple[Rule[Reading], ...] = (
    Rule("eligible", eligible),
    Rule("waiting_reason", waiting_reason),
)
