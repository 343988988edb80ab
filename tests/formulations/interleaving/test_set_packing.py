"""Grouping by set packing finds the optimum of all choices, and its bounds are bounds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
    Rules,
)
from placewright.formulations.interleaving.set_packing.solve import solve_set_packing
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.interleaving import packings

BACKENDS = ("highs", "cp-sat", "cbc", "scip")
THROUGHPUT = Rules("throughput")


def searched(
    packing: PackingProblem, backend: str = "highs", seconds: float = 60.0
) -> tuple[list[Grouping], list[GroupingBound]]:
    """Return the groupings and the bounds that a search yields, in order."""
    session = Session(InProcess().solve, time.monotonic() + seconds, backend=backend)
    found = list(solve_set_packing(packing, session))
    assert not session.degraded
    groupings = [f for f in found if isinstance(f, Grouping)]
    return groupings, [f for f in found if isinstance(f, GroupingBound)]


def check_against_optimum(packing: PackingProblem, backend: str = "highs") -> None:
    best = packings.optimum(packing)
    groupings, bounds = searched(packing, backend)
    if best is None:
        assert not groupings
        return
    assert groupings[-1].value == best
    # CBC says no more of its bound than that it is within a millionth.
    assert bounds[-1].value - best <= (best * 1e-6 if backend == "cbc" else 0)
    for bound in bounds:
        assert bound.value >= best
    for grouping in groupings:
        assert packings.kept_by(packing, grouping.members)


@settings(
    max_examples=examples(day=20, nightly=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 6),
    objective=st.sampled_from(["throughput", "weighted_throughput", "efficiency"]),
)
def test_the_optimum_is_that_of_all_choices(seed: int, jobs: int, objective: str) -> None:
    check_against_optimum(packings.random_packing(seed, jobs, objective))


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("objective", ["throughput", "weighted_throughput", "efficiency"])
def test_every_backend_finds_the_optimum_of_seven_jobs(backend: str, objective: str) -> None:
    for seed in range(8):
        check_against_optimum(packings.random_packing(seed, 7, objective), backend)


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_of_eight_different_jobs_is_found(seed: int) -> None:
    objective = packings.OBJECTIVES[seed % 3]
    check_against_optimum(packings.random_packing(seed, 8, objective, job_types=8))


def test_jobs_whose_long_stages_differ_share_the_one_gpu() -> None:
    stages = np.diag([90, 90, 90]) + 5
    packing = packings.packing_of(
        THROUGHPUT, 3, stages=stages, iteration=[105] * 3, per_group=[[1]], limit=[1]
    )
    groupings, bounds = searched(packing)
    # Every slot lasts 95, or 105 where all are at their long stage at once: each at 105 / 285
    # apart, or 105 / 105.
    assert groupings[-1].members.tolist() == [[0, 1, 2, ALONE]]
    assert bounds[-1].value == groupings[-1].value == 3 * (10**6 * 105 // 105)


@pytest.mark.parametrize(
    ("rule", "given_"),
    [
        ("memory", {"memory": [20, 20, 20], "gpu_memory": [59]}),
        ("slowdown", {"slowdown": [0, 0, 1000], "iteration": [105, 105, 104]}),
        ("conflict", {"conflicts": [[0, 2]]}),
        ("buckets", {"bucket": [0, 0, ALONE], "per_member": [[0, 0, 1]]}),
    ],
)
def test_a_rule_keeps_three_jobs_from_one_gpu(rule: str, given_: dict[str, list[int]]) -> None:
    base = {"stages": np.diag([90, 90, 90]) + 5, "iteration": [105] * 3}
    packing = packings.packing_of(
        THROUGHPUT, 3, **(base | {"per_group": [[1]], "limit": [1]} | given_)
    )
    groupings, _ = searched(packing)
    assert (groupings[-1].members != ALONE).sum() == 2, rule
    assert groupings[-1].value == packings.optimum(packing)


def test_a_group_that_is_no_better_than_taking_turns_is_not_formed() -> None:
    stages = [[50, 1, 1], [50, 1, 1]]
    rules = replace(THROUGHPUT, contention=(2 * 10**6,) * 3)
    packing = packings.packing_of(
        rules, 2, stages=stages, iteration=[52, 52], per_group=[[1]], limit=[1]
    )
    groupings, _ = searched(packing)
    assert (groupings[-1].members != ALONE).sum() == 1


def test_a_job_that_must_be_covered_takes_the_place_of_a_better_one() -> None:
    packing = packings.packing_of(
        THROUGHPUT,
        2,
        bucket=[ALONE, ALONE],
        best=[3 * 10**6, 10**6],
        must_cover=[False, True],
        per_member=[[1, 1]],
        limit=[1],
    )
    groupings, bounds = searched(packing)
    assert groupings[-1].members[:, 0].tolist() == [1]
    assert bounds[-1].value == 10**6


def test_jobs_that_must_be_covered_and_cannot_be_leave_nothing_to_yield() -> None:
    packing = packings.packing_of(
        THROUGHPUT, 2, bucket=[ALONE] * 2, must_cover=[True, True], per_member=[[1, 1]], limit=[1]
    )
    assert searched(packing)[0] == []


def test_of_equal_jobs_the_heaviest_get_on_fastest() -> None:
    stages = [[90, 5, 5], [5, 90, 5], [90, 5, 5], [90, 5, 5]]
    packing = packings.packing_of(
        Rules("weighted_throughput"),
        4,
        stages=stages,
        iteration=[100] * 4,
        weight=[1, 1, 5, 2],
        per_group=[[1]],
        limit=[2],
    )
    groupings, _ = searched(packing)
    alone = groupings[-1].members[(groupings[-1].members != ALONE).sum(axis=1) == 1]
    assert alone.tolist() == [[2, ALONE, ALONE, ALONE]]
    assert groupings[-1].value == packings.optimum(packing)


def test_groups_are_formed_only_as_far_as_a_row_of_savings_allows() -> None:
    jobs = 8
    stages = np.tile(np.diag([90, 90, 90, 90]) + 5, (2, 1))
    for saved in range(4):
        packing = packings.packing_of(
            THROUGHPUT,
            jobs,
            stages=stages,
            iteration=[105] * jobs,
            per_group=[[1], [-1]],
            per_member=[[0] * jobs, [1] * jobs],
            limit=[2, saved],
        )
        groupings, _ = searched(packing)
        assert (groupings[-1].members != ALONE).sum() == 2 + saved


def test_the_order_of_jobs_changes_no_value() -> None:
    packing = packings.random_packing(3, 12, "weighted_throughput", job_types=5)
    order = np.random.default_rng(0).permutation(12)
    by_class = ("stages", "iteration", "slowdown", "speed", "best", "weight", "memory")
    moved = {
        name: getattr(packing, name)[order] for name in (*by_class, "bucket", "count", "must_cover")
    }
    conflicts = np.argsort(order)[packing.conflicts]
    shuffled = replace(
        packing, **moved, conflicts=conflicts, per_member=packing.per_member[:, order]
    )
    assert searched(shuffled)[0][-1].value == searched(packing)[0][-1].value


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_and_speeds_may_be_as_large_as_documents_allow(backend: str) -> None:
    for seed in range(6):
        packing = packings.random_packing(seed, 6, "weighted_throughput")
        fast = replace(packing, speed=99 * packing.speed, best=99 * packing.best)
        check_against_optimum(replace(fast, weight=333_333 * packing.weight), backend)


def test_without_time_there_is_a_greedy_grouping() -> None:
    packing = packings.random_packing(1, 8, "throughput")
    groupings, bounds = searched(packing, seconds=0.0)
    assert [g.source for g in groupings] == ["greedy"]
    assert not bounds


def test_without_jobs_the_value_is_zero() -> None:
    groupings, bounds = searched(packings.packing_of(THROUGHPUT, 0))
    assert groupings[-1].value == 0
    assert [b.value for b in bounds] == [0]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("jobs", "trace"), [(64, "trace1"), (200, "trace1"), (1000, "trace3")])
def test_rounds_of_muris_traces_are_proven(jobs: int, trace: str) -> None:
    packing = packings.muri_packing(0, jobs, trace)
    groupings, bounds = searched(packing)
    assert bounds[-1].value == groupings[-1].value
    certified = [bound.value for bound in bounds if bound.certified]
    assert certified[-1] <= 1.01 * groupings[-1].value
    assert packings.kept_by(packing, groupings[-1].members)
