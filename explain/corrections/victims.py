"""The cheapest lawful moves and preemptions that start a waiting job, by `minimal_victims`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from placewright.explain.search import SearchOptions
from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.presets.presets import minimal_victims
from placewright.instances.verify import verify
from placewright.rounds import solve_round


@dataclass(frozen=True, slots=True)
class Victims:
    """Running jobs that move or stop for a job, and what that disrupts.

    Parameters
    ----------
    migrated, preempted
        Names of jobs, in the order of the round.
    disruption
        Of the moves and preemptions, as of the term, in milli-GPU-seconds.
    at_least
        A bound on the disruption by which an option of this value starts; None without one. No
        cheaper way is possible if it is `disruption`.
    plan
        A plan of the given round that `verify` accepts: no other pending job starts.
    """

    migrated: tuple[str, ...]
    preempted: tuple[str, ...]
    disruption: int
    at_least: float | None
    plan: Plan


def cheapest_victims(
    round_: Round,
    job: str,
    **search: Unpack[SearchOptions],
) -> Victims | None:
    """Return the cheapest moves and preemptions that let a job start; None if none was found.

    Parameters
    ----------
    round_
        A round of gangs that `check_round` accepts.
    job
        Name of a pending job.
    search
        As of `solve_round`.

    Raises
    ------
    InvalidInputError
        As of `minimal_victims`.
    """
    solved = solve_round(
        minimal_victims(round_, job),
        gap=0.0,
        **search,
    )
    known = {decision.job: decision for decision in solved.decisions}
    if known[job].decision is not DecisionKind.START or solved.certificate is None:
        return None
    plan = solved.model_copy(
        update={
            "round": None,
            "certificate": None,
            "decisions": tuple(
                known.get(one.name) or Decision(job=one.name, decision=DecisionKind.WAIT)
                for one in round_.jobs
            ),
        }
    )
    # Beside other pending jobs it may be less entitled than without them.
    if not verify(round_, plan).ok:
        return None
    disruption = next(term for term in solved.certificate.terms if term.name == "disruption")
    return Victims(
        migrated=_named(plan, DecisionKind.MIGRATE),
        preempted=_named(plan, DecisionKind.PREEMPT),
        disruption=disruption.value,
        at_least=disruption.bound,
        plan=plan,
    )


def _named(plan: Plan, kind: DecisionKind) -> tuple[str, ...]:
    return tuple(one.job for one in plan.decisions if one.decision is kind)
