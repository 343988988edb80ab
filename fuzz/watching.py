"""Watched solvers: each bound that they tell on the way is kept, also those that they drop."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

from placewright import Changes, Engine, InvalidInputError
from placewright.formulations.gang.run import run
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.rounds import engine, prove_bounds, solve
from placewright.rounds.deciders.base import Memory
from placewright.rounds.settings import Settings
from placewright.rounds.solve import Solve

MOST_ROUNDS = 4


class Watched(Solve):
    """A round being decided that keeps its bounds, and the plans that were its best on the way.

    `last` is the one begun last.
    """

    last: Watched

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.told: list[Bound] = []
        self.passed: list[Plan] = []
        Watched.last = self

    def _consider(self, candidate: Candidate, session: Session) -> None:
        before = self.best
        super()._consider(candidate, session)
        if self.best is not before:
            self.passed.append(self.document)

    def _tighten(self, bound: Bound, session: Session) -> None:
        self.told.append(bound)
        super()._tighten(bound, session)


def watched(round_: Round, **arguments: Any) -> tuple[Watched, Plan]:
    """Solve a round; return how it was solved, and the plan."""
    solve = Watched(round_, Settings.of(round_, **arguments), None, Memory(), run)
    return solve, solve.plan()


def following(round_: Round, rng: Random, **arguments: Any) -> Iterator[tuple[Watched, Plan]]:
    """Yield three or four rounds of an engine, as solved, with their plans.

    After each a job leaves, and one like some job of the first round comes.
    """
    with patch.object(engine, "Solve", Watched), Engine(round_, **arguments) as rounds:
        plan = rounds.round()
        yield Watched.last, plan
        valid = round_.valid_part().jobs
        for number in range(1, rng.randint(3, MOST_ROUNDS)):
            names = [job.name for job in rounds.state.jobs]
            changes = Changes(
                removed=[rng.choice(names)] if names else [],
                added=[_newcomer(rng.choice(valid), number)] if valid else [],
                now=rounds.state.now + rng.choice((0, round_.leases.length_s)),
            )
            try:
                plan = rounds.round(changes)
            except InvalidInputError:
                # The clock moves into an outage under a job that is pinned, say.
                return
            yield Watched.last, plan


def proven(
    round_: Round, plan: Plan, **arguments: Any
) -> tuple[tuple[TermResult, ...], list[Bound]]:
    """Prove bounds of a plan; return what is proven, and all bounds told on the way."""
    told: list[Bound] = []
    steps = solve._steps

    def keeping(*args: Any) -> Iterator[Candidate | Bound]:
        for step in steps(*args):
            if isinstance(step, Bound):
                told.append(step)
            yield step

    with patch.object(solve, "_steps", keeping):
        return prove_bounds(round_, plan, **arguments), told


def _newcomer(job: Job, number: int) -> Job:
    """Return a pending job that asks what this one asks, without a promise."""
    update: dict[str, Any] = {"name": f"{job.name}-{number}", "running": None}
    if job.deadline is not None:
        update["deadline"] = job.deadline.model_copy(update={"promise": None})
    return job.model_copy(update=update)
