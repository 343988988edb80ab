"""Who must run now: the same promises with the least cost of the current lease."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from placewright.array_types import Ints
from placewright.formulations.deadline.heuristics.list_scheduling import list_schedule
from placewright.formulations.deadline.heuristics.right_shift import right_shift
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from tests.formulations.deadline import tiny

KINDS: tuple[dict[str, Any], ...] = (
    {"gangs": False},
    {"gangs": False, "releases": True},
    {},
    {"releases": True, "rows": 2},
)


def least(problem: Problem, alternative: Ints, cost: Ints) -> int:
    """The least cost of the current lease, over all schedules of these alternatives."""
    states = {tuple(problem.capacity.ravel().tolist()): 0}
    for alternative_ in alternative[alternative != NONE].tolist():
        after: dict[tuple[int, ...], int] = {}
        window = range(problem.first[alternative_], problem.end[alternative_])
        for leases in combinations(window, int(problem.need[alternative_])):
            use = np.zeros_like(problem.capacity)
            use[:, list(leases)] = problem.demand[alternative_][:, None]
            more = int(cost[problem.job[alternative_]]) if 0 in leases else 0
            for state, total in states.items():
                left = tuple(a - b for a, b in zip(state, use.ravel().tolist(), strict=True))
                if min(left) >= 0:
                    after[left] = min(after.get(left, total + more), total + more)
        states = after
    return min(states.values())


def drawn(seed: int, kind: dict[str, Any]) -> tuple[Problem, Schedule, Ints]:
    """A schedule of a random problem, and costs: what jobs ask, some of it negative."""
    problem = tiny.problem(seed, tiny.SHAPES[seed % 4], jobs=6, **kind)
    rng = np.random.default_rng(seed)
    alternative = [rng.choice(np.flatnonzero(problem.job == job)) for job in range(problem.jobs)]
    schedule = list_schedule(problem, np.array(alternative, dtype=np.int64))
    cost = problem.demand[schedule.alternative].max(axis=1) * rng.choice([-1, 0, 1], problem.jobs)
    return problem, schedule, cost


@pytest.mark.parametrize("kind", KINDS)
def test_the_current_lease_is_about_as_cheap_as_it_can_be(kind: dict[str, Any]) -> None:
    dearer = 0
    for seed in range(100):
        problem, schedule, cost = drawn(seed, kind)
        result = right_shift(problem, schedule, cost)
        assert result.fits(problem)
        assert (result.alternative == schedule.alternative).all()
        spent = int(cost[result.runs[:, 0]].sum())
        best = least(problem, schedule.alternative, cost)
        assert spent >= best
        dearer += spent > best
    assert dearer <= 2


def lanes(capacity: list[int], jobs: list[tuple[int, int, int]]) -> tuple[Problem, Schedule]:
    """Jobs of (demand, need, end), all promised."""
    demand, need, end = np.array(jobs, dtype=np.int64).T
    problem = Problem(
        capacity=np.array([capacity], dtype=np.int64),
        loss=np.zeros(len(jobs), dtype=np.int64),
        job=np.arange(len(jobs)),
        need=need,
        first=np.zeros(len(jobs), dtype=np.int64),
        end=end,
        value=np.ones(len(jobs), dtype=np.int64),
        demand=demand[:, None],
    )
    return problem, list_schedule(problem, np.arange(len(jobs)))


def now(schedule: Schedule) -> list[int]:
    return np.flatnonzero(schedule.runs[:, 0]).tolist()


def test_who_can_wait_waits_and_who_cannot_runs() -> None:
    problem, schedule = lanes([4] * 4, [(1, 4, 4), (1, 2, 3), (2, 3, 4)])
    assert now(right_shift(problem, schedule, np.array([1, 1, 2]))) == [0]


def test_a_running_job_goes_on_where_there_is_capacity() -> None:
    problem, schedule = lanes([2] * 4, [(1, 2, 4), (1, 2, 4), (2, 1, 4)])
    assert now(right_shift(problem, schedule, np.array([1, -1, 2]))) == [1]


def test_headroom_pulls_work_forward_only_where_nothing_is_lost_by_it() -> None:
    # Four jobs of one lease fit in the later leases; with a quarter left free only three do.
    problem, schedule = lanes([4, 4], [(1, 1, 2)] * 4)
    assert now(right_shift(problem, schedule, np.ones(4, dtype=np.int64))) == []
    assert len(now(right_shift(problem, schedule, np.ones(4, dtype=np.int64), 250))) == 1
    full, packed = lanes([4, 4], [(4, 2, 2)])
    assert right_shift(full, packed, np.ones(1, dtype=np.int64), 250).runs.all()


def test_headroom_is_left_where_there_is_some() -> None:
    # The first two leases are full whatever is done; the other two have two GPUs more than the jobs
    # want. Jobs without a promise have a fifth of these two, so that headroom is 0.6 and 1 of them.
    problem, schedule = lanes([4000] * 4, [(4000, 2, 2), *[(1000, 1, 4)] * 8])
    used = right_shift(problem, schedule, np.ones(9, dtype=np.int64), 250).usage(problem)
    assert used.tolist() == [[4000, 4000, 4000, 4000]]
    problem, schedule = lanes([4000] * 4, [(4000, 2, 2), *[(1000, 1, 4)] * 6])
    used = right_shift(problem, schedule, np.ones(7, dtype=np.int64), 250).usage(problem)
    assert used.tolist() == [[4000, 4000, 3000, 3000]]


def test_a_running_job_takes_the_place_of_one_that_would_have_to_start() -> None:
    problem, schedule = lanes([1, 1], [(1, 1, 2), (1, 1, 2)])
    assert now(right_shift(problem, schedule, np.array([2, 1]))) == [1]
    assert now(right_shift(problem, schedule, np.array([1, 2]))) == [0]
