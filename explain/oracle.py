"""Oracles: whether the waiting job of a world starts if nobody else moves or stops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, Self, Unpack

from placewright.collection import no_collection
from placewright.explain.facts.fact import World
from placewright.explain.facts.policies import FACTS, says_yes
from placewright.explain.search import SearchOptions
from placewright.formulations.gang import run as gang
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.rounds import prove_bounds
from placewright.rounds.settings import Settings, Solver
from placewright.rounds.solve import Solve
from placewright.rounds.state.memory import Memory
from placewright.solver import Worker

Proof = Literal["certified", "claimed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a job starts in a world: None if that is not known.

    `plan` starts it in the question's round; `proof` is that of the bound by which nothing does.
    """

    starts: bool | None
    plan: Plan | None = None
    proof: Proof | None = None


def proof_of_best(terms: Sequence[TermResult]) -> Proof | None:
    """Return the proof by which no plan is better in any term; None without one."""
    if any(term.bound != term.value for term in terms):
        return None
    return "claimed" if any(term.proof == "claimed" for term in terms) else "certified"


class Oracle(Protocol):
    """Answers questions about the worlds of one base round."""

    def start(self, world: World) -> Answer:
        """Return whether the job of a world starts."""
        ...


class SolvingOracle:
    """Asks by solving the question's round, as of any policy; `opened` ends its solver."""

    def __init__(self, seconds: float, search: SearchOptions) -> None:
        self._search, self._deadline = search, time.monotonic() + seconds
        self._solver: Solver | None = None

    @classmethod
    @contextmanager
    def opened(cls, round_: Round, **search: Unpack[SearchOptions]) -> Iterator[Self]:
        """Open an oracle whose solver process is ended with it; all its questions share the time.

        Without a time limit that is the one of a round.

        Raises
        ------
        InvalidInputError
            If an option is out of its range.
        """
        oracle = cls(Settings.of(round_, **search).seconds, search)
        try:
            yield oracle
        finally:
            if isinstance(oracle._solver, Worker):
                oracle._solver.close()

    def start(self, world: World) -> Answer:
        """Return whether the job of a world starts; not known once the time is over."""
        policy = FACTS[world.base.policy.formulation]
        relaxed = policy.relaxed(world)
        if relaxed is not None and (answer := self.best(relaxed, world.job)).starts is False:
            return answer
        return self.best(policy.question(world), world.job)

    def best(self, question: Round, job: str) -> Answer:
        """Answer the round of a question by its best plan and the bounds of all its terms."""
        if self.left() <= 0:
            return Answer(None)
        settings = Settings.of(question, gap=0.0, **self.search)
        if self._solver is None:
            self._solver = settings.solver()
        with no_collection():
            plan = Solve(question, settings, None, Memory(), gang.run).plan(self._solver)
        if plan.certificate is None:
            return Answer(None)
        if says_yes(question, plan, job):
            return Answer(True, plan)
        proof = proof_of_best(plan.certificate.terms)
        return Answer(None, plan) if proof is None else Answer(False, plan, proof)

    def bounds(self, question: Round, plan: Plan) -> tuple[TermResult, ...]:
        """Return the terms of a plan with bounds that are proven afresh."""
        isolation = self._search.get("isolation", "process")
        return prove_bounds(trusted(question), plan, time_limit=self.left(), isolation=isolation)

    def left(self) -> float:
        """Return the seconds that are left for questions."""
        return self._deadline - time.monotonic()

    @property
    def search(self) -> SearchOptions:
        """The options of a search for which all the time is that is left."""
        return self._search | {"time_limit": self.left()}
