"""Ways to decide a round that placewright is compared with; each plan is verified before it counts.

`greedy` is placewright stopped before any solver. `literal` gives the host-indexed model, one
integer per task shape (or gang) and host, to one solver as it is: no host classes, no patterns, no
repair, and the first objective term only, with the whole time limit for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.report import SKIPPED
from placewright import Plan, Round, solve_round, verify
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.models.host.model import build_host_model, num_task_variables
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.rows import add_gpus
from placewright.formulations.gang.models.host.solve import start_jobs
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.plan import Certificate
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.sections.moves import move_section
from placewright.solver import Limits, Status, Worker

__all__ = [
    "GAP",
    "MAX_CELLS",
    "Answer",
    "InvalidPlanError",
    "greedy",
    "greedy_preemption",
    "literal",
    "of_certificate",
    "of_plan",
]

GAP = 1e-4
"""Relative gap at which every method may stop: that of a round without limits of its own."""

MAX_CELLS = 200_000
"""Most variables of a literal model that is tried."""


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


def greedy(seconds: float, round: Round) -> Answer:  # noqa: A002, ARG001
    """Decide with placewright's greedy alone; it needs no limit, and its bound is trivial."""
    return of_plan(round, solve_round(round, time_limit=0.0))


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
    began = time.monotonic()
    problem = compile_round(round)
    term = problem.terms[0]
    if (cells := num_task_variables(problem)) > MAX_CELLS:
        note = f"{cells:,} variables; at most {MAX_CELLS:,} were expected"
        return Answer(SKIPPED, term, note=note)
    problem = replace(problem, terms=(term,))
    placement = Placement(problem, cleared=True)
    hosts = np.arange(problem.cluster.num_hosts)
    model = build_host_model(problem, placement, hosts, problem.num_pending, list(problem.running))
    slots = add_gpus(model)
    add_preemption(model)
    add_terms(model)
    with Worker() as worker:
        left = max(0.0, seconds - (time.monotonic() - began))
        limits = Limits(seconds=left, gap=GAP, memory_mib=round.limits.memory_mib)
        arrays = model.model.arrays(term)
        if backend == "cp-sat":  # It has integers only: indicators that follow from them are, too.
            arrays = replace(arrays, integer=np.ones_like(arrays.integer))
        outcome = worker.solve(backend, arrays, limits)
    bound = None if outcome.bound is None else problem.round_bound(term, outcome.bound)
    if outcome.values is None:
        return Answer(outcome.status.value, term, None, bound, outcome.message)
    start_jobs(model, slots, outcome.values, placement)
    value = _value_of(round, problem, placement, backend)
    if outcome.status is Status.FEASIBLE:
        status = "feasible"
    else:
        status = "optimal" if value == bound else "within_gap"
    return Answer(status, term, value, bound, outcome.message)


def greedy_preemption(round: Round) -> Answer:  # noqa: A002
    """Insert waiting jobs by priority, then value per GPU, where lawful victims cost least.

    Placewright's own insertion, without any model after it, and without a bound.
    """
    problem = compile_round(round)
    placement = Placement(problem)
    priorities = [
        max((round.jobs[job].priority for job in job_class.jobs), default=0)
        for job_class in problem.classes
    ]
    for priority in sorted(set(priorities), reverse=True):
        later = [
            n if p < priority else 0 for n, p in zip(placement.waiting, priorities, strict=True)
        ]
        placement.waiting = [n - m for n, m in zip(placement.waiting, later, strict=True)]
        displace_greedily(placement)
        placement.waiting = [n + m for n, m in zip(placement.waiting, later, strict=True)]
    value = _value_of(round, problem, placement, "greedy preemption")
    return Answer("feasible", problem.terms[0], value)


def _value_of(round_: Round, problem: Problem, placement: Placement, source: str) -> int:
    """Return the value of a placement in the first term, verified as a plan."""
    repair_preemptions(placement)
    found = assign(placement, source)
    decisions = decisions_of(round_, problem.cluster.hosts, DefaultDecisions()(round_), found)
    moves = move_section(round_, decisions)
    plan = Plan(decisions=decisions, sections=() if moves is None else (moves,))
    return _verified(round_, plan)[problem.terms[0]]


def _verified(round_: Round, plan: Plan) -> dict[str, int]:
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    return verification.terms
