"""The tables of deadlines: of a round, and promises of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from placewright.cli.format.console import LATER, MAX_ROWS, print_rest, print_table, table
from placewright.instances.derived.phrases import HOUR, count, duration, several, unit_of
from placewright.instances.verify import RefusalReason, RefusalReasons
from placewright.report.facts.promises import Promise, Promises, Refused
from placewright.report.text import NONE, after, count_gpus, gpus, intervals, number

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


PROMISE_STATES = {
    "new": "new",
    "kept": "kept",
    "earlier": "now for earlier",
    "later": "broken, now for later",
}
LOUD = "bold red"
GIVEN = ("job", "option", "GPUs", "value", "by", "finish", "slack", "leases", "due", "promise")
RIGHT = ("GPUs", "value", "by", "finish", "slack")
MAX_INTERVALS = 3
MAX_HOLDERS = 3
MAX_AWAY = 3
MAX_EFFORTS = 8


def print_broken(console: Console, promises: Promises) -> None:
    """Print the promises that are broken, and why; nothing if all are kept."""
    broken, now = promises.broken, promises.round.now
    if not broken:
        return
    console.print(Text(broken_text(promises), LOUD))
    last = max(entry.before.at for entry in broken)
    length = promises.round.leases.length_s
    away = outage_texts(promises.round, (0, max(-((now - last) // length), 1)))
    if away:
        console.print(f"  away meanwhile: {several(away, MAX_AWAY)}", soft_wrap=True)
    reasons = RefusalReasons(promises.round, promises.plan)
    for entry in broken[:MAX_ROWS]:
        gone = "none" if entry.after is None else f"by {due_text(entry.after, now)}"
        reason = reasons.of(entry.job, entry.before.at)
        console.print(
            Text.assemble(
                (f"  {entry.job}", LOUD),
                f"  {count_gpus(reason.milli_gpu)}, promised by {due_text(entry.before, now)}, "
                f"now {gone}",
            ),
            soft_wrap=True,
        )
        console.print(f"    {why(promises, reason, entry.before.at)}", soft_wrap=True)
    console.print()
    print_rest(console, len(broken), "more broken promise")


def broken_text(promises: Promises) -> str:
    """Say how many promises are broken, and what that loses."""
    lost = sum(b.before.value - (b.after.value if b.after else 0) for b in promises.broken)
    had = sum(
        job.deadline is not None and job.deadline.promise is not None for job in promises.round.jobs
    )
    return f"BROKEN: {len(promises.broken):,} of {count(had, 'promise')}, value {number(lost)} lost"


def print_promises(console: Console, promises: Promises) -> None:
    """Print how many promises there are, then those given and refused, and best effort."""
    console.print(clock_text(promises.round), soft_wrap=True)
    console.print()
    _print_counts(console, promises)
    _print_given(console, promises)
    _print_refused(console, promises)
    efforts = [f"{effort.job} ({count_gpus(effort.milli_gpu)})" for effort in promises.best_effort]
    if efforts:
        console.print(f"Best effort in this lease: {several(efforts, MAX_EFFORTS)}", soft_wrap=True)
        console.print()


def _print_counts(console: Console, promises: Promises) -> None:
    """Count jobs and GPUs by what was promised."""
    hours = promises.round.leases.length_s / HOUR
    made = table(
        "Promises",
        "promise",
        "jobs",
        "value",
        "GPUs now",
        "GPU-h",
        right=("jobs", "value", "GPUs now", "GPU-h"),
    )
    for word in ("new", "kept", "earlier", "later"):
        given = [p for p in promises.given if promise_status(p) == word]
        if given or word in ("new", "kept"):
            made.add_row(
                PROMISE_STATES[word],
                number(len(given)),
                number(sum(p.due.value for p in given)),
                gpus(sum(p.milli_gpu for p in given if p.now)),
                gpus(round(sum(p.milli_gpu * p.length for p in given) * hours, -2)),
            )
    refused, efforts = promises.refused, promises.best_effort
    made.add_row(
        "refused",
        number(len(refused)),
        number(sum(r.dues[0].value for r in refused)),
        gpus(sum(e.milli_gpu for e in efforts if e.asked)),
        NONE,
    )
    others = [e for e in efforts if not e.asked]
    made.add_row(
        "best effort, running",
        number(len(others)),
        NONE,
        gpus(sum(e.milli_gpu for e in others)),
        NONE,
    )
    print_table(console, made)


def promise_status(promise: Promise) -> str:
    """Compare a promise with the one before it: `new`, `kept`, `earlier` or `later`."""
    if promise.before is None:
        return "new"
    if promise.due.at == promise.before.at:
        return "kept"
    return "earlier" if promise.due.at < promise.before.at else "later"


def _print_given(console: Console, promises: Promises) -> None:
    """Print the first promises, and how many more there are."""
    given, now = promises.given, promises.round.now
    if not given:
        return
    hidden = set()
    if all(len(job.options) == 1 for job in promises.round.jobs):
        hidden.add("option")
    if all(promise.ranks <= 1 for promise in given):
        hidden.add("due")
    if all(promise.before is None for promise in given):
        hidden.add("promise")
    columns = [name for name in GIVEN if name not in hidden]
    title = "Promised anew" if "promise" in hidden else "Promised"
    made = table(f"{title}, earliest first", *columns, right=RIGHT)
    for promise in given[:MAX_ROWS]:
        row = {
            "job": promise.job,
            "option": promise.option,
            "GPUs": gpus(promise.milli_gpu),
            "value": number(promise.due.value),
            "by": after(promise.due.at, now),
            "finish": after(promise.finish, now),
            "slack": duration(promise.slack),
            "leases": intervals(promise.leases, MAX_INTERVALS),
            "due": NONE if promise.rank is None else f"{promise.rank + 1}/{promise.ranks}",
            "promise": promise_status(promise),
        }
        style = LOUD if promise_status(promise) == "later" else LATER if promise.rank else None
        made.add_row(*(row[name] for name in columns), style=style)
    print_table(console, made)
    print_rest(console, len(given), "more promise")


def _print_refused(console: Console, promises: Promises) -> None:
    """Print the refused jobs: the earliest offer of each, and the reason of the refusal."""
    refused, now = promises.refused, promises.round.now
    if not refused:
        return
    made = table(
        "Refused, and the finish that would be accepted",
        "job",
        "GPUs",
        "last due",
        "offer",
        "what stands in the way",
        right=("GPUs", "last due"),
    )
    reasons = RefusalReasons(promises.round, promises.plan)
    for entry in refused[:MAX_ROWS]:
        last = entry.dues[-1].at
        reason = reasons.of(entry.job, last, entry.option)
        made.add_row(
            entry.job,
            gpus(reason.milli_gpu),
            after(last, now),
            _offer(entry, now),
            why(promises, reason, last),
        )
    print_table(console, made)
    print_rest(console, len(refused), "more refused job")


def _offer(entry: Refused, now: int) -> str:
    if entry.finish is None:
        return "none"
    # Whoever asks for the time that is printed must get it.
    text = _no_earlier(entry.finish, now)
    return text if entry.option is None else f"{text}, {entry.option}"


def _no_earlier(at: int, now: int) -> str:
    """Format a future time, rounded up."""
    unit = unit_of(at - now)
    return after(now - (now - at) // unit * unit, now)


def why(promises: Promises, reason: RefusalReason, by: int) -> str:
    """Describe why a promise by some time is impossible: too few leases, or no capacity in them."""
    round_ = promises.round
    if by < round_.now:
        return f"was due {duration(round_.now - by)} ago"
    if reason.needed is None:
        return "no lease is long enough for its overhead"
    first, end = reason.window
    if end - first < reason.needed:
        return f"even alone not before {_no_earlier(reason.earliest, round_.now)}"
    if reason.capable < reason.needed:
        return f"{_have(reason.capable, reason.needed)} enough GPUs, whoever holds them"
    capacity = f"{_have(reason.free, reason.needed)} room"
    if reason.free >= reason.needed:
        return f"{capacity}, by count"
    # Of many, each holds little.
    named = MAX_HOLDERS if len(reason.holders) <= 2 * MAX_HOLDERS else 1
    return f"{capacity}; held by {several(reason.holders, named)}" if reason.holders else capacity


def _have(leases: int, needs: int) -> str:
    """Write how many of the leases that are needed have something."""
    return f"{min(leases, needs):,} of {count(needs, 'lease')} {'has' if needs == 1 else 'have'}"
