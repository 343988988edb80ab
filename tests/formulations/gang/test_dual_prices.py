"""Dual prices bound the value of every plan, whatever the prices are."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from examples import by_day
from fuzz.small_units import as_document
from placewright.formulations.gang.bounds import SCALE, DualPrices
from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.models.aggregate.accounts import budget_prices
from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid
from placewright.formulations.gang.models.aggregate.solve import (
    bound_by_relaxation,
    collect_bounds,
    host_pattern_model,
    tasks_per_host,
)
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.policy import PolicyLimits
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.rounds import solve_round
from placewright.solver import InProcess

Raw = dict[str, Any]


def small_round(seed: int) -> Round:
    """Four hosts of two models, one perhaps failed or reserved; jobs run, gangs and others wait."""
    rng = np.random.default_rng(seed)
    hosts: list[Raw] = [
        {"name": f"h{i}", "gpus": 4, "gpu_model": "AB"[i % 2], "cpu": 8, "memory": 16}
        for i in range(4)
    ]
    hosts[3]["healthy"] = bool(rng.random() < 0.7)
    jobs: list[Raw] = []

    def job(size: int, count: int) -> Raw:
        group: Raw = {"gpu": 1000 * size, "count": count, "cpu": int(rng.integers(0, 5))}
        group |= {"memory": int(rng.integers(0, 9))}
        group |= {"gpu_models": ["A"]} if rng.random() < 0.3 else {}
        return {
            "name": f"job-{len(jobs)}",
            "tenant": "red" if rng.random() < 0.3 else None,
            "priority": int(rng.integers(0, 3)),
            "options": [{"groups": [group]}],
            "weight": int(rng.integers(0, 4)),
        }

    for entry in hosts:
        cpu = memory = 0
        for gpus in ([0], [1], [2, 3]):
            new = job(len(gpus), 1)
            group = new["options"][0]["groups"][0]
            right = entry["gpu_model"] in group.get("gpu_models", "AB")
            fits = cpu + group["cpu"] <= 8 and memory + group["memory"] <= 16
            if right and fits and rng.random() < 0.7:
                cpu, memory = cpu + group["cpu"], memory + group["memory"]
                jobs.append(new | {"running": {"tasks": [{"host": entry["name"], "gpus": gpus}]}})
    for _ in range(5):
        jobs += [job(int(rng.choice([1, 1, 2, 4])), int(rng.choice([1, 1, 2, 3])))]
    round_ = Round.model_validate(
        as_document(
            {
                "cluster": {"hosts": hosts},
                "jobs": jobs,
                "tenants": [{"name": "red", "quota": {"gpu": 9000}}],
                "reservations": [{"host": "h1", "gpus": [0, 2]}] if rng.random() < 0.4 else [],
                "policy": {"terms": ["value"], "priority": "preemption"},
            }
        )
    )
    check_round(round_)
    return round_


def grid_of(problem: Problem) -> ResourceGrid:
    return ResourceGrid(problem, Placement(problem, cleared=True))


@pytest.mark.parametrize("seed", by_day(range(40), 5))
def test_no_plan_beats_the_bound_of_any_prices(seed: int) -> None:
    round_ = small_round(seed)
    plan = solve_round(round_, isolation="none", gap=0.0)
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    best = plan.certificate.terms[0].value
    problem, rng = compile_round(round_), np.random.default_rng(seed)
    shapes = len(problem.shape_gpu)
    for known in (0, 1, shapes // 2, shapes, shapes, shapes):
        price = rng.normal(1.0, rng.choice([0.1, 1.0, 3.0]), known) * problem.shape_gpu[:known]
        assert DualPrices.of(problem, grid_of(problem), price).bound() >= best


LIMITS = (
    {"preempted_jobs": 1},
    {"preempted_gpus": 2, "min_run_s": 50},
    {"lost_gpu_s": 300, "preempted_jobs": 2},
    {"migrated_jobs": 0, "preempted_jobs": 1},
)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", by_day(range(12), 2))
def test_no_plan_within_a_budget_beats_the_bound_of_any_prices(seed: int, limits: Raw) -> None:
    round_, rng = small_round(seed), np.random.default_rng(seed)
    jobs = tuple(
        job
        if job.running is None
        else job.model_copy(
            update={
                "running": job.running.model_copy(
                    update={"checkpoint": 1000 - 100 * (j % 4), "started": 900 + 20 * (j % 5)}
                )
            }
        )
        for j, job in enumerate(round_.jobs)
    )
    found = PolicyLimits.model_validate({"disruption": limits})
    policy = round_.policy.model_copy(update={"limits": found})
    round_ = round_.model_copy(update={"now": 1000, "jobs": jobs, "policy": policy})
    plan = solve_round(round_, isolation="none", gap=0.0)
    assert plan.certificate is not None
    problem = compile_round(round_)
    for _ in range(4):
        price = rng.normal(1.0, 0.5, len(problem.shape_gpu)) * problem.shape_gpu
        paid = tuple((rng.random(6) * [2000, 1, 2000, 0.01, 2000, 1]).tolist())
        bound = DualPrices.of(problem, grid_of(problem), price, paid).bound()
        assert bound >= plan.certificate.terms[0].value


def test_the_budget_prices_of_a_relaxation_prove_what_it_proves() -> None:
    found = PolicyLimits.model_validate({"disruption": {"preempted_jobs": 6}})
    round_ = generate_round(512, 150, mix="hard", seed=1)
    policy = round_.policy.model_copy(update={"limits": found})
    problem = compile_round(round_.model_copy(update={"policy": policy}))
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    bounds, outcome = collect_bounds(bound_by_relaxation(session, *model, "value"))
    assert outcome is not None
    assert outcome.row_duals is not None
    price = -outcome.row_duals[model.aggregate.task_row]
    paid = budget_prices(model.aggregate, outcome.row_duals)
    assert any(paid)
    with_budget = DualPrices.of(problem, grid_of(problem), price, paid).bound()
    without = DualPrices.of(problem, grid_of(problem), price).bound()
    assert with_budget <= 1.02 * bounds[0].value
    assert without > with_budget


@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_the_prices_of_a_relaxation_prove_what_it_proves(seed: int) -> None:
    jobs = small_round(seed).jobs
    # Without gangs and quotas the prices are all that the relaxation has.
    alone = [job for job in jobs if job.options[0].groups[0].count == 1 and job.tenant is None]
    problem = compile_round(small_round(seed).model_copy(update={"jobs": tuple(alone)}))
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0, gap=0.0)
    steps, bounds = bound_by_relaxation(session, *model, "value"), []
    while True:
        try:
            bounds.append(next(steps).value)
        except StopIteration as end:
            duals = end.value.row_duals
            break
    prices = DualPrices.of(problem, grid_of(problem), -duals[model.aggregate.task_row])
    assert prices.bound() <= min(bounds) + problem.cluster.num_hosts / SCALE


@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_a_host_never_holds_more_than_the_most_it_can(seed: int) -> None:
    problem = compile_round(small_round(seed).model_copy(update={"reservations": ()}))
    price = np.random.default_rng(seed).random(len(problem.shape_gpu)) * 1000
    prices = DualPrices.of(problem, grid_of(problem), price)
    placement = Placement(problem)
    for step in (displace_greedily, fill_greedily):
        step(placement)
        assert (prices.loss_per_host(placement)[problem.open] >= 0).all()
        held = np.zeros(problem.cluster.num_hosts)
        for _, start in placement.started():
            groups = problem.classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                held[put.host] += put.count * prices.price[groups[put.group].shape] / SCALE
        assert prices.loss_per_host(placement) == pytest.approx(prices.best_of_host / SCALE - held)
