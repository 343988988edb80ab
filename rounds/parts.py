"""The rounds of regions, side by side: whoever decides one is told all that it needs, and answers.

A worker that dies costs time and not the plan: what it had is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from math import inf

from placewright.formulations.gang.compile import compile_round
from placewright.formulations.gang.moving.quickly import quickly
from placewright.formulations.gang.placing.naming import candidate
from placewright.formulations.gang.problem import Problem
from placewright.formulations.gang.terms import VALUE
from placewright.formulations.geo.regions import Part
from placewright.formulations.session import Bound, Candidate, Session
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


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A region's round with a plan that needed no solver, and whether a solver might help."""

    problem: Problem
    found: Candidate
    searched: bool


def decide_part(round_: Round, settings: Settings) -> Answer:
    """Decide a region's round of gangs on its own: in another process, or on another machine."""
    with settings.session(Meter()) as session:
        return _end(_begin(compile_round(round_), session), lambda: round_, session)


def _begin(problem: Problem, session: Session) -> _Begun:
    """Decide a region without a solver; one is of use where somebody waits or stops."""
    jobs = problem.round.jobs
    found = candidate(quickly(problem, session), "quickly")
    small = len(jobs) * problem.cluster.num_hosts <= LARGE
    waits = any(job.running is None and j not in found.starts for j, job in enumerate(jobs))
    return _Begun(problem, found, small and (waits or bool(found.preempted)))


def _end(begun: _Begun, document: Callable[[], Round], session: Session) -> Answer:
    """Return the best plan for a region, searched until its value is proven.

    The whole plan is verified anyway; `document` makes the round, which only a search needs.
    """
    found, most = begun.found, inf
    value = _value(begun.problem.round, found)
    for step in _search(begun.problem, document(), session) if begun.searched else ():
        if isinstance(step, Bound):
            most = min(most, step.value) if step.term == VALUE else most
        elif (worth := _value(begun.problem.round, step)) >= value:
            found, value = step, worth
        if value >= most:
            break
    return Answer(found, tuple(session.degraded), session.wall_stopped)


def _search(problem: Problem, round_: Round, session: Session) -> Iterator[Candidate | Bound]:
    return steps_within(round_, session, replace(problem, round=round_))


def _value(round_: Round, found: Candidate) -> int:
    """Return what a plan's starts are worth, less what stops for them."""
    jobs = round_.jobs
    starts = sum(
        jobs[j].value_of(option) for j, (option, _) in found.starts.items() if not jobs[j].running
    )
    stops = ((jobs[j], jobs[j].running) for j in found.preempted)
    return starts - sum(job.value_of(held.option) for job, held in stops if held is not None)


class Parts:
    """Decides the rounds of regions; an `executor` does it elsewhere, None does it here."""

    def __init__(self, settings: Settings, executor: Executor | None) -> None:
        self._settings, self._executor = settings, executor

    def __call__(self, parts: Sequence[Part], session: Session) -> Iterator[Answer]:
        """Yield the answers for some regions, in their order."""
        if self._executor is None:
            yield from self._here(parts, session)
            return
        end = time.monotonic() + session.remaining() + GRACE
        asked = [self._ask(self._executor, part, session) for part in parts]
        for part, future in zip(parts, asked, strict=True):
            answer = None if future is None else self._told(future, end, session)
            yield from self._here([part], session) if answer is None else [answer]

    def _ask(self, executor: Executor, part: Part, session: Session) -> Future[Answer] | None:
        seconds = max(0.0, session.remaining()) / 2
        settings = replace(self._settings, seconds=seconds, isolation="none")
        try:
            return executor.submit(decide_part, part.document(), settings)
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

    def _here(self, parts: Sequence[Part], session: Session) -> Iterator[Answer]:
        """Decide regions here; those that are searched share the time that is left."""
        begun = [_begin(part.gangs(), session) for part in parts]
        left = sum(one.searched for one in begun)
        for one, part in zip(begun, parts, strict=True):
            inner = replace(session, best=None, first_bound=None, proven=False)
            if not session.deterministic:
                inner.deadline = time.monotonic() + max(0.0, session.remaining()) / max(1, left)
            answer = _end(one, part.document, inner)
            left -= one.searched
            session.wall_stopped |= answer.wall_stopped and session.deterministic
            yield answer
