"""Displacement under a disruption budget: victims by the scarce limit, and never beyond it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from gang_parameters import set_parameters

from placewright.formulations.gang.heuristics.displace import displace_greedily, displaced
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.placement.disruption_budget import (
    NOTHING,
    BudgetGuard,
    disruption_of,
    repair_disruptions,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.documents.policy import PolicyLimits
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
from placewright.solver import InProcess

LIMITS = (
    {"preempted_jobs": 6},
    {"preempted_gpus": 12},
    {"lost_gpu_s": 9000},
    {"migrated_jobs": 0, "preempted_jobs": 5},
    {"migrated_jobs": 2, "lost_gpu_s": 30000},
    {"preempted_jobs": 6, "preempted_gpus": 12, "migrated_jobs": 2, "lost_gpu_s": 9000},
)


def session() -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + 500)


def with_budget(round_: Round, limits: dict[str, int]) -> Problem:
    found = PolicyLimits.model_validate({"disruption": limits})
    policy = round_.policy.model_copy(update={"limits": found})
    return compile_round(round_.model_copy(update={"policy": policy}))


def excess(placement: Placement) -> Any:
    budget = placement.problem.budget
    assert budget is not None
    return budget.excess(disruption_of(placement, budget))


@pytest.mark.nightly(after=8)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_victims_by_the_scarce_limit_are_worth_no_less(limits, seed):
    problem = with_budget(generate_round(128, 60, mix="hard", seed=seed), limits)
    plain, beyond = Placement(problem), Placement(problem)
    displace_greedily(plain)
    displace_greedily(beyond, beyond_budget=True)
    for placement in (plain, beyond):
        repair_disruptions(placement)
    found = displaced(problem, session())
    assert excess(found) == NOTHING
    assert found.value >= max(plain.value, beyond.value)


@pytest.mark.parametrize("limits", LIMITS)
def test_what_insertion_gains_outlasts_the_repair(limits):
    problem = with_budget(generate_round(128, 60, mix="hard", seed=1), limits)
    placement = displaced(problem, session())
    before = placement.value
    insert_gangs(session(), placement)
    repair_disruptions(placement)
    assert excess(placement) == NOTHING
    assert placement.value >= before


def test_the_guard_compares_with_what_was_before():
    problem = with_budget(generate_round(128, 60, mix="hard", seed=1), {"preempted_jobs": 3})
    placement = Placement(problem)
    guard = BudgetGuard(placement)
    displace_greedily(placement, beyond_budget=True)
    assert not guard.holds()
    assert BudgetGuard(placement).holds()


def host(number: int) -> dict[str, Any]:
    return {"name": f"h{number}", "gpus": 8, "gpu_model": "A"}


def running(name: str, at: int, value: int, lost_s: int) -> dict[str, Any]:
    tasks = [{"host": f"h{at}", "gpus": list(range(8))}]
    return {
        "name": name,
        "options": [{"value": value, "groups": [{"gpu": 8}]}],
        "running": {"tasks": tasks, "checkpoint": 10_000 - lost_s},
    }


def test_jobs_stop_that_lose_little_where_lost_work_is_scarce():
    """`cheap` is worth least and loses all of the budget; the other three lose a third each."""
    others = [running(f"light{i}", i + 1, 200, 1000) for i in range(3)]
    pending = [
        {"name": f"p{i}", "priority": 1, "options": [{"value": 1000, "groups": [{"gpu": 8}]}]}
        for i in range(3)
    ]
    round_ = Round.model_validate(
        {
            "now": 10_000,
            "cluster": {"hosts": [host(i) for i in range(4)]},
            "jobs": [running("cheap", 0, 100, 3000), *others, *pending],
            "policy": {"terms": ["value"], "priority": "preemption"},
        }
    )
    problem = with_budget(round_, {"lost_gpu_s": 24_000})
    plain = Placement(problem)
    displace_greedily(plain)
    assert plain.value == 900
    assert displaced(problem, session()).value == 3 * 800


def test_a_job_stops_where_it_may_not_migrate():
    """`low` would move for `high`; with no migration left it stops, as its budget allows."""
    jobs = [
        {
            "name": "low",
            "options": [{"value": 100, "groups": [{"gpu": 4}]}],
            "running": {"tasks": [{"host": "h0", "gpus": [0, 1, 2, 3]}]},
        },
        {"name": "high", "priority": 1, "options": [{"value": 900, "groups": [{"gpu": 8}]}]},
    ]
    cluster = {"hosts": [host(0), {**host(1), "gpus": 4}]}
    policy = {"terms": ["value"], "priority": "preemption"}
    raw = {"now": 0, "cluster": cluster, "jobs": jobs, "policy": policy}
    for limits, value in (({"migrated_jobs": 1}, 900), ({"migrated_jobs": 0}, 800)):
        problem = with_budget(Round.model_validate(raw), limits)
        placement = displaced(problem, session())
        assert excess(placement) == NOTHING
        assert placement.value == value


def test_shares_that_run_on_one_gpu_have_a_bound_under_a_budget(monkeypatch):
    """No single-fraction pattern lets both run on one GPU: the rows wait for one that does."""
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    jobs = [
        {
            "name": f"share{i}",
            "options": [{"value": 10, "groups": [{"gpu": gpu}]}],
            "running": {"tasks": [{"host": "h0", "gpus": [0]}]},
        }
        for i, gpu in enumerate(("300m", "700m"))
    ]
    jobs += [{"name": "new", "priority": 1, "options": [{"value": 90, "groups": [{"gpu": 1}]}]}]
    raw = {
        "now": 0,
        "cluster": {"hosts": [{**host(0), "gpus": 1}]},
        "jobs": jobs,
        "policy": {
            "terms": ["value"],
            "priority": "preemption",
            "limits": {"disruption": {"preempted_jobs": 1}},
        },
    }
    plan = solve_round(Round.model_validate(raw), isolation="none")
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert plan.certificate.terms[0].value == 0
    assert plan.certificate.terms[0].certified is not None
    # Half of `new` in place of the smaller share at most.
    assert plan.certificate.terms[0].certified < 70
