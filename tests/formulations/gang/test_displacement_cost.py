"""The displacement cost of a host is that of its cheapest victim set, by brute force."""

from __future__ import annotations

import time
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from numpy.typing import NDArray

from examples import by_day
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.displacement import DisplacementCost
from placewright.formulations.gang.heuristics.repacking import displace_by_model
from placewright.formulations.gang.models.aggregate.solve import (
    aggregate_models,
    bound_by_relaxation,
    collect_bounds,
    host_pattern_model,
    tasks_per_host,
)
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.checks.round import check_round
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.solver import InProcess

Raw = dict[str, Any]
Ints = NDArray[np.int64]


def random_round(seed: int, *, shares: bool) -> Round:
    """Three hosts full of small jobs, some GPUs reserved, and jobs of higher priority that wait."""
    rng = np.random.default_rng(seed)
    hosts = [
        {"name": f"h{i}", "gpus": 4, "gpu_model": "AB"[i % 2], "cpu": 0.008, "memory": "16Mi"}
        for i in range(3)
    ]
    jobs: list[Raw] = []
    for entry in hosts:
        gpus, cpu = [1000] * 4, 8
        for _ in range(int(rng.integers(1, 6))):
            sizes = (300, 500, 700, 1000, 2000) if shares else (1000, 1000, 2000)
            gpu, cores = int(rng.choice(sizes)), int(rng.integers(0, 4))
            open_ = [i for i, left in enumerate(gpus) if left >= min(gpu, 1000)]
            chosen = open_[: max(gpu // 1000, 1)]
            if len(chosen) < max(gpu // 1000, 1) or cores > cpu:
                continue
            cpu -= cores
            for i in chosen:
                gpus[i] -= min(gpu, 1000)
            running: Raw = {"tasks": [{"host": entry["name"], "gpus": chosen}]}
            running |= {"preempt_cost": int(rng.integers(0, 5)) * 100}
            group = {"gpu": f"{gpu}m", "cpu": f"{cores}m", "memory": f"{int(rng.integers(0, 3))}Mi"}
            jobs.append(
                {
                    "name": f"running-{len(jobs)}",
                    "options": [{"groups": [group]}],
                    "weight": int(rng.integers(0, 3)),
                    "priority": int(rng.integers(0, 3)),
                    "running": running,
                }
            )
    for i in range(4):
        group = {"gpu": int(rng.integers(1, 4)), "cpu": f"{int(rng.integers(0, 5))}m"}
        group |= {"gpu_models": ["A"]} if rng.random() < 0.3 else {}
        jobs.append(
            {
                "name": f"job-{i}",
                "options": [{"groups": [group]}],
                "priority": int(rng.integers(1, 4)),
            }
        )
    reserved = [{"host": "h0", "gpus": [0, 2]}] if rng.random() < 0.5 else []
    round_ = Round.model_validate(
        {"cluster": {"hosts": hosts}, "jobs": jobs, "reservations": reserved}
    )
    check_round(round_)
    return round_


def cost_of(problem: Problem, job: int) -> int:
    running = problem.running[job]
    return running.preempt_cost + problem.demand_of(
        problem.classes[running.job_class].choices[0], -1
    )


def value_of(problem: Problem, job: int) -> int:
    return problem.classes[problem.running[job].job_class].choices[0].value


def on_host(problem: Problem, host: int) -> list[int]:
    return [j for j, running in problem.running.items() if running.places[0][2] == host]


def idle_capacity(problem: Problem, host: int, stopped: tuple[int, ...], wanted: Ints) -> float:
    """GPUs that are left free when the wanted tasks are there, -1 where they do not fit."""
    placement = Placement(problem)
    for job in stopped:
        placement.stop(placement.start_of(job))
    gpus = int(placement.whole[host] - wanted @ problem.shape_gpu // 1000)
    fits = (placement.free[host] >= wanted @ problem.shape_demand).all()
    return gpus if fits else -1


def least(problem: Problem, host: int, wanted: Ints, *, cheapest: bool = False) -> float:
    """The least loss over all sets of jobs, or over those that stop the cheapest ones."""
    shapes = np.flatnonzero(wanted)
    if not problem.shape_hosts[shapes, host].all():
        return inf
    dearest = 1 + sum(cost_of(problem, job) for job in problem.running)
    loss = {j: value_of(problem, j) + cost_of(problem, j) / dearest for j in on_host(problem, host)}
    jobs = sorted(loss, key=loss.__getitem__)
    sets = [s for n in range(len(jobs) + 1) for s in combinations(jobs, n)]
    best = inf
    for chosen in [tuple(jobs[:n]) for n in range(len(jobs) + 1)] if cheapest else sets:
        rank = problem.shape_rank[shapes].min()
        idle = idle_capacity(problem, host, chosen, wanted)
        if idle >= 0 and all(problem.running[j].level < rank for j in chosen):
            best = min(
                best,
                sum(loss[j] for j in chosen)
                + parameters.PARAMETERS.insertion.value_per_idle_gpu * idle,
            )
    return best


def some_tasks(problem: Problem, rng: np.random.Generator) -> Ints:
    """One to three tasks of pending jobs."""
    shapes = [c.choices[0].groups[0].shape for c in problem.classes if not c.running]
    wanted = np.zeros(len(problem.shape_gpu), dtype=np.int64)
    for s in rng.choice(shapes, size=int(rng.integers(1, 4))):
        wanted[s] += 1
    return wanted


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("seed", by_day(range(30), 12))
def test_a_host_loses_the_least_over_all_sets_of_its_jobs(seed: int, *, shares: bool) -> None:
    problem = compile_round(random_round(seed, shares=shares))
    table, rng = DisplacementCost(Placement(problem)), np.random.default_rng(seed)
    for wanted in (some_tasks(problem, rng) for _ in range(4)):
        found = table.of(wanted)
        for host in range(problem.cluster.num_hosts):
            assert found[host] == pytest.approx(least(problem, host, wanted)), host


@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_of_many_jobs_a_host_stops_the_cheapest(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    set_parameters(monkeypatch, "insertion", max_enumerated_jobs=0)
    problem = compile_round(random_round(seed, shares=False))
    table, rng = DisplacementCost(Placement(problem)), np.random.default_rng(seed)
    for wanted in (some_tasks(problem, rng) for _ in range(3)):
        found = table.of(wanted)
        for host in range(problem.cluster.num_hosts):
            expected = least(problem, host, wanted, cheapest=True)
            assert found[host] == pytest.approx(expected), host


@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_the_sets_of_a_plan_join_the_table(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """On every host that set of its jobs is there once, and leaves free what the plan does."""
    set_parameters(monkeypatch, "insertion", max_enumerated_jobs=0)
    problem = compile_round(random_round(seed, shares=False))
    cost, plan = DisplacementCost(Placement(problem)), Placement(problem)
    rng = np.random.default_rng(seed)
    for job in np.unique(cost.candidates.job).tolist():
        if rng.random() < 0.5:
            plan.stop(plan.start_of(job))
    rows = cost.add_sets_of(plan)
    hosts, capacity = cost.table.host[rows], cost.table.capacity[rows]
    assert hosts.tolist() == np.flatnonzero(problem.open).tolist()
    assert capacity[:, 0].tolist() == plan.whole[hosts].tolist()
    assert capacity[:, 1:].tolist() == plan.free[hosts].tolist()


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_what_is_displaced_is_what_the_table_said(seed: int, *, shares: bool) -> None:
    problem = compile_round(random_round(seed, shares=shares))
    placement = Placement(problem)
    table, wanted = DisplacementCost(placement), some_tasks(problem, np.random.default_rng(seed))
    dearest = 1 + sum(cost_of(problem, job) for job in problem.running)
    said = table.of(wanted)
    for host in np.flatnonzero(np.isfinite(said)).tolist():
        table.preempt_for(host, wanted)
        stopped = [job for job in on_host(problem, host) if not placement.is_running(job)]
        lost = sum(value_of(problem, j) + cost_of(problem, j) / dearest for j in stopped)
        idle = idle_capacity(problem, host, tuple(stopped), wanted)
        assert idle >= 0
        assert said[host] == pytest.approx(
            lost + parameters.PARAMETERS.insertion.value_per_idle_gpu * idle
        )
        assert table.of(wanted)[host] == inf


@pytest.mark.parametrize("seed", by_day(range(20), 8))
def test_as_many_tasks_of_a_shape_as_a_host_can_hold(seed: int) -> None:
    problem = compile_round(random_round(seed, shares=False))
    table = DisplacementCost(Placement(problem))
    shape = int(np.flatnonzero(problem.shape_rank == problem.shape_rank.max())[0])
    loss, number = table.of_count(shape, 3)
    for host in range(problem.cluster.num_hosts):
        wanted = np.zeros(len(problem.shape_gpu), dtype=np.int64)
        most = 0
        for n in (1, 2, 3):
            wanted[shape] = n
            if least(problem, host, wanted) < inf:
                most = n
        wanted[shape] = most
        assert number[host] == most
        assert loss[host] == pytest.approx(least(problem, host, wanted) if most else inf)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("num_hosts", "gpus", "size"), [(4, 8, 8), (2, 3, 1)])
def test_of_jobs_of_equal_worth_those_start_that_spread_least(
    num_hosts: int, gpus: int, size: int, *, last: bool
) -> None:
    hosts = [
        {"name": f"h{i}", "gpus": gpus, "gpu_model": "A", "parent": f"r{2 * i // num_hosts}"}
        for i in range(num_hosts)
    ]
    racks = [{"name": f"r{i}", "level": "rack"} for i in range(2)]
    small = {"groups": [{"gpu": 1}]}
    running = {"tasks": [{"host": "h0", "gpus": [0]}]}
    gang = {"groups": [{"gpu": size, "count": 4, "preferred": ["rack"]}]}
    alone = [
        {"name": f"alone-{i}", "priority": 1, "options": [{"groups": [{"gpu": size}]}]}
        for i in range(num_hosts * gpus // size)
    ]
    together = {"name": "gang", "priority": 1, "options": [gang]}
    jobs = [
        *([*alone, together] if last else [together, *alone]),
        {"name": "running", "weight": 0, "options": [small], "running": running},
    ]
    cluster = {"levels": ["rack"], "domains": racks, "hosts": hosts}
    policy = {"terms": ["value", "disruption", "spread"], "priority": "preemption"}
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": policy})
    check_round(round_)
    problem = compile_round(round_)
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    _, relaxed = collect_bounds(bound_by_relaxation(session, *model, "value"))
    value, running_job = 1000 * num_hosts * gpus, len(jobs) - 1
    best = {"value": value, "disruption": cost_of(problem, running_job), "spread": 4 * size * 1000}
    found = displace_by_model(session, model, relaxed, best)
    assert found is not None
    assert found.value == value
    started = [problem.classes[start.job_class].choices[0] for _, start in found.changed()]
    assert all(choice.is_single_task for choice in started)


@pytest.mark.parametrize("seed", range(3))
def test_a_relaxation_is_rounded_where_the_program_finds_nothing_near(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of it is worth nearly as much as what comes of the program's optimum."""
    problem = compile_round(generate_round(256, 100, mix="hard", seed=seed))
    greedy = Placement(problem)
    fill_by_policy(greedy)
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    model = next(aggregate_models(problem, greedy))
    _, relaxed = collect_bounds(bound_by_relaxation(session, *model, "value"))
    best = displace_by_model(session, model, relaxed)
    set_parameters(monkeypatch, "insertion", max_displacement_seconds=0.0)
    rounded = displace_by_model(session, model, relaxed)
    assert best is not None
    assert rounded is not None
    assert rounded.value >= 0.8 * best.value > greedy.value
