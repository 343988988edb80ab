"""Many classes of few profiles: columns by filling templates, and bounds for any prices."""

from __future__ import annotations

import time
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from placewright.formulations.interleaving.set_packing import solve, template_columns
from placewright.formulations.interleaving.set_packing.columns import enumerated, valued
from placewright.formulations.interleaving.set_packing.integer_program import pack
from placewright.formulations.interleaving.set_packing.job_classes import coarser, merged
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    Grouping,
    GroupingBound,
    Pool,
)
from placewright.formulations.interleaving.set_packing.template_columns import (
    Duals,
    certified,
    fill,
    generated,
)
from placewright.formulations.interleaving.set_packing.templates import Profiles, Templates
from placewright.formulations.session import Session
from placewright.solver import InProcess

SETTINGS = {
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}
OBJECTIVES = ("throughput", "weighted_throughput", "efficiency")


def a_session(seconds: float = 60.0) -> Session:
    return Session(InProcess().solve, time.monotonic() + seconds)


def filled(pool: Pool) -> tuple[list[Grouping], list[GroupingBound]]:
    fine = merged(pool)
    found = list(fill(fine, Profiles.of_pool(fine.pool), a_session()))
    groupings = [f for f in found if isinstance(f, Grouping)]
    return groupings, [f for f in found if isinstance(f, GroupingBound)]


@settings(max_examples=80, **SETTINGS)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(2, 6),
    kinds=st.integers(1, 3),
    objective=st.sampled_from(OBJECTIVES),
)
def test_no_choice_beats_the_bound_and_every_grouping_is_a_choice(
    pools: ModuleType, seed: int, jobs: int, kinds: int, objective: str
) -> None:
    pool = pools.random_pool(seed, jobs, objective, kinds=kinds)
    best = pools.optimum(pool)
    groupings, bounds = filled(pool)
    if best is None:
        assert not groupings
        return
    assert bounds
    assert all(bound.certified and bound.value >= best for bound in bounds)
    for grouping in groupings:
        assert pools.kept_by(pool, grouping.members)
        assert grouping.value == valued(pool, grouping.members).worth.sum() <= best


@settings(max_examples=80, **SETTINGS)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 6),
    most=st.integers(1, 6),
    objective=st.sampled_from(OBJECTIVES),
)
def test_whatever_the_prices_no_choice_beats_their_bound(
    pools: ModuleType, seed: int, jobs: int, most: int, objective: str
) -> None:
    pool = pools.random_pool(seed, jobs, objective, kinds=max(jobs // 2, 1))
    best = pools.optimum(pool)
    assume(best is not None)
    fine = merged(pool)
    coarse = coarser(fine, most)
    templates = Templates.of_pool(fine.pool, Profiles.of_pool(fine.pool))
    rng = np.random.default_rng(seed)
    for size in (1.0, 10.0**5, 10.0**7):
        duals = Duals(
            rng.normal(size=coarse.pool.classes) * size, rng.normal(size=len(pool.limit)) * size
        )
        assert certified(fine, coarse, templates, duals) >= best


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_columns_that_nothing_adds_to_have_the_relaxation_of_all_columns(
    pools: ModuleType, objective: str
) -> None:
    for seed in range(12):
        jobs = pools.random_pool(seed, 9, objective, kinds=3)
        # Three jobs of each: their columns can be used three times, not one and a half.
        pool = merged(replace(jobs, count=4 * jobs.count, conflicts=jobs.conflicts[:0])).pool
        every = first_bound(pool, enumerated(pool))
        columns, duals = generated(pool, a_session())
        if every is None:
            continue
        assert duals is not None
        assert len(columns) >= pool.classes
        assert first_bound(pool, columns) == every


def first_bound(pool: Pool, columns: object) -> int | None:
    """Return the certified bound over columns."""
    for found in pack(pool, columns, a_session()):  # type: ignore[arg-type]
        if isinstance(found, GroupingBound) and found.certified:
            return found.value
    return None


def test_each_place_is_filled_by_who_earns_most_there(pools: ModuleType) -> None:
    pool = pools.pool_of(
        pools.Rules("weighted_throughput", most=2),
        4,
        stages=[[90, 5, 5], [90, 5, 5], [5, 90, 5], [5, 90, 5]],
        iteration=[100] * 4,
        weight=[1, 3, 2, 2],
        count=[2, 1, 1, 1],
    )
    profiles = Profiles.of_pool(pool)
    assert profiles.of.tolist() == [1, 1, 0, 0]
    templates = Templates.of_pool(pool, profiles)
    assert templates.members[:, :2].tolist() == [[0, 0], [0, 1], [1, 1]]
    earned, chosen = templates.filled(np.zeros(4, dtype=np.int64))
    assert chosen[:, :2].tolist() == [[2, 3], [1, 2], [0, 1]]
    assert (earned.sum(axis=1) == valued(pool, chosen).worth).all()
    # The third class costs more than it earns: then the fourth.
    _, chosen = templates.filled(np.array([0, 10**7, 10**7, 0]))
    assert chosen[:, :2].tolist() == [[2, 3], [0, 3], [0, 0]]


def test_jobs_of_close_weights_share_a_class_and_weights_keep_their_mean(
    pools: ModuleType,
) -> None:
    weight = np.array([1, 2, 3, 100, 101, 102, 7])
    pool = pools.pool_of(pools.Rules("weighted_throughput"), 7, weight=weight, memory=[0] * 6 + [1])
    fine = merged(pool)
    coarse = coarser(fine, 4)
    assert sorted(coarse.pool.count.tolist()) == [1, 2, 2, 2]
    for cls in range(4):
        mean = weight[coarse.of == cls].mean()
        assert coarse.pool.weight[cls] / coarse.unit == pytest.approx(mean, rel=1e-3)
    assert coarser(fine, 7).pool.classes == 7


@pytest.mark.parametrize("tenants", [1, 4])
def test_pools_of_many_weights_and_tenants_end_near_their_bound(
    pools: ModuleType, tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_columns, "SECONDS", 0.1)
    jobs = 80
    rng = np.random.default_rng(0)
    pool = pools.muri_pool(0, jobs, "trace1", "weighted_throughput")
    pool = replace(pool, weight=rng.integers(1, 1000 if tenants == 1 else 4, jobs))
    if tenants > 1:
        owner = np.arange(tenants)[:, None] == rng.integers(tenants, size=jobs)
        pool = replace(
            pool,
            per_group=np.vstack([pool.per_group, np.zeros((tenants, pool.buckets), np.int64)]),
            per_member=np.vstack([pool.per_member, owner]),
            limit=np.append(pool.limit, [jobs // 6] * tenants),
        )
    session = a_session()
    session.deterministic = True
    found = list(solve.group(pool, session))
    best = max(f.value for f in found if isinstance(f, Grouping))
    bound = min(f.value for f in found if isinstance(f, GroupingBound))
    assert best <= bound <= 1.02 * best
    last = [f for f in found if isinstance(f, Grouping)][-1]
    assert pools.kept_by(pool, last.members)
    assert (last.members[:, 1] != ALONE).any()


def test_without_time_a_large_pool_has_a_greedy_grouping(pools: ModuleType) -> None:
    pool = pools.random_pool(0, 60, "weighted_throughput", kinds=3)
    pool = replace(pool, weight=np.arange(60), must=np.zeros(60, dtype=np.bool_))
    fine = merged(replace(pool, conflicts=pool.conflicts[:0]))
    found = list(fill(fine, Profiles.of_pool(fine.pool), a_session(0.0)))
    assert [f.source for f in found if isinstance(f, Grouping)] == ["greedy"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_filling_comes_close_to_all_columns(pools: ModuleType, objective: str) -> None:
    for seed in range(8):
        pool = pools.random_pool(seed, 24, objective, kinds=4)
        every = [f.value for f in solve.group(pool, a_session())]
        groupings, bounds = filled(pool)
        if not groupings:
            continue
        best = groupings[-1].value
        # Of all columns the last thing found is the proven optimum or its bound.
        assert 0.98 * every[-1] <= best <= every[-1] <= bounds[-1].value
        assert bounds[-1].value <= 1.1 * every[-1]
