"""The loop of a watch: read, decide if something changed, write, act; and go on whatever fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.live.watch.follow import Follower
from placewright.live.watch.reading import Actor, Reading, Source, SourceError
from placewright.live.watch.record import Record
from placewright.live.watch.sent import Sent
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
    sent = Sent()
    idle = failures = decided = 0
    while pace.rounds is None or decided < pace.rounds:
        try:
            reading = source.read()
            round_ = sent.applied_to(reading.round)
            idle += 1
            if idle >= DECIDED_AGAIN or _differ(last, round_):
                solved, plan = follower.decide(round_)
                record.write(solved, plan, actor.commands(solved, plan))
                tell(f"{reading.made.summary}: {_counts(plan)}")
                done = _carry_out(reading, solved, plan, actor, sent, pace, tell)
                last, idle = (round_, 0) if done else (None, 0)
                decided += 1
            record.beat(time.time())
            failures = 0
        except (SourceError, InternalError, InvalidInputError, OSError) as error:
            failures += 1
            tell(f"nothing was decided: {printable(str(error))}")
        if pace.rounds is None or decided < pace.rounds:
            source.wait(min(pace.every_s * 2 ** min(failures, 10), MOST_PATIENCE_S))


def _carry_out(
    reading: Reading,
    round_: Round,
    plan: Plan,
    actor: Actor,
    sent: Sent,
    pace: Pace,
    tell: Callable[[str], None],
) -> bool:
    """Act on a plan; return whether all of it was done, as far as asked."""
    age = time.monotonic() - reading.taken
    if age > pace.max_age_s:
        tell(f"not carried out: read {age:.0f} s ago; at most {pace.max_age_s:.0f} s are allowed")
        return False
    acted = actor.act(round_, plan, reading.taken + pace.max_age_s)
    sent.note(plan, acted.sent)
    for line in acted.undone:
        tell(line)
    return not acted.undone


def _counts(plan: Plan) -> str:
    counts = Counter(decision.decision.value for decision in plan.decisions)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "no jobs"


def _differ(before: Round | None, after: Round) -> bool:
    """Whether anything but the time, and what was left out, is different."""
    if before is None:
        return True
    same = {"now": before.now, "annotations": before.annotations}
    return after.model_copy(update=same) != before
