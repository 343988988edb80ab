"""What a round takes in memory does not grow with its ways times its leases."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from placewright.formulations.deadline.heuristics.list_scheduling import complete
from placewright.formulations.deadline.heuristics.lns import improve
from placewright.formulations.deadline.models.demand_bound import Demands
from placewright.formulations.deadline.problem.capacity_rows import Rows
from placewright.formulations.deadline.problem.compile import compile_admission
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, use_of
from placewright.formulations.deadline.problem.slack import Spare, forced
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import read
from placewright.instances.verify.rules.deadline.lease_capacity import Room

MIB = 1 << 20


def many_ways(jobs: int, horizon: int) -> Problem:
    """Jobs with 64 due times each on 800 GPUs."""
    due = [{"at": 60 * (100 + 100 * k), "value": 64 - k} for k in range(64)]
    asked: list[dict[str, Any]] = [
        {
            "name": f"j{i}",
            "options": [{"groups": [{"gpu": 1000}]}],
            "deadline": {"work_s": 60 * (1 + 37 * i % 3000), "due": due},
        }
        for i in range(jobs)
    ]
    raw = {
        "apiVersion": "placewright/v1alpha1",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "h[0-99]", "gpus": 8, "gpu_model": "A"}]},
        "jobs": asked,
        "leases": {"length_s": 60, "horizon": horizon},
        "policy": {"formulation": "deadline"},
    }
    return compile_admission(Round.model_validate(raw)).problem


def test_many_due_times_and_a_far_horizon_take_little_memory() -> None:
    problem = many_ways(40, 10_000)
    assert problem.ways * problem.horizon * 8 > 150 * MIB
    nothing = Schedule(
        np.full(problem.jobs, NONE, dtype=np.int64),
        np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
    )
    tracemalloc.start()
    try:
        found = complete(problem, nothing)
        chosen = np.zeros(problem.ways)
        chosen[found.way[found.way != NONE]] = 1.0
        assert not list(Demands(problem).broken(chosen))
        assert not list(improve(problem, found, lambda: False))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.fits(problem)
    assert peak < 60 * MIB


def test_long_outages_of_many_hosts_take_little_memory() -> None:
    horizon, start = 10_000, range(0, 3_000, 1_000)
    outages = [{"host": f"h[{k}00-{k + 1}99]", "start": 60 * s} for k, s in enumerate(start, 1)]
    raw = {
        "cluster": {"hosts": [{"name": "h[100-499]", "gpus": 8, "gpu_model": "A"}]},
        "jobs": [
            {"name": "j", "options": [{"groups": [{"gpu": 1000}]}], "deadline": {"work_s": 9}}
        ],
        "leases": {"length_s": 60, "horizon": horizon, "outages": outages},
        "policy": {"formulation": "deadline"},
    }
    round_ = Round.model_validate(raw)
    reading = read(round_, Plan(decisions=()))
    tracemalloc.start()
    try:
        known = Rows(round_, round_.jobs).capacity()
        counted = Room(reading, [(round_.jobs[0], 0)]).free
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (known == counted).all()
    # The first 200 hosts are never there, 100 go after 1,000 leases, and the last 100 after 2,000.
    assert known[0, [0, 1, 999, 1_000, 1_999, 2_000, 9_999]].tolist() == [
        8_000 * hosts for hosts in (200, 200, 200, 100, 100, 0, 0)
    ]
    assert peak < 10 * MIB


def test_parts_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    demand, runs = rng.integers(0, 9, (700, 2)), rng.random((700, 3000)) < 0.5
    assert (use_of(demand, runs) == demand.T @ runs.astype(np.int64)).all()


def test_spare_time_is_what_single_leases_say() -> None:
    problem = many_ways(12, 6_500)
    way = np.full(problem.jobs, NONE, dtype=np.int64)
    way[problem.job[::-3]] = np.arange(problem.ways)[::-3]
    spare, every = Spare(problem, way), np.arange(problem.horizon)
    needed = forced(problem, way[way != NONE], every)
    left = problem.capacity.cumsum(axis=1) - problem.demand[way[way != NONE]].T @ needed
    assert (spare.left == left).all()
    ways = np.arange(problem.ways)
    asked = problem.demand * forced(problem, ways, every)
    # Also where little is left.
    spare.left -= spare.left[:, :1] + 700_000 * (every > 100)
    fits = (spare.left >= asked).all(axis=1)
    assert (spare.have(ways) == fits).all()
    assert [spare.has(int(one)) for one in ways] == fits.tolist()
