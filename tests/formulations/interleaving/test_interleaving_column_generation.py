"""Generated columns: bounds that hold at any prices, and plans that keep every rule."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import by_day, examples
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation import (
    repair_duals,
    solve_by_column_generation,
)
from placewright.formulations.interleaving.set_packing.columns import (
    Columns,
    ValueBound,
    column_values,
    count_columns,
    enumerate_columns,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    improve_by_exchange,
    solve_program,
)
from placewright.formulations.interleaving.set_packing.pricing import (
    max_groups,
    rounded_prices,
    solve_pricing,
)
from placewright.formulations.interleaving.set_packing.solve import (
    solve_set_packing,
)
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.interleaving import packings

OBJECTIVES = ("throughput", "weighted_throughput", "efficiency")
MANY = 1 << 20


def new_session(seconds: float = 60.0) -> Session:
    return Session(InProcess().solve, time.monotonic() + seconds)


def searched(
    packing: PackingProblem, seconds: float = 60.0
) -> tuple[list[Grouping], list[GroupingBound]]:
    found = list(solve_by_column_generation(packing, new_session(seconds)))
    groupings = [f for f in found if isinstance(f, Grouping)]
    return groupings, [f for f in found if isinstance(f, GroupingBound)]


def check_grouping(packing: PackingProblem, grouping: Grouping) -> None:
    members = grouping.members[grouping.members != ALONE]
    used = np.bincount(members, minlength=packing.classes)
    assert (used <= packing.count).all()
    assert (used == packing.count)[packing.must_cover].all()
    assert (packing.usage(grouping.members).sum(axis=0) <= packing.limit).all()
    assert with_values(packing, grouping.members).value.sum() == grouping.value
    standing = (grouping.members[:, None] == packing.frozen_groups).all(axis=2).any(axis=1)
    assert (column_values(packing, grouping.members[~standing]) >= 0).all()


def jittered(seed: int, jobs: int, objective: str, trace: str = "trace1") -> PackingProblem:
    packing: PackingProblem = packings.muri_packing(seed, jobs, trace, objective)
    rng = np.random.default_rng(seed)
    stages = np.rint(packing.stages * rng.uniform(0.9, 1.1, packing.stages.shape)).astype(np.int64)
    iteration = np.rint(packing.iteration * rng.uniform(0.9, 1.1, jobs)).astype(np.int64)
    return replace(packing, stages=stages, iteration=iteration)


def any_prices(packing: PackingProblem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(3, 7)
    return rng.normal(0.3, 0.5, packing.classes) * scale, rng.normal(
        0.2, 0.5, len(packing.limit)
    ) * scale


seeds = settings(
    max_examples=examples(day=15, nightly=60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@seeds
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 6),
    objective=st.sampled_from(OBJECTIVES),
    work=st.sampled_from([1, 20, 100, MANY]),
)
def test_a_bound_at_any_prices_holds_however_early_the_search_stops(
    seed: int, jobs: int, objective: str, work: int
) -> None:
    packing = packings.random_packing(seed, jobs, objective)
    prices = rounded_prices(packing, *any_prices(packing, seed))
    assert prices is not None
    bound, fit = prices.base, max_groups(packing)
    for bucket in range(packing.buckets):
        if (packing.bucket == bucket).any():
            found = solve_pricing(packing, prices, bucket, 0, work, new_session())
            bound += repair_duals(packing, found, int(fit[bucket])).cost
    best = packings.optimum(packing)
    assert best is None or bound // prices.scale >= best


@seeds
@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 6), objective=st.sampled_from(OBJECTIVES))
def test_generated_bounds_and_groupings_stand_on_both_sides_of_the_optimum(
    seed: int, jobs: int, objective: str
) -> None:
    packing = packings.random_packing(seed, jobs, objective)
    best = packings.optimum(packing)
    groupings, bounds = searched(packing)
    if best is None:
        assert not groupings
        return
    for grouping in groupings:
        check_grouping(packing, grouping)
        assert grouping.value <= best
    for bound in bounds:
        assert bound.certified
        assert bound.value >= best


@pytest.mark.nightly(after=8)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(12))
def test_no_grouping_of_any_method_beats_a_bound_of_any_method(seed: int, objective: str) -> None:
    packing = packings.random_packing(seed, 14, objective)
    if seed % 2:
        packing = replace(packing, must_cover=np.zeros_like(packing.must_cover))
    groupings, bounds = searched(packing)
    for grouping in groupings:
        check_grouping(packing, grouping)
    for found in solve_program(packing, enumerate_columns(packing), new_session()):
        (groupings if isinstance(found, Grouping) else bounds).append(found)  # type: ignore[arg-type]
    if groupings:
        assert max(g.value for g in groupings) <= min(b.value for b in bounds)


def test_where_running_jobs_cannot_all_stay_nothing_is_made_of_groups_that_are_not_allowed() -> (
    None
):
    packing = packings.random_packing(1004, 17, "efficiency", job_types=17)
    groupings, _ = searched(packing)
    assert not groupings


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", by_day(range(8), 4))
def test_a_search_to_the_end_finds_every_group_that_pays(seed: int, objective: str) -> None:
    packing = replace(
        packings.random_packing(seed, 10, objective),
        frozen_groups=packings.random_packing(0, 1, objective).frozen_groups,
    )
    prices = rounded_prices(packing, *any_prices(packing, seed))
    assert prices is not None
    # Without jobs to do without, no group is left out because a part of it is worth as much.
    columns = enumerate_columns(replace(packing, must_cover=np.ones_like(packing.must_cover)))
    reduced = prices.reduced_cost(packing, columns.members, columns.value)
    for bucket in range(packing.buckets):
        there = (packing.bucket[columns.members[:, 0]] == bucket) & (columns.members[:, 1] != ALONE)
        if not (packing.bucket == bucket).any():
            continue
        found = solve_pricing(packing, prices, bucket, 0, MANY, new_session())
        assert found.rest_bound == 0
        paying = columns.members[there & (reduced > 0)]
        assert set(map(tuple, found.columns.members.tolist())) == set(map(tuple, paying.tolist()))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", by_day(range(6), 2))
def test_hope_is_never_below_what_a_column_is_worth(seed: int, objective: str) -> None:
    packing = packings.random_packing(seed, 10, objective)
    columns = enumerate_columns(packing)
    allowed = column_values(packing, columns.members) >= 0
    hope = ValueBound(packing).of(columns.members)
    assert (hope[allowed] >= columns.value[allowed]).all()
    assert (column_values(packing, columns.members)[allowed] == columns.value[allowed]).all()


@pytest.mark.parametrize("seed", by_day(range(8), 4))
def test_groups_put_together_anew_are_worth_no_less_and_keep_the_rules(seed: int) -> None:
    packing = packings.random_packing(seed, 30, "throughput")
    alone = Columns(np.full((0, 4), ALONE, dtype=np.int64), np.zeros(0, dtype=np.int64))
    groupings, _ = searched(packing)
    for grouping in groupings[:1]:
        better = improve_by_exchange(packing, with_values(packing, grouping.members), new_session())
        assert better.value.sum() >= grouping.value
        check_grouping(packing, Grouping(better.members, int(better.value.sum()), "anew"))
    assert len(improve_by_exchange(packing, alone, new_session())) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("objective", by_day(OBJECTIVES))
def test_a_hundred_distinct_jobs_are_grouped_within_three_percent(objective: str) -> None:
    packing = jittered(2, 100, objective)
    assert count_columns(packing) > parameters.PARAMETERS.max_enumerated_columns
    found = list(solve_set_packing(packing, new_session()))
    groupings = [f for f in found if isinstance(f, Grouping)]
    bounds = [f for f in found if isinstance(f, GroupingBound)]
    assert groupings[-1].value <= bounds[-1].value <= 1.03 * groupings[-1].value
    check_grouping(packing, groupings[-1])


def test_without_time_there_is_still_a_grouping_and_a_bound() -> None:
    packing = packings.random_packing(1, 40, "throughput")
    packing = replace(packing, must_cover=np.zeros_like(packing.must_cover))
    groupings, bounds = searched(packing, seconds=0.0)
    assert groupings
    assert bounds[-1].value >= groupings[-1].value


def test_columns_that_are_worth_nothing_are_no_reason_to_go_on() -> None:
    session = new_session()
    found = list(
        solve_by_column_generation(packings.random_packing(43, 2, "weighted_throughput"), session)
    )
    assert found[-1].value == 0
    assert not session.wall_stopped
