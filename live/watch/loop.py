"""The loop of a watch: read, decide if something changed, write, act; and go on whatever fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.live.watch.follow import Follower
from placewright.live.watch.reading import Actor, Reading, Source, SourceError
from placewright.live.watch.record import Record
from placewright.rounds import InternalError

DECIDED_AGAIN = 10
"""A round is decided after so many looks though nothing changed: time itself lets jobs start."""

MOST_PATIENCE_S = 300.0
"""The longest pause after failures; it doubles from one to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a watch looks, and what it refuses to act on.

    Parameters
    ----------
    every_s
        Seconds between two looks.
    max_age_s
        A plan is not carried out if its state was read longer ago than this.
    rounds
        How many rounds are decided before the watch ends; None: until it is stopped.
    """

    every_s: float
    max_age_s: float
    rounds: int | None = None


def watch(
    source: Source,
    follower: Follower,
    actor: Actor,
    record: Record,
    pace: Pace,
    tell: Callable[[str], None],
) -> None:
    """Follow a cluster. Nothing is kept between two looks that the cluster does not know itself.

    Parameters
    ----------
    source, follower, actor, record
        Where states come from, who decides, who acts, and where plans are written.
    tell
        Is called with a line for each round, and for each thing that went wrong.
    """
    last: Round | None = None
    idle = failures = decided = 0
    while pace.rounds is None or decided < pace.rounds:
        try:
            reading = source.read()
            idle += 1
            if idle >= DECIDED_AGAIN or _differ(last, reading.round):
                if _decide(reading, follower, actor, record, pace, tell):
                    last, idle = reading.round, 0
                else:
                    last = None
                decided += 1
            record.beat(time.time())
            failures = 0
        except (SourceError, InternalError, InvalidInputError, OSError) as error:
            failures += 1
            tell(f"nothing was decided: {printable(str(error))}")
        if pace.rounds is None or decided < pace.rounds:
            source.wait(min(pace.every_s * 2 ** min(failures, 10), MOST_PATIENCE_S))


def _decide(
    reading: Reading,
    follower: Follower,
    actor: Actor,
    record: Record,
    pace: Pace,
    tell: Callable[[str], None],
) -> bool:
    """Decide a state and act; return whether all of the plan was carried out as far as asked."""
    round_, plan = follower.decide(reading.round)
    record.write(round_, plan, actor.commands(round_, plan))
    counts: dict[str, int] = {}
    for decision in plan.decisions:
        kind = decision.decision.value
        counts[kind] = counts.get(kind, 0) + 1
    said = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    tell(f"{reading.made.summary}: {said or 'no jobs'}")
    age = time.monotonic() - reading.taken
    if age > pace.max_age_s:
        tell(f"not carried out: read {age:.0f} s ago; at most {pace.max_age_s:.0f} s are allowed")
        return False
    undone = actor.act(round_, plan)
    for line in undone:
        tell(line)
    return not undone


def _differ(before: Round | None, after: Round) -> bool:
    """Whether anything but the time, and what was left out, is different."""
    if before is None:
        return True
    same = {"now": before.now, "annotations": before.annotations}
    return after.model_copy(update=same) != before
