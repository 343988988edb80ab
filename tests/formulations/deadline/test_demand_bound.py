"""Rows of demand hold for every schedule, and choosing by them bounds what can be promised.

The profile `long` tries more rounds of each kind.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from examples import examples
from placewright.formulations.deadline.heuristics.master_subproblem import core_search
from placewright.formulations.deadline.models.demand_bound import (
    DemandRow,
    DemandRows,
    MasterLp,
    MasterObjective,
    feasible_alone,
    loads_of,
    window,
)
from placewright.formulations.deadline.problem.problem import NONE, Problem
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.deadline import oracle, tiny

ROUNDS = examples(day=6, nightly=24, long=1_000)
KINDS: tuple[dict[str, Any], ...] = (
    {"gangs": False},
    {},
    {"releases": True},
    {"releases": True, "rows": 2},
    {"promises": True},
)


def session() -> Session:
    return Session(InProcess().solve, time.monotonic() + 60)


def single(capacity: list[int], jobs: list[tuple[int, int, int]]) -> Problem:
    """Jobs of (demand, need, end), of value 1 each."""
    whole = {"dtype": np.int64}
    demand, need, end = np.array(jobs, **whole).T
    n = len(jobs)
    return Problem(
        capacity=np.array([capacity], **whole),
        loss=np.zeros(n, **whole),
        job=np.arange(n),
        need=need,
        first=np.zeros(n, **whole),
        end=end,
        value=np.ones(n, **whole),
        demand=demand[:, None],
    )


def free(problem: Problem) -> MasterLp:
    """Choose any alternative that can run."""
    objective = MasterObjective(problem.value, np.zeros_like(problem.value), 0)
    return MasterLp(
        DemandRows(problem),
        feasible_alone(problem),
        np.zeros(problem.jobs, dtype=np.bool_),
        objective,
    )


def nobody(problem: Problem) -> Any:
    return np.full(problem.jobs, NONE, dtype=np.int64)


def test_a_window_that_jobs_can_leave_forces_only_the_rest_into_it() -> None:
    demands = DemandRows(single([2] * 6, [(1, 4, 6), (2, 2, 3)]))
    assert demands.forced_leases(window(6, 0, 5)).tolist() == [3, 2]
    assert demands.forced_leases(window(6, 0, 2)).tolist() == [0, 1]
    assert demands.forced_leases(window(6, 3, 6)).tolist() == [1, 0]
    row = DemandRow(0, window(6, 0, 2))
    assert demands.coefficients(row).tolist() == [0, 2]
    assert demands.capacity(row) == 4


def test_leases_too_small_for_a_job_do_not_relieve_its_demand() -> None:
    demands = DemandRows(single([2, 0, 1, 2], [(2, 2, 4), (1, 2, 4)]))
    assert demands.forced_leases(window(4, 0, 2)).tolist() == [1, 0]
    assert feasible_alone(single([2, 0, 1, 2], [(2, 2, 4), (2, 2, 3), (1, 2, 3)])).tolist() == [
        True,
        False,
        True,
    ]


def test_capacity_is_what_sums_of_gangs_reach() -> None:
    load, pairs = loads_of(single([6000, 7000, 9000], [(3000, 1, 3), (6000, 1, 3)]))
    assert (load.weight.tolist(), load.capacity.tolist()) == ([1, 2], [2, 2, 3])
    assert (pairs.weight.tolist(), pairs.capacity.tolist()) == ([0, 1], [1, 1, 1])
    load, threes, fives = loads_of(single([7, 9], [(3, 1, 2), (5, 1, 2), (2, 1, 2)]))
    assert load.capacity.tolist() == [7, 9]
    assert (threes.weight.tolist(), threes.capacity.tolist()) == ([1, 1, 0], [2, 3])
    assert (fives.weight.tolist(), fives.capacity.tolist()) == ([0, 1, 0], [1, 1])
    load, *_ = loads_of(single([1, 4], [(3, 1, 2), (5, 1, 2)]))
    assert load.capacity.tolist() == [0, 3]


def schedules(problem: Problem, rng: np.random.Generator) -> Any:
    """Yield alternatives that run together, found by chance."""
    for _ in range(4):
        left = problem.capacity.copy()
        alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        for w in rng.permutation(problem.alternatives):
            demand = problem.demand[w]
            leases = np.arange(problem.first[w], problem.end[w])
            leases = leases[(left[:, leases] >= demand[:, None]).all(axis=0)]
            if alternative[problem.job[w]] == NONE and len(leases) >= problem.need[w]:
                taken = rng.permutation(leases)[: problem.need[w]]
                left[:, taken] -= demand[:, None]
                alternative[problem.job[w]] = w
        yield alternative


def test_every_schedule_keeps_the_rows_of_any_leases() -> None:
    rng = np.random.default_rng(3)
    for seed in range(4 * ROUNDS):
        for number, kind in enumerate(KINDS):
            problem = tiny.problem(1000 * seed + number, tiny.SHAPES[seed % 4], **kind)
            demands = DemandRows(problem)
            for alternative in schedules(problem, rng):
                alternatives = alternative[alternative != NONE]
                assert feasible_alone(problem)[alternatives].all()
                chosen = np.zeros(problem.alternatives)
                chosen[alternatives] = 1.0
                assert not list(demands.violated(chosen))
                for load in range(len(demands.loads)):
                    row = DemandRow(load, rng.random(problem.horizon) < 0.5)
                    assert demands.coefficients(row)[alternatives].sum() <= demands.capacity(row)


def test_what_breaks_a_window_is_found() -> None:
    rng = np.random.default_rng(4)
    for seed in range(4 * ROUNDS):
        for number, kind in enumerate(KINDS):
            problem = tiny.problem(1000 * seed + number, tiny.SHAPES[seed % 4], **kind)
            demands = DemandRows(problem)
            chosen = rng.random(problem.alternatives) * feasible_alone(problem)
            broken = {
                (load, int(start))
                for load in range(len(demands.loads))
                for start in demands.window_starts
                for end in range(start + 1, problem.horizon + 1)
                if demands.coefficients(row := DemandRow(load, window(problem.horizon, start, end)))
                @ chosen
                > demands.capacity(row) + 1e-4
            }
            found = list(demands.violated(chosen))
            assert {(row.load, int(np.argmax(row.leases))) for row in found} >= broken
            for row in found:
                assert demands.coefficients(row) @ chosen > demands.capacity(row)


def test_the_relaxation_is_never_below_the_best_schedule() -> None:
    for seed in range(ROUNDS):
        for number, kind in enumerate(KINDS[:-1]):
            problem = tiny.problem(1000 * seed + number, tiny.SHAPES[seed % 4], **kind)
            master = free(problem)
            found = master.solve(session())
            assert found is not None
            best = oracle.best(problem).admitted
            assert found.dual.bound >= best
            *_, choice = core_search(master, found.dual, nobody(problem), session())
            assert choice.bound is not None
            assert choice.bound >= best


@pytest.mark.parametrize("shape", ["constant", "rising"])
def test_choosing_by_rows_is_exact_for_jobs_of_one_gpu_and_capacity_that_never_falls(
    shape: str,
) -> None:
    for seed in range(4 * ROUNDS):
        problem = tiny.problem(seed, shape, gangs=False)
        master = free(problem)
        found = master.solve(session())
        assert found is not None
        *_, choice = core_search(master, found.dual, nobody(problem), session())
        chosen = choice.alternative[choice.alternative != NONE]
        assert problem.value[chosen].sum() == oracle.best(problem).admitted
