"""Oracles: whether the waiting job of a world starts if nobody else moves or stops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from placewright.collection import no_collection
from placewright.explain.facts.fact import World
from placewright.explain.facts.policies import FACTS, says_yes
from placewright.formulations.gang import run as gang
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.rounds.settings import Isolation, Settings, Solver
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


@dataclass(frozen=True, slots=True)
class Budget:
    """The search limits of one explanation: all its questions share the seconds."""

    seconds: float
    backend: str = "auto"
    seed: int | None = None
    deterministic: bool | None = None
    isolation: Isolation = "process"


class SolvingOracle:
    """Asks by solving the question's round, as of any policy; `opened` ends its solver."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._deadline = time.monotonic() + budget.seconds
        self._solver: Solver | None = None

    @classmethod
    @contextmanager
    def opened(cls, budget: Budget) -> Iterator[Self]:
        """Open an oracle whose solver process is ended with it."""
        oracle = cls(budget)
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
        seconds = self.left()
        if seconds <= 0:
            return Answer(None)
        budget = self.budget
        settings = Settings.of(
            question,
            time_limit=seconds,
            gap=0.0,
            backend=budget.backend,
            seed=budget.seed,
            deterministic=budget.deterministic,
            isolation=budget.isolation,
        )
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

    def left(self) -> float:
        """Return the seconds that are left for questions."""
        return self._deadline - time.monotonic()
