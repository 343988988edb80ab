"""Tables of a round with deadlines: work and due times of jobs, and outages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from placewright.cli.format.table import MAX_ROWS, print_rest, print_table, table
from placewright.instances.derived.phrases import count, duration, several
from placewright.report.text import NONE, after, gpus, number

if TYPE_CHECKING:
    from placewright.instances.documents.deadline import Due
    from placewright.instances.documents.round import Round
    from placewright.report.facts.promises import Interval


COLUMNS = ("job", "GPUs", "work", "ready", "due", "value", "promised")


def print_deadlines(console: Console, round_: Round) -> None:
    """Print the jobs that have a deadline, those due first before the others, and who is away."""
    asked = [(job, job.deadline) for job in round_.jobs if job.deadline is not None]
    if not asked:
        return
    asked.sort(key=lambda pair: (not pair[1].due, pair[1].due[0].at if pair[1].due else 0))
    console.print()
    console.print(clock_text(round_), soft_wrap=True)
    away = outage_texts(round_, (0, round_.leases.horizon))
    if away:
        console.print(f"Away: {several(away, MAX_ROWS)}", soft_wrap=True)
    console.print()
    hidden = set()
    if all(deadline.ready is None for _, deadline in asked):
        hidden.add("ready")
    if all(deadline.promise is None for _, deadline in asked):
        hidden.add("promised")
    columns = [name for name in COLUMNS if name not in hidden]
    made = table("Deadlines, earliest first", *columns, right=("GPUs", "work"))
    for job, deadline in asked[:MAX_ROWS]:
        sizes = sorted({option.milli_gpu for option in job.options})
        row = {
            "job": job.name,
            "GPUs": _range(gpus(sizes[0]), gpus(sizes[-1])),
            "work": duration(deadline.work_s),
            "ready": NONE if deadline.ready is None else after(deadline.ready, round_.now),
            "due": NONE,
            "value": "best effort",
            "promised": NONE,
        }
        if deadline.due:
            first, last = deadline.due[0], deadline.due[-1]
            row["due"] = _range(after(first.at, round_.now), after(last.at, round_.now))
            row["value"] = _range(number(first.value), number(last.value))
        if deadline.promise is not None:
            row["promised"] = after(deadline.promise.at, round_.now)
        made.add_row(*(row[name] for name in columns))
    print_table(console, made)
    print_rest(console, len(asked), "more job")


def clock_text(round_: Round) -> str:
    """Say what times are counted from, and what leases are."""
    leases, now = round_.leases, round_.now
    return (
        f"Times are from now, {now:,} s on the round's clock. Lease 0 begins now; each takes "
        f"{duration(leases.length_s)}, and no promise ends after "
        f"{after(leases.start(now, leases.horizon), now)}."
    )


def deadlines_text(round_: Round) -> str:
    """Count the jobs that ask for a promise, and those that have one."""
    deadlines = [job.deadline for job in round_.jobs if job.deadline is not None]
    asks = sum(bool(deadline.due) for deadline in deadlines)
    has = sum(deadline.promise is not None for deadline in deadlines)
    return f"{count(asks, 'job')} due, {has:,} promised"


def due_text(due: Due, now: int) -> str:
    """Write a due time and what it is worth."""
    return f"{after(due.at, now)} (value {number(due.value)})"


def outage_texts(round_: Round, window: Interval) -> list[str]:
    """Describe the outages and unhealthy hosts of a window of leases."""
    found = [f"{entry.name} (unhealthy)" for entry in round_.cluster.hosts if not entry.healthy]
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        if max(first, window[0]) < min(end, window[1]):
            since = "" if outage.start is None else f"from {after(outage.start, round_.now)} "
            till = "for good" if outage.end is None else f"until {after(outage.end, round_.now)}"
            found.append(f"{outage.host} {since}{till}")
    return found


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
