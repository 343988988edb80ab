"""What a comparison of two plans comes to, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.explain.comparison import Change, Comparison, WaitingJobs
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.quantities import amount_text, part_text

_SAID: tuple[tuple[Change, str, str], ...] = (
    ("starts", "starts", "start"),
    ("no longer starts", "no longer starts", "no longer start"),
    ("stops", "stops", "stop"),
    ("no longer stops", "no longer stops", "no longer stop"),
    ("restarts", "restarts", "restart"),
    ("moves", "moves", "move"),
    ("no longer moves", "no longer moves", "no longer move"),
    ("other option", "runs with another option", "run with another option"),
    ("other place", "is elsewhere", "are elsewhere"),
    ("other reason", "waits for another reason", "wait for another reason"),
    ("other facts", "waits for the same reason with other facts",
     "wait for the same reason with other facts"),
)  # fmt: skip


def conclusions(comparison: Comparison) -> tuple[str, ...]:
    """Return the difference as sentences: who starts and stops, and whether quotas are why not."""
    if comparison.is_empty:
        return ("Nothing differs.",)
    return tuple(_sentences(comparison))


def _sentences(comparison: Comparison) -> Iterator[str]:
    parts = [
        f"{len(found):,} {one if len(found) == 1 else many}"
        for change, one, many in _SAID
        if (found := comparison.of(change))
    ]
    new = comparison.of("new")
    placed = [one for one in new if one.after is not None and one.after.tasks]
    if new:
        parts.insert(0, f"{len(placed):,} of {len(new):,} new jobs run")
    gone = comparison.of("gone")
    if gone:
        parts.append(f"{len(gone):,} {'is' if len(gone) == 1 else 'are'} gone")
    yield f"Jobs: {', '.join(parts)}." if parts else "Every job is decided as before."
    if not comparison.of("starts") and not placed:
        yield "Nobody starts who did not start before."
        yield from _quotas(comparison)
    if comparison.sections:
        yield f"Sections that differ: {', '.join(comparison.sections)}."
    chance = [
        one.term.name for one in comparison.terms if one.difference and one.verdict == "undecided"
    ]
    if chance and comparison.jobs:
        yield f"Undecided, and maybe due to the searches alone: {', '.join(chance)}."


def _quotas(comparison: Comparison) -> Iterator[str]:
    """Say how many of the waiting jobs wait for quotas, and how full these are."""
    limited = [one for one in comparison.waiting if one.reason is Reason.QUOTA]
    waiting = sum(len(one.jobs) for one in comparison.waiting)
    if limited:
        jobs = sum(len(one.jobs) for one in limited)
        full = ", ".join(text for one in limited if (text := quota_text(one)))
        who = f"{jobs:,} of {waiting:,} waiting jobs" if waiting > 1 else "The waiting job"
        yield f"{who} {'waits' if jobs == 1 else 'wait'} for a quota{f': {full}' if full else ''}."


def quota_text(waiting: WaitingJobs) -> str:
    """Return how full the quota or cap is that jobs wait for; nothing for any other reason."""
    if waiting.limit is None or waiting.used is None or waiting.resource is None:
        return ""
    if waiting.cap is not None:
        measure = Measure.named(waiting.resource, waiting.gpu_model)
        held = measure.text(waiting.used).partition(" ")[0]
        limit = measure.text(waiting.limit)
        if not waiting.used:
            return f"cap {waiting.cap} allows {limit} in all"
        return f"cap {waiting.cap} holds {held} of {limit}"
    if not waiting.used:
        return f"tenant {waiting.tenant} may hold {amount_text(waiting.resource, waiting.limit)}"
    used = part_text(waiting.resource, waiting.used, waiting.limit)
    return f"tenant {waiting.tenant} uses {used}"
