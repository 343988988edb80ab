"""Conflicts: minimal sets of facts that keep a job from starting, by QuickXplain; their proof."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Literal, Protocol, Self, TypeAlias, TypeVar, Unpack

from placewright.collection import no_collection
from placewright.explain.facts.fact import FACTS, Fact, World, says_yes
from placewright.explain.search import SearchOptions
from placewright.formulations.gang import run as gang
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import prove_bounds
from placewright.rounds.deciders.base import Memory
from placewright.rounds.settings import Settings, Solver
from placewright.rounds.solve import Solve
from placewright.solver import Worker

# QuickXplain: a minimal subset that has a monotone property, the first items preferred.
#
# References
# ----------
# Junker, "QuickXplain: Preferred explanations and relaxations for over-constrained problems", AAAI
# 2004.


T = TypeVar("T")


def minimal_subset(
    items: Sequence[T],
    holds: Callable[[Sequence[T]], bool | None],
    *,
    background: Sequence[T] = (),
    accepts: Callable[[T], bool] = lambda _: True,
) -> list[T] | None:
    """Return a minimal subset that has a property with the background; all items together do.

    It leaves out the last item if any such subset does, then the one before it, and so on. For k of
    n items the property is asked of about k log(n/k) subsets.

    Parameters
    ----------
    items
        In the order of preference.
    holds
        Monotone: a set has the property if a part of it has. None, not known, counts as False.
    background
        Items that are in every set.
    accepts
        Asked of each item of the subset once it is found: if one is refused, the search ends and
        there is None.
    """

    def among(known: Sequence[T], added: Sequence[T], rest: Sequence[T]) -> list[T]:
        if added and holds(known):
            return []
        if len(rest) == 1:
            if not accepts(rest[0]):
                raise _RefusedError
            return [*rest]
        half = len(rest) // 2
        first, second = rest[:half], rest[half:]
        of_second = among([*known, *first], first, second)
        of_first = among([*known, *of_second], of_second, first)
        return [*of_first, *of_second]

    try:
        return [] if not items or holds(background) else among(background, (), items)
    except _RefusedError:
        return None


def up_to(most: int) -> Callable[[object], bool]:
    """Return what accepts so many items and refuses all further ones."""
    numbers = count(1)
    return lambda _: next(numbers) <= most


class _RefusedError(Exception):
    """An item of the subset is refused."""


# Oracles: whether the waiting job of a world starts if nobody else moves or stops.


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
        isolation = self._search.get("isolation", "auto")
        return prove_bounds(trusted(question), plan, time_limit=self.left(), isolation=isolation)

    def left(self) -> float:
        """Return the seconds that are left for questions."""
        return self._deadline - time.monotonic()

    @property
    def search(self) -> SearchOptions:
        """The options of a search for which all the time is that is left."""
        return self._search | {"time_limit": self.left()}


# Conflicts: minimal sets of facts that keep a job from starting, by QuickXplain.
#
# Of all conflicts the **preferred** one leaves out the last fact if any conflict does, then the
# one before it, and so on. With facts in the order of their strata it needs the least lasting
# ones least.


MAX_SENTENCES = 8
"""Sentences of a conflict, beyond which no group falls apart."""

Blocked: TypeAlias = Callable[[Sequence[Fact]], bool | None]
"""Whether the job does not start where only some facts hold; None: that is not known."""

BlockedIn: TypeAlias = Callable[[Sequence[Fact], Sequence[Fact]], bool | None]
"""The same of a universe, all other facts of which do not hold."""


def preferred_conflict(facts: Sequence[Fact], blocked: Blocked) -> list[Fact]:
    """Return the preferred conflict of facts that together block.

    Parameters
    ----------
    facts
        In the order of preference.
    blocked
        Monotone. What is not known counts as not blocked: the facts that are returned block in any
        case; they are minimal and preferred if all was known.
    """
    return minimal_subset(facts, blocked) or []


def fall_apart(
    universe: Sequence[Fact], conflict: Sequence[Fact], blocked: BlockedIn
) -> tuple[list[Fact], list[Fact]]:
    """Return universe and conflict with groups fallen apart into parts that are all needed.

    A part is needed if all other parts and sentences without it do not block. So none is named in
    whose place another one would do, and no conflict has more than `MAX_SENTENCES` by that.

    Parameters
    ----------
    universe
        Facts in the order of preference.
    conflict
        A conflict of these facts.
    """
    universe, conflict = [*universe], [*conflict]
    waiting = [fact for fact in conflict if fact.partitions is not None]
    while waiting:
        whole = waiting.pop(0)
        for parts in whole.partitions(conflict) if whole.partitions is not None else ():
            finer = _replaced(universe, whole, parts)
            rest = [fact for fact in conflict if fact is not whole]
            named = [*parts] if len(parts) == 1 else _needed(finer, rest, parts, blocked)
            if named is not None:
                universe, conflict = finer, _replaced(conflict, whole, named)
                waiting += [part for part in named if part.partitions is not None]
                break
    return universe, conflict


def _needed(
    universe: Sequence[Fact], rest: Sequence[Fact], parts: Sequence[Fact], blocked: BlockedIn
) -> list[Fact] | None:
    """Return the parts that block with the rest if each of them is needed, else None."""
    found: list[Fact] = []

    def is_needed(part: Fact) -> bool:
        found.append(part)
        if len(rest) + len(found) > MAX_SENTENCES:
            return False
        others = [fact for fact in (*rest, *parts) if fact is not part]
        return blocked(universe, others) is False

    needed = minimal_subset(
        parts, lambda kept: blocked(universe, kept), background=rest, accepts=is_needed
    )
    return needed or None


def _replaced(facts: Sequence[Fact], whole: Fact, parts: Sequence[Fact]) -> list[Fact]:
    return [part for fact in facts for part in (parts if fact is whole else (fact,))]


# Proof of a conflict: a bound by which its world has no plan, and a plan for each fact removed.
#
# Neither is taken from the oracle: the bound is that of `prove_bounds` for the plan in which
# nothing happens, and each plan passes `verify` in the world of its own.


@dataclass(frozen=True, slots=True)
class Witness:
    """A plan that starts the job in a world; None if none was found in time."""

    world: World
    plan: Plan | None


@dataclass(frozen=True, slots=True)
class ConflictProof:
    """What is proven of a conflict.

    Parameters
    ----------
    blocked
        The proof of the bound by which nothing starts the job in the conflict's world.
    witnesses
        Of each fact of the conflict, the world without it and a verified plan there.
    """

    blocked: Proof | None
    witnesses: tuple[Witness, ...]

    @property
    def minimal(self) -> bool:
        """Whether the job starts without any one of the facts."""
        return all(witness.plan is not None for witness in self.witnesses)


def question_of(world: World) -> Round:
    """Return the round whose best plan tells whether the job of a world starts."""
    return FACTS[world.base.policy.formulation].question(world)


def prove(
    conflict: Sequence[Fact], world: Callable[[Sequence[Fact]], World], solving: SolvingOracle
) -> ConflictProof:
    """Prove a conflict as far as the time allows.

    Parameters
    ----------
    world
        Of the facts that hold.
    solving
        Finds the plans; its answers are not believed.
    """
    witnesses = []
    for fact in conflict:
        without = world([one for one in conflict if one is not fact])
        witnesses.append(Witness(without, plan_that_starts(without, solving)))
    return ConflictProof(_bound_of_none(world(conflict), solving), tuple(witnesses))


def plan_that_starts(world: World, solving: SolvingOracle) -> Plan | None:
    """Return a plan of the question's round that starts the job and passes `verify`."""
    question = question_of(world)
    plan = solving.best(question, world.job).plan
    if plan is None or not says_yes(question, plan, world.job):
        return None
    # Of a witness neither the certificate counts nor the digest, which takes as long as the rules.
    bare = plan.model_copy(update={"round": None, "certificate": None})
    return plan if verify(question, bare).ok else None


def _bound_of_none(world: World, solving: SolvingOracle) -> Proof | None:
    """Return the proof of a bound by which no plan starts the job; None without such a bound."""
    relaxed = FACTS[world.base.policy.formulation].relaxed(world)
    for question in (relaxed, question_of(world)):
        if question is not None and (proof := _bound_of(question, world.job, solving)):
            return proof
    return None


def _bound_of(question: Round, job: str, solving: SolvingOracle) -> Proof | None:
    answer = solving.best(question, job)
    if answer.plan is None or answer.starts or solving.left() <= 0:
        return None
    return proof_of_best(solving.bounds(question, answer.plan))
