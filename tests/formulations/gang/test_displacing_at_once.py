"""Displacement before any model, whose plan remains unless that by model is better, or after it."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright.formulations import session as sessions
from placewright.formulations.common.phases import run_phases
from placewright.formulations.gang.heuristics import migration
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.heuristics.migration import DISPLACEMENT
from placewright.formulations.gang.heuristics.search import Search
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
from placewright.solver import Arrays, InProcess, Limits, Outcome, Status

LIMIT = 500.0
SEEDS = range(3)


@pytest.fixture(autouse=True)
def no_exact_model(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)


def busy(seed: int) -> Round:
    """A round in which the greedy leaves value to those that displace others."""
    return generate_round(128, 60, mix="hard", seed=seed)


def displaced(problem: Problem) -> Placement:
    placement = Placement(problem)
    displace_greedily(placement)
    repair_preemptions(placement)
    insert_gangs(Session(InProcess().solve, deadline=time.monotonic() + LIMIT), placement)
    return placement


def filled(problem: Problem) -> Placement:
    placement = Placement(problem)
    fill_by_policy(placement)
    return placement


def value_of(round_: Round) -> float:
    plan = solve_round(round_, time_limit=LIMIT, isolation="none")
    assert plan.certificate is not None
    return plan.certificate.terms[0].value


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_relaxation_that_takes_all_of_the_time_costs_nothing(
    seed: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that takes twice that, if displacement came before it."""
    set_parameters(monkeypatch, "insertion", ample_pairs_per_second=0 if at_once else 10**9)
    clock = SimpleNamespace(now=time.monotonic())

    def solve(_self: InProcess, _backend: str, _arrays: Arrays, limits: Limits, *_: Any) -> Outcome:
        clock.now += 2 * LIMIT if at_once else limits.seconds
        return Outcome(Status.NO_SOLUTION)

    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(InProcess, "solve", solve)
    problem = compile_round(busy(seed))
    assert value_of(busy(seed)) >= displaced(problem).value > filled(problem).value


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worse_plan_by_model_does_not_replace_the_incumbent(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, "insertion", ample_pairs_per_second=0)
    monkeypatch.setattr(
        migration, "displace_by_model", lambda *_, **__: Placement(compile_round(busy(seed)))
    )
    repaired: list[float] = []

    def repair(_problem: Problem, _session: Session, placement: Placement) -> list[Candidate]:
        repaired.append(placement.value)
        return []

    monkeypatch.setattr(migration, "large_neighbourhood_search", repair)
    worth = displaced(compile_round(busy(seed))).value
    assert value_of(busy(seed)) >= worth
    assert all(value >= worth for value in repaired)


def test_nothing_is_displaced_at_once_where_that_would_take_much_of_the_time() -> None:
    problem = compile_round(busy(0))
    session = Session(InProcess().solve, deadline=time.monotonic() + LIMIT)
    assert [step.source for step in run_phases(DISPLACEMENT, Search(session, problem))]
    short = replace(session, deadline=time.monotonic() - LIMIT)
    assert [*run_phases(DISPLACEMENT, Search(short, problem))] == []
    part = replace(session, has_plan=True)
    assert [*run_phases(DISPLACEMENT, Search(part, problem))] == []


def test_a_plan_that_the_model_proves_to_be_the_best_needs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_parameters(monkeypatch, "insertion", ample_pairs_per_second=10**9)
    monkeypatch.delattr(migration, "displaced")
    monkeypatch.delattr(migration, "insert_gangs")
    round_ = generate_round(256, 60, mix="easy", seed=3)
    plan = solve_round(round_, time_limit=LIMIT, isolation="none")
    assert plan.certificate is not None
    assert plan.certificate.terms[0].status == "optimal"
    assert plan.certificate.degraded == ()
