"""Exchange of identical jobs between regions: exact, by brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from placewright.formulations.geo.heuristics.assign import exchange
from placewright.solver.network_flow import min_cost_flow, transportation

NONE = -1
RUNS_NOWHERE = 10**6


def total(costs: np.ndarray, eligible: np.ndarray, region: np.ndarray) -> int:
    """Cost of jobs in these regions; a job that may not run where it is costs a lot."""
    each = np.where(eligible, costs, RUNS_NOWHERE)
    return sum(int(each[j, r]) for j, r in enumerate(region.tolist()) if r != NONE)


@pytest.mark.parametrize("seed", range(40))
def test_no_permutation_of_places_costs_less_or_moves_fewer_jobs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, regions = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    costs = rng.integers(0, int(rng.integers(1, 6)), (jobs, regions)) * int(rng.integers(1, 1000))
    region = rng.integers(-1, regions, jobs)
    eligible = rng.random((jobs, regions)) < 0.7
    eligible[np.flatnonzero(region != NONE), region[region != NONE]] = True
    found = exchange(region, costs, eligible)
    every = {
        (total(costs, eligible, other), int((other != region).sum()))
        for order in permutations(range(jobs))
        for other in [region[list(order)]]
    }
    assert sorted(found.tolist()) == sorted(region.tolist())
    assert (total(costs, eligible, found), int((found != region).sum())) == min(every)


def test_two_jobs_swap_where_each_reads_nothing_in_the_place_of_the_other() -> None:
    number = 40
    region = np.arange(number)
    region[[3, 17]] = 17, 3
    costs = np.where(np.eye(number, dtype=np.bool_), 0, 5)
    found = exchange(region, costs, np.ones_like(costs, dtype=np.bool_))
    assert found.tolist() == list(range(number))


def test_costs_that_leave_no_bits_for_the_number_of_changes_are_minimised_all_the_same() -> None:
    large = 10**17
    costs = np.array([[large, 1], [0, large - 1]])
    found = exchange(np.array([0, 1]), np.pad(costs, ((0, 0), (0, 3))), np.ones((2, 5), dtype=bool))
    assert found.tolist() == [1, 0]


def test_costs_beyond_64_bits_change_nothing() -> None:
    costs = np.array([[2**61 + 1, 0], [0, 2**61]])
    region = np.array([0, 1])
    assert exchange(region, costs, np.ones((2, 2), dtype=bool)).tolist() == [0, 1]


def test_a_flow_that_cannot_ship_all_supply_is_none() -> None:
    one, none = np.array([1]), np.array([0])
    assert min_cost_flow(none, one, one, none, np.array([2, -2])) is None
    plan = transportation(one, one, one[:, None], np.zeros((1, 1), dtype=bool), none[:, None])
    assert plan is None
