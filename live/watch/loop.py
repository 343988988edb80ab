"""The loop of a watch: read, decide if something changed, write, act; and go on whatever fails."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb, format_exception

from placewright.instances.derived.doubts import told_lines
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.needs import obeying
from placewright.live.watch.follow import Follower
from placewright.live.watch.reading import Actor, Reading, Source, SourceError
from placewright.live.watch.record import Record
from placewright.live.watch.sent import Sent
from placewright.rounds import InternalError

DECIDED_AGAIN = 10
"""A round is decided after so many looks though nothing changed: time itself lets jobs start."""

MOST_FAILURES = 20
"""Looks in a row that may fail before a watch gives up: some 85 minutes at 30 s between looks."""

MOST_PATIENCE_S = 300.0
"""The longest pause after failures; it doubles from one to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a watch looks, and what it refuses to act on.

    Parameters
    ----------
    every_s
        Seconds from one look to the next; after one that took long half of them.
    max_age_s
        A plan is not carried out if its state was read longer ago than this.
    rounds
        How many rounds are decided before the watch ends; None: until it is stopped.
    despite
        Rules of jobs that are told and not obeyed, and yet are no reason to leave these alone.
    """

    every_s: float
    max_age_s: float
    rounds: int | None = None
    despite: frozenset[str] = frozenset()


class GivenUpError(Exception):
    """So many looks in a row failed that the watch ends."""


def watch(
    source: Source,
    follower: Follower,
    actor: Actor,
    record: Record,
    pace: Pace,
    tell: Callable[[str], None],
) -> None:
    """Follow a cluster. Nothing is kept between two looks that the cluster does not know itself.

    Whatever a look raises is told, recorded and counted, and it is looked again.

    Parameters
    ----------
    source, follower, actor, record
        Where states come from, who decides, who acts, and where plans are written.
    tell
        Is called with a line for each round, and for each thing that went wrong or is left out.

    Raises
    ------
    GivenUpError
        `MOST_FAILURES` looks in a row failed.
    """
    looks = _Looks(source, follower, actor, record, pace, tell)
    failures = 0
    while True:
        began = time.monotonic()
        try:
            looks.look()
            failures = 0
        except Exception as error:  # noqa: BLE001
            failures += 1
            looks.failed(error, failures)
        looks.count(failures)
        if failures >= MOST_FAILURES:
            raise GivenUpError(f"{failures} looks in a row failed; the last one: {looks.problem}")
        if pace.rounds is not None and looks.decided >= pace.rounds:
            return
        rest = max(pace.every_s / 2, pace.every_s - (time.monotonic() - began))
        again = min(pace.every_s * 2 ** min(failures, 10), MOST_PATIENCE_S)
        source.wait(again if failures else rest)


@dataclass(slots=True)
class _Looks:
    """One look after the other, and what is known from those before."""

    source: Source
    follower: Follower
    actor: Actor
    record: Record
    pace: Pace
    tell: Callable[[str], None]
    last: Round | None = None
    sent: Sent = field(default_factory=Sent)
    told: frozenset[str] = frozenset()
    problem: str = ""
    idle: int = 0
    looks: int = 0
    decided: int = 0
    failures: int = 0

    def look(self) -> None:
        """Read a state, and decide it and act if something changed."""
        self.looks += 1
        reading = self.source.read()
        round_ = self.sent.applied_to(reading.round)
        self.idle += 1
        if self.idle >= DECIDED_AGAIN or _differ(self.last, round_):
            solved, plan = self.follower.decide(round_)
            obeys = obeying(solved, plan, self.pace.despite)
            commands, unsaid = self.actor.commands(solved, obeys.plan)
            self.record.write(solved, plan, commands)
            told = told_lines(solved)
            lines = [*reading.made.book.lines(), *told, *obeys.lines, *unsaid]
            for line in (line for line in lines if line not in self.told):
                self.tell(line)
            self.told = frozenset(lines)
            self.tell(f"{reading.made.summary}: {_counts(plan)}")
            done = _carry_out(
                reading, solved, obeys.plan, self.actor, self.sent, self.pace, self.tell
            )
            self.last, self.idle = (round_, 0) if done else (None, 0)
            self.decided += 1
        self.record.beat(time.time())

    def failed(self, error: Exception, in_a_row: int) -> None:
        """Tell and record what a look raised, and begin anew unless the scheduler was away."""
        self.failures += 1
        self.problem = _said(error)
        self.tell(f"nothing was decided: {self.problem}")
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        trace = "".join(format_exception(error))
        self._note(lambda: self.record.fail(f"{at}: failure {in_a_row} in a row\n{trace}"))
        if not isinstance(error, SourceError):
            self.last, self.sent = None, Sent()
            self._note(self.follower.close)

    def count(self, failures: int) -> None:
        """Write the metrics of all looks."""
        metrics = {
            "looks_total": self.looks,
            "rounds_total": self.decided,
            "failures_total": self.failures,
            "failures_in_a_row": failures,
        }
        self._note(lambda: self.record.count(metrics))

    def _note(self, does: Callable[[], None]) -> None:
        """Do what must not take the watch with it, such as writing to a disk that is full."""
        try:
            does()
        except Exception as error:  # noqa: BLE001
            self.tell(f"after a look: {_said(error)}")


def _said(error: Exception) -> str:
    """Return what went wrong in a line, with its place in the code where nobody foresaw it."""
    if isinstance(error, SourceError | InternalError | InvalidInputError | OSError):
        return printable(str(error))
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return printable(f"internal error: {type(error).__name__}: {error} ({place}); please report it")


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
