"""Proof of a conflict: a bound by which its world has no plan, and a plan for each fact removed.

Neither is taken from the oracle: the bound is that of `prove_bounds` for the plan in which nothing
happens, and each plan passes `verify` in the world of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placewright.explain.facts.fact import Fact, World
from placewright.explain.facts.policies import FACTS, says_yes
from placewright.explain.oracle import Proof, SolvingOracle, proof_of_best
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify


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
