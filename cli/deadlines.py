"""What a round asks of time: work and due times of jobs, and hosts that are away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from placewright.cli.tabular import MAX_ROWS, print_rest, print_table, table
from placewright.cli.text import NONE, after, count, duration, gpus, number, several

if TYPE_CHECKING:
    from placewright.cli.promises import Interval
    from placewright.instances.deadline import Deadline, Due
    from placewright.instances.round import Round


def print_deadlines(console: Console, round_: Round) -> None:
    """Print the jobs that have a deadline, those due first before the others, and who is away."""
    asked = [(job, job.deadline) for job in round_.jobs if job.deadline is not None]
    if not asked:
        return
    asked.sort(key=lambda pair: (not pair[1].due, pair[1].due[0].at if pair[1].due else 0))
    console.print()
    console.print(clock_text(round_), soft_wrap=True)
    away = absences(round_, (0, round_.leases.horizon))
    if away:
        console.print(f"Away: {several(away, MAX_ROWS)}", soft_wrap=True)
    console.print()
    made = table(
        "Deadlines, earliest first",
        "job",
        "GPUs",
        "work",
        "ready",
        "due",
        "promised",
        right=("GPUs", "work"),
    )
    for job, deadline in asked[:MAX_ROWS]:
        sizes = sorted({option.milli_gpu for option in job.options})
        made.add_row(
            job.name,
            gpus(sizes[0]) if len(sizes) == 1 else f"{gpus(sizes[0])} to {gpus(sizes[-1])}",
            duration(deadline.work_s),
            NONE if deadline.ready is None else after(deadline.ready, round_.now),
            _dues(deadline, round_.now),
            due_text(deadline.promise, round_.now) if deadline.promise else NONE,
        )
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


def absences(round_: Round, window: Interval) -> list[str]:
    """Say which hosts are not there in some lease of a window, and when."""
    found = [f"{entry.name} (unhealthy)" for entry in round_.cluster.hosts if not entry.healthy]
    for outage in round_.leases.outages:
        first, end = round_.leases.overlapped(outage, round_.now)
        if max(first, window[0]) < min(end, window[1]):
            since = "" if outage.start is None else f"from {after(outage.start, round_.now)} "
            till = "for good" if outage.end is None else f"until {after(outage.end, round_.now)}"
            found.append(f"{outage.host} {since}{till}")
    return found


def _dues(deadline: Deadline, now: int) -> str:
    if not deadline.due:
        return "best effort"
    first, *others = deadline.due
    more = f", {count(len(others), 'later one')}" if others else ""
    return f"{due_text(first, now)}{more}"
