"""The independent check of a plan.

It reads documents and names only, shares no code with the formulations, and recomputes every
objective term from the round and the plan alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.plan import Certificate, Plan
from placewright.instances.round import Round
from placewright.instances.verify import (
    arrangement,
    arrivals,
    capacity,
    cells,
    certificate,
    communication,
    conflicts,
    data_copies,
    data_flows,
    data_homes,
    data_jobs,
    data_reads,
    data_sections,
    decisions,
    groups,
    leases,
    levels,
    moves,
    parts,
    preemption,
    promises,
    quotas,
    refusals,
    sections,
    shares,
    tasks,
    turns,
    waiting,
)
from placewright.instances.verify.data_sections import with_data
from placewright.instances.verify.leases import with_promises
from placewright.instances.verify.reading import Reading, read
from placewright.instances.verify.result import Rule, Verification, Violation
from placewright.instances.verify.terms import TERMS
from placewright.instances.verify.together import with_groups

__all__ = ["RULE_IDS", "Verification", "Violation", "verify", "verify_certificate"]

_PLAN_RULES: tuple[Rule[Reading], ...] = (
    Rule("same_round", certificate.same_round),
    *decisions.RULES,
    *tasks.RULES,
    *capacity.RULES,
    *parts.RULES,
    *conflicts.RULES,
    *arrivals.RULES,
    *levels.RULES,
    *arrangement.RULES,
    *quotas.RULES,
    *preemption.RULES,
    *cells.RULES,
    *sections.RULES,
    *moves.RULES,
    *communication.RULES,
    *shares.RULES,
    *groups.RULES,
    *turns.RULES,
    *leases.RULES,
    *promises.RULES,
    *refusals.RULES,
    *data_sections.RULES,
    *data_jobs.RULES,
    *data_reads.RULES,
    *data_homes.RULES,
    *data_copies.RULES,
    *data_flows.RULES,
    *waiting.RULES,
)

RULE_IDS = tuple([rule.id for rule in _PLAN_RULES] + [rule.id for rule in certificate.RULES])
"""The ids of all rules, in the order in which `verify` applies them."""


def verify(round: Round, plan: Plan) -> Verification:  # noqa: A002
    """Check a plan against its round, rule by rule, and recompute its objective terms.

    Parameters
    ----------
    round
        A round that `references.check_round` accepts, as the loaders return it.
    plan
        Any plan, also one that another scheduler made.

    Returns
    -------
    Verification
        The broken rules, and every term of the round's policy.

    Notes
    -----
    Time and memory grow with jobs, tasks and hosts, not with GPUs.
    """
    reading = with_data(with_promises(with_groups(read(round, plan))))
    terms: dict[str, int] = {}
    for name in round.policy.terms:
        if name == shares.TERM:
            terms |= shares.sums(reading)
        else:
            terms[name] = TERMS[name].recompute(reading)
    violations = [found for rule in _PLAN_RULES for found in rule.violations(reading)]
    if plan.certificate is not None:
        violations += verify_certificate(plan.certificate, terms)
    return Verification(tuple(violations), terms)


def verify_certificate(claimed: Certificate, terms: Mapping[str, int]) -> list[Violation]:
    """Check what a certificate says against the terms that `verify` recomputed for its plan."""
    claim = certificate.Claim(claimed, terms)
    return [found for rule in certificate.RULES for found in rule.violations(claim)]
