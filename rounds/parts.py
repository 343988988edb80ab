"""The rounds of regions, side by side: whoever decides one is told all that it needs, and answers.

A worker that dies costs time and not the plan: what it had is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

from placewright.formulations.gang.compile import compile_round
from placewright.formulations.gang.moving.quickly import quickly
from placewright.formulations.gang.placing.naming import candidate
from placewright.formulations.geo.regions import Part
from placewright.formulations.session import Candidate, Session
from placewright.instances.round import Round
from placewright.rounds.settings import Settings
from placewright.rounds.usage import Meter
from placewright.rounds.within import steps_within

LARGE = 20_000
"""Jobs times hosts of a region that is decided without a solver."""

GRACE = 30.0
"""Seconds that a worker may take beyond its own before it is given up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A region's best plan, counted as its own round does; None if there is none but to wait."""

    candidate: Candidate | None
    degraded: tuple[str, ...] = ()
    wall_stopped: bool = False


def decide_part(round_: Round, settings: Settings) -> Answer:
    """Decide a region's round of gangs on its own: in another process, or on another machine."""
    with settings.session(Meter()) as session:
        return _decide(round_, session)


def _decide(round_: Round, session: Session) -> Answer:
    """Return the best plan for a region."""
    problem = compile_round(round_)
    found: Candidate | None = None
    if len(round_.jobs) * problem.cluster.num_hosts > LARGE:
        # The whole plan is verified anyway.
        found = candidate(quickly(problem, session), "quickly")
    else:
        for step in steps_within(round_, session, problem):
            if isinstance(step, Candidate):
                found = step
    return Answer(found, tuple(session.degraded), session.wall_stopped)


class Parts:
    """Decides the rounds of regions; an `executor` does it elsewhere, None does it here."""

    def __init__(self, settings: Settings, executor: Executor | None) -> None:
        self._settings, self._executor = settings, executor

    def __call__(self, parts: Sequence[Part], session: Session) -> Iterator[Answer]:
        """Yield the answers for some regions, in their order."""
        if self._executor is None:
            for k, part in enumerate(parts):
                yield self._here(part, session, len(parts) - k)
            return
        end = time.monotonic() + session.remaining() + GRACE
        asked = [self._ask(self._executor, part, session) for part in parts]
        for k, (part, future) in enumerate(zip(parts, asked, strict=True)):
            answer = None if future is None else self._told(future, end, session)
            yield self._here(part, session, len(parts) - k) if answer is None else answer

    def _ask(self, executor: Executor, part: Part, session: Session) -> Future[Answer] | None:
        seconds = max(0.0, session.remaining()) / 2
        settings = replace(self._settings, seconds=seconds, isolation="none")
        try:
            return executor.submit(decide_part, part.round, settings)
        except RuntimeError as error:
            # A pool whose process died takes nothing more.
            session.degraded.append(f"executor: {type(error).__name__}: {error}")
            return None

    def _told(self, future: Future[Answer], end: float, session: Session) -> Answer | None:
        try:
            answer = future.result(timeout=max(0.0, end - time.monotonic()))
        except Exception as error:  # noqa: BLE001
            session.degraded.append(f"executor: {type(error).__name__}: {error}")
            return None
        session.degraded += answer.degraded
        session.wall_stopped |= answer.wall_stopped
        return answer

    def _here(self, part: Part, session: Session, left: int) -> Answer:
        """Decide a region here, with its part of the time that is left."""
        inner = replace(session, best=None, first_bound=None, proven=False)
        if not session.deterministic:
            inner.deadline = time.monotonic() + max(0.0, session.remaining()) / (left + 1)
        answer = _decide(part.round, inner)
        session.wall_stopped |= answer.wall_stopped and session.deterministic
        return answer
