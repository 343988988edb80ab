"""Baselines of the public benchmark as answers; each plan is verified before it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.report import SKIPPED
from placewright import Plan, Round, verify
from placewright.instances.documents.plan import Certificate
from placewright.rounds.benchmark import baselines
from placewright.rounds.benchmark.baselines import GAP, Attempt
from placewright.solver import Status

__all__ = [
    "GAP",
    "Answer",
    "InvalidPlanError",
    "greedy_preemption",
    "literal",
    "of_certificate",
    "of_plan",
]


class InvalidPlanError(Exception):
    """A plan broke a rule."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method says of the first objective term of a round.

    `status` is `optimal`, `within_gap`, `feasible`, `no_solution`, `failed` or `skipped`. `value`
    is recomputed from a verified plan, `bound` is the method's own. `note` says why, where there is
    something to say. `figures` are further ones to report, by the title of their column.
    """

    status: str
    term: str
    value: int | None = None
    bound: float | None = None
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


def of_plan(round: Round, plan: Plan) -> Answer:  # noqa: A002
    """Answer with a plan that has a certificate, of which only the bound is taken as it is.

    Raises
    ------
    InvalidPlanError
        If the plan breaks a rule or has no certificate.
    """
    if plan.certificate is None:
        raise InvalidPlanError("the plan has no certificate; value and bound were expected")
    _verified(round, plan)
    return of_certificate(plan.certificate)


def of_certificate(certificate: Certificate) -> Answer:
    """Answer with the certificate of a plan that was verified, which covers the values in it."""
    first = certificate.terms[0]
    if first.gap is None or first.gap > GAP:
        status = "feasible"
    else:
        status = "within_gap" if first.gap else "optimal"
    note = "; ".join(certificate.degraded)
    return Answer(status, first.name, first.value, first.bound, note)


def literal(backend: str, seconds: float, round: Round) -> Answer:  # noqa: A002
    """Decide with the host-indexed model and one solver; building the model is part of the limit.

    Raises
    ------
    InvalidPlanError
        If the plan breaks a rule.
    """
    attempt = baselines.literal(backend, round, seconds)
    if attempt is None:
        note = f"more than {baselines.MAX_CELLS:,} variables"
        return Answer(SKIPPED, round.policy.terms[0], note=note)
    return _of_attempt(round, attempt)


def greedy_preemption(round: Round) -> Answer:  # noqa: A002
    """Insert waiting jobs where lawful victims cost least, without a bound."""
    return _of_attempt(round, baselines.greedy_preemption(round))


def _of_attempt(round_: Round, attempt: Attempt) -> Answer:
    """Answer with what a baseline found; it is optimal if its solver stopped before the limit."""
    term = round_.policy.terms[0]
    if attempt.plan is None:
        return Answer(attempt.status, term, None, attempt.bound, attempt.note)
    value = _verified(round_, attempt.plan)[term]
    if attempt.status == Status.FEASIBLE.value:
        status = "feasible"
    else:
        status = "optimal" if value == attempt.bound else "within_gap"
    return Answer(status, term, value, attempt.bound, attempt.note)


def _verified(round_: Round, plan: Plan) -> dict[str, int]:
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    return verification.terms
