"""No plan beats what hosts prove on which running tasks stay or leave, whatever the duals are."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import by_day, examples
from placewright.formulations.gang.models.aggregate.running_hosts import PLACED, bound_in_place
from placewright.formulations.gang.models.aggregate.solve import (
    MODELLED_TERMS,
    bound_by_relaxation,
    collect_bounds,
    host_pattern_model,
    tasks_per_host,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import HOLD_SLACK
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.solver import InProcess
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves


def session() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 60.0, gap=0.0)


def contested(round_: Round) -> Round:
    """The round with pending jobs that are worth the running ones, which they may preempt."""
    jobs = [
        job if job.running else job.model_copy(update={"priority": 9, "weight": 5})
        for job in round_.jobs
    ]
    policy = Policy(terms=("value", "disruption", "spread", "opened"), priority="preemption")
    contested = round_.model_copy(update={"jobs": tuple(jobs), "policy": policy})
    check_round(contested)
    return contested


def bounds_of(
    round_: Round, values: dict[str, int], rng: np.random.Generator
) -> dict[str, list[float]]:
    """Bounds of the later terms at the duals of their relaxations, and at others."""
    problem = compile_round(round_)
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    if model is None or problem.terms != tuple(values):
        return {}
    model.patterns.add_patterns_of(Placement(problem))
    if problem.terms[0] in MODELLED_TERMS:
        collect_bounds(bound_by_relaxation(session(), *model, problem.terms[0]))
    found: dict[str, list[float]] = {}
    holds: tuple[tuple[str, int], ...] = ()
    for term, value in values.items():
        if term in PLACED:
            arrays = model.aggregate.model.arrays(term, relax=True)
            _, relaxed = collect_bounds(bound_by_relaxation(session(), *model, term, holds))
            arrays = model.aggregate.model.arrays(term, relax=True)
            tried = [rng.normal(0, 10.0**size, arrays.rows) for size in (-1, 1, 3)]
            if relaxed is not None and relaxed.row_duals is not None:
                tried += [relaxed.row_duals, relaxed.row_duals * rng.normal(1, 0.3, arrays.rows)]
            for duals in tried:
                proven = bound_in_place(session(), model.patterns, term, holds, arrays, duals)
                found.setdefault(term, []).extend(bound.value for bound in proven)
        if term in MODELLED_TERMS:
            model.aggregate.model.hold(term, value, HOLD_SLACK)
        holds += ((term, value),)
    return found


@pytest.mark.parametrize("width", by_day([8, 1]))
def test_no_plan_beats_the_bound_of_any_duals(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "models", max_staying_tasks=width)
    seen = [0, 0, 0]  # bounds that say something, that are the optimum; optima above 0

    @settings(
        max_examples=examples(day=4, nightly=200, long=2000),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(
        tiny.running_rounds(whole=True).map(contested) | tiny.running_rounds(whole=True),
        st.randoms(use_true_random=False),
    )
    def check(round_: Round, random: Random) -> None:
        try:
            plans = moves.attainable_with_moves(round_)
        except oracle.TooManyPlansError:
            assume(False)
        rng = np.random.default_rng(random.randrange(1 << 32))
        terms = round_.policy.terms
        for values in (oracle.optimum(round_, plans), random.choice(sorted(plans))):
            found = bounds_of(round_, dict(zip(terms, values, strict=True)), rng)
            for term, bounds in found.items():
                best = oracle.best_given(round_, plans, values, terms.index(term))
                assert max(bounds, default=0.0) <= best, term
                seen[0] += max(bounds, default=0.0) > 0
                seen[1] += max(bounds, default=0.0) == best > 0
                seen[2] += best > 0

    check()
    assert min(seen) >= examples(day=0, nightly=20), seen


def test_stops_are_bound_at_what_each_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, "models", num_stop_cost_steps=1)
    problem = compile_round(generate_round(256, 80, mix="hard", seed=1))
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    first, _ = collect_bounds(bound_by_relaxation(session(), *model, "value"))
    holds = (("value", int(min(bound.value for bound in first))),)
    model.aggregate.model.hold(*holds[0], HOLD_SLACK)
    before, relaxed = collect_bounds(bound_by_relaxation(session(), *model, "disruption", holds))
    assert relaxed is not None
    assert relaxed.row_duals is not None
    arrays = model.aggregate.model.arrays("disruption", relax=True)
    [bound] = bound_in_place(
        session(), model.patterns, "disruption", holds, arrays, relaxed.row_duals
    )
    assert bound.certified
    assert bound.value > 1.1 * max(bound.value for bound in before) > 0


def test_a_move_that_alone_makes_room_is_bound_at_its_cost() -> None:
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(2)]
    costs = {"migrate_cost": 500, "preempt_cost": 900}
    jobs: list[dict[str, Any]] = [
        {
            "name": f"running-{i}",
            "weight": 5,
            "options": [{"groups": [{"gpu": 1}]}],
            "running": {"tasks": [{"host": f"h{i}", "gpus": [0]}], **costs},
        }
        for i in range(2)
    ]
    jobs.append({"name": "job", "priority": 1, "options": [{"groups": [{"gpu": 2}]}]})
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs})
    check_round(round_)
    problem = compile_round(contested(round_))
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    collect_bounds(bound_by_relaxation(session(), *model, "value"))
    holds = (("value", 10_000),)
    model.aggregate.model.hold(*holds[0], HOLD_SLACK)
    before, relaxed = collect_bounds(bound_by_relaxation(session(), *model, "disruption", holds))
    assert relaxed is not None
    assert relaxed.row_duals is not None
    assert max(bound.value for bound in before) == 0
    arrays = model.aggregate.model.arrays("disruption", relax=True)
    [bound] = bound_in_place(
        session(), model.patterns, "disruption", holds, arrays, relaxed.row_duals
    )
    assert bound.value == 500 + 1000
