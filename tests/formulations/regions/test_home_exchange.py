"""Local search over homes beside fixed replicas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placewright.formulations.replicas.heuristics.greedy import (
    exchange_homes,
    greedy_solution,
    readable_regions,
)
from placewright.formulations.replicas.heuristics.incumbent import repair_transfers
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Problem, Solution
from placewright.instances.generators.geo import MixName, generate
from tests.formulations.regions import geo_tiny

READER = {"reads": [{"dataset": "d", "gib": 10}]}


def jobs_of(problem: Problem, cells: dict[int, tuple[int, ...]]) -> Solution:
    """Return a solution from the number of jobs by job class, in each region or cell."""
    jobs = np.zeros_like(problem.allowed_homes, dtype=np.int64)
    for workload, numbers in cells.items():
        jobs[workload] = np.reshape(numbers, jobs.shape[1:])
    return Solution(jobs, problem.current)


def test_a_job_moves_to_its_data() -> None:
    problem = compile_replicas(geo_tiny.pair([READER], "east"))
    solution = exchange_homes(problem, jobs_of(problem, {0: (0, 1)}))
    assert solution.objective(problem) == (0, 0, 0)


def test_jobs_swap_homes_where_none_fits_beside_the_others() -> None:
    problem = compile_replicas(geo_tiny.pair([READER, READER, {}, {}], "east"))
    solution = jobs_of(problem, {0: (0, 2), 1: (2, 0)})
    assert solution.objective(problem) == (0, 20, 0)
    assert exchange_homes(problem, solution).jobs[:, :, 0].tolist() == [[2, 0], [0, 2]]


def test_a_job_ejects_another_one_to_a_model_that_only_that_one_can_use() -> None:
    pair = compile_replicas(geo_tiny.pair([READER, READER, READER, {}, {}], "east", "west"))
    may = np.ones((2, 2, 2), dtype=np.bool_)
    may[0, :, 1] = False
    problem = replace(pair, supply=np.array([[2000, 0], [2000, 2000]]), allowed_homes=may)
    solution = jobs_of(problem, {0: (3, 0, 0, 0), 1: (0, 0, 2, 0)})
    assert solution.objective(problem)[0] > 0
    assert exchange_homes(problem, solution).jobs.reshape(2, -1).tolist() == [
        [2, 0, 1, 0],
        [0, 0, 1, 1],
    ]


def test_nobody_reads_more_to_read_less_where_that_overloads() -> None:
    problem = compile_replicas(geo_tiny.pair([READER] * 3, "east"))
    solution = jobs_of(problem, {0: (2, 1)})
    assert exchange_homes(problem, solution) is solution


@pytest.mark.parametrize("mix", ["spare", "scarce"])
@pytest.mark.parametrize("seed", range(4))
def test_no_solution_becomes_worse_and_all_keep_a_home(mix: MixName, seed: int) -> None:
    problem = compile_replicas(
        generate(regions=4, datasets=20, jobs=120, gpus=600, mix=mix, seed=seed, policy="replicas")
    )
    for copying in (False, True):
        before, _, _ = repair_transfers(
            problem, greedy_solution(problem, copying=copying), problem.current & False
        )
        after = exchange_homes(problem, before)
        assert after.objective(problem) <= before.objective(problem)
        assert (after.jobs.sum(axis=(1, 2)) == before.jobs.sum(axis=(1, 2))).all()
        assert (after.jobs >= 0).all()
        assert (after.replicas & ~problem.current <= before.replicas).all()
        there = readable_regions(problem, after.replicas)[:, :, None] & problem.allowed_homes
        assert not after.jobs[~there].any()
