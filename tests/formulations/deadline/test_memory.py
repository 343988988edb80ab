"""What a round takes in memory does not grow with its alternatives times its leases."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.deadline.heuristics.list_scheduling import complete
from placewright.formulations.deadline.models.demand_bound import DemandRows
from placewright.formulations.deadline.problem.compile import CapacityRows, compile_admission
from placewright.formulations.deadline.problem.leases import Slack
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, usage_of
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import read
from placewright.instances.verify.rules.deadline.leases import LeaseCapacity

MIB = 1 << 20


def many_alternatives(jobs: int, horizon: int) -> Problem:
    """Jobs with 64 due times each on 800 GPUs."""
    due = [{"at": 60 * (100 + 100 * k), "value": 64 - k} for k in range(64)]
    asked: list[dict[str, Any]] = [
        {
            "name": f"j{i}",
            "options": [{"groups": [{"gpu": 1}]}],
            "deadline": {"work_s": 60 * (1 + 37 * i % 3000), "due": due},
        }
        for i in range(jobs)
    ]
    raw = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "h[0-99]", "gpus": 8, "gpu_model": "A"}]},
        "jobs": asked,
        "leases": {"length_s": 60, "horizon": horizon},
        "policy": {"formulation": "deadline"},
    }
    return compile_admission(Round.model_validate(raw)).problem


def test_many_due_times_and_a_far_horizon_take_little_memory() -> None:
    problem = many_alternatives(40, 10_000)
    assert problem.alternatives * problem.horizon * 8 > 150 * MIB
    nothing = Schedule(
        np.full(problem.jobs, NONE, dtype=np.int64),
        np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
    )
    tracemalloc.start()
    try:
        found = complete(problem, nothing)
        chosen = np.zeros(problem.alternatives)
        chosen[found.alternative[found.alternative != NONE]] = 1.0
        assert not list(DemandRows(problem).violated(chosen))
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
        "jobs": [{"name": "j", "options": [{"groups": [{"gpu": 1}]}], "deadline": {"work_s": 9}}],
        "leases": {"length_s": 60, "horizon": horizon, "outages": outages},
        "policy": {"formulation": "deadline"},
    }
    round_ = Round.model_validate(raw)
    reading = read(round_, Plan(decisions=()))
    tracemalloc.start()
    try:
        known = CapacityRows(round_, round_.jobs).capacity()
        counted = LeaseCapacity(reading, [(round_.jobs[0], 0)]).free
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
    assert (usage_of(demand, runs) == demand.T @ runs.astype(np.int64)).all()


def forced_leases(problem: Problem, alternatives: Ints) -> Ints:
    """Leases that each alternative needs by each lease's end (alternatives, leases)."""
    late = problem.end[alternatives] - problem.need[alternatives]
    needed: Ints = np.clip(
        np.arange(problem.horizon) + 1 - late[:, None], 0, problem.need[alternatives, None]
    )
    return needed


def test_spare_time_is_what_single_leases_say() -> None:
    problem = many_alternatives(12, 6_500)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternative[problem.job[::-3]] = np.arange(problem.alternatives)[::-3]
    slack, every = Slack(problem, alternative), np.arange(problem.horizon)
    needed = forced_leases(problem, alternative[alternative != NONE])
    left = (
        problem.capacity.cumsum(axis=1)
        - problem.demand[alternative[alternative != NONE]].T @ needed
    )
    assert (slack.residual == left).all()
    alternatives = np.arange(problem.alternatives)
    asked = problem.demand * forced_leases(problem, alternatives)
    # Also where little is left.
    slack.residual -= slack.residual[:, :1] + 700_000 * (every > 100)
    fits = (slack.residual >= asked).all(axis=1)
    assert (slack.admits_each(alternatives) == fits).all()
    assert [slack.admits(int(one)) for one in alternatives] == fits.tolist()
