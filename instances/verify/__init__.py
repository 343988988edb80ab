"""The independent check of a plan.

It imports nothing of formulations and solvers, and recomputes every rule and every objective term
from the round and the plan alone. What it shares with them are the documents and their units, what
a host entry and a range of hosts stand for, and the tables of hardware in `topology`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placewright.first_use import on_first_use
from placewright.instances.checks.round import checked
from placewright.instances.documents.plan import Certificate, Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import certificate
from placewright.instances.verify.policies import RULES, PolicyRules, policy_rules
from placewright.instances.verify.reading import (
    ClassTerm,
    GeoFacts,
    Reading,
    read,
    read_cluster,
    read_geo,
)
from placewright.instances.verify.result import Rule, Verification, Violation
from placewright.instances.verify.rules import cells
from placewright.instances.verify.rules.gang import (
    collectives,
    decisions,
    limits,
    places,
    preemption,
)

if TYPE_CHECKING:
    from placewright.instances.verify.refusal_reasons import RefusalReason, RefusalReasons

__getattr__ = on_first_use(__name__, {"refusal_reasons": ("RefusalReason", "RefusalReasons")})

__all__ = [
    "GeoFacts",
    "RefusalReason",
    "RefusalReasons",
    "Verification",
    "Violation",
    "breaks",
    "class_terms",
    "read_cluster",
    "read_geo",
    "rule_ids",
    "terms_of",
    "unverified",
    "verify",
    "verify_certificate",
]

NO_CLASSES: Mapping[str, ClassTerm] = MappingProxyType({})

_PLAN_RULES: tuple[Rule[Reading], ...] = (
    Rule("same_round", certificate.same_round),
    *decisions.RULES_OF_DECISIONS,
    *places.RULES_OF_TASKS,
    *places.RULES_OF_CAPACITY,
    *places.RULES_OF_GPU_PARTS,
    *places.RULES_OF_ARRIVALS,
    *places.RULES_OF_LEVELS,
    *places.RULES_OF_ARRANGEMENT,
    *limits.RULES_OF_QUOTAS,
    *limits.RULES_OF_CAPS,
    *limits.RULES_OF_POOLS,
    *preemption.RULES_OF_PREEMPTION,
    *cells.RULES_OF_CELLS,
    *cells.RULES_OF_REASONS_OF_CELLS,
    *certificate.RULES_OF_SECTIONS,
    *decisions.RULES_OF_MOVES,
    *limits.RULES_OF_DISRUPTION_BUDGET,
    *collectives.RULES_OF_COLLECTIVES,
    *limits.RULES_OF_SHARES,
)


def all_rules() -> tuple[Rule[Any], ...]:
    """Return all rules: of plans, those of single policies, and of certificates."""
    return (*_PLAN_RULES, *policy_rules(), *certificate.RULES_OF_CERTIFICATES)


def rule_ids() -> tuple[str, ...]:
    """Return the ids of all rules."""
    return tuple(rule.id for rule in all_rules())


def verify(round: Round, plan: Plan) -> Verification:  # noqa: A002
    """Check a plan against its round, rule by rule, and recompute its objective terms.

    Parameters
    ----------
    round
        Any round; of one that was read leniently it is found out again which jobs are invalid.
    plan
        Any plan, also one that another scheduler made. Jobs that wait may be left out.

    Returns
    -------
    Verification
        The broken rules, and every term of the round's policy.

    Raises
    ------
    InvalidInputError
        If the round makes no sense, or the plan is none.

    Notes
    -----
    Time and memory grow with jobs, tasks and hosts, not with GPUs.
    """
    round = checked(round)  # noqa: A001
    if not isinstance(plan, Plan):
        raise InvalidInputError("expected a Plan", ("plan",), plan)
    policy = RULES[round.policy.formulation]
    reading = policy.read(read(round, _with_waiting(round, plan)))
    terms = _terms(policy, reading)
    rules = (*_PLAN_RULES, *policy.rules)
    violations = [found for rule in rules for found in rule.violations(reading)]
    if plan.certificate is not None:
        violations += verify_certificate(plan.certificate, terms, policy.classes(reading.round))
    return Verification(tuple(violations), terms)


def terms_of(round_: Round, plan: Plan) -> dict[str, int]:
    """Return the objective terms of a plan, whether or not it breaks a rule; `verify` has both.

    It costs a small part of that. A plan has its terms whomever a preempted job names in
    `displaced_by`, and whatever reason one that waits has.
    """
    policy = RULES[round_.policy.formulation]
    return _terms(policy, policy.read(read(round_, plan)))


def breaks(round_: Round, plan: Plan, ids: Collection[str]) -> bool:
    """Whether a plan breaks one of some rules, by their ids; `verify` asks them all."""
    policy = RULES[round_.policy.formulation]
    reading = policy.read(read(round_, plan))
    asked = (rule for rule in (*_PLAN_RULES, *policy.rules) if rule.id in ids)
    return any(True for rule in asked for _ in rule.violations(reading))


def _terms(policy: PolicyRules, reading: Reading) -> dict[str, int]:
    terms: dict[str, int] = {}
    for name in reading.round.policy.terms:
        found = policy.terms[name](reading)
        terms |= {name: found} if isinstance(found, int) else found
    return terms


def _with_waiting(round_: Round, plan: Plan) -> Plan:
    """Return a plan with decisions, after all others, of the pending jobs that it leaves out."""
    decided = {decision.job for decision in plan.decisions}
    left_out = tuple(
        Decision.model_construct(job=job.name, decision=DecisionKind.WAIT)
        for job in round_.jobs
        if job.running is None and job.name not in decided
    )
    if not left_out:
        return plan
    return plan.model_copy(update={"decisions": (*plan.decisions, *left_out)})


def class_terms(round_: Round) -> Mapping[str, ClassTerm]:
    """Return the terms of the priority classes of a round; {} where no term is written out."""
    return RULES[round_.policy.formulation].classes(round_)


def unverified(plan: Plan) -> tuple[str, ...]:
    """Return the paths of what `verify` has nothing to compare with, or takes as it is claimed.

    That is the round if the plan does not name it, the certificate if there is none, and bounds:
    the value must not beat one, but nothing here proves it.
    """
    found = [] if plan.round is not None else ["round"]
    if plan.certificate is None:
        return (*found, "certificate")
    terms = enumerate(plan.certificate.terms)
    return (*found, *(f"certificate.terms[{i}].bound" for i, t in terms if t.bound is not None))


def verify_certificate(
    claimed: Certificate, terms: Mapping[str, int], classes: Mapping[str, ClassTerm] = NO_CLASSES
) -> list[Violation]:
    """Check what a certificate says against the terms that `verify` recomputed for its plan.

    `classes` has those of priority classes, as `class_terms` returns them for the round.
    """
    claim = certificate.Claim(claimed, terms, classes)
    return [found for rule in certificate.RULES_OF_CERTIFICATES for found in rule.violations(claim)]
