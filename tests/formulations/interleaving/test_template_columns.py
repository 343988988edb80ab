"""Many classes of few profiles: columns by filling templates, and bounds for any prices."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from formulation_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing import solve
from placewright.formulations.interleaving.set_packing.columns import (
    enumerate_columns,
    merge_classes,
    merge_weights,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import solve_program
from placewright.formulations.interleaving.set_packing.solve import (
    Duals,
    Profiles,
    Templates,
    certified_bound,
    generate_columns,
    solve_by_templates,
)
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.interleaving import packings

SETTINGS = {
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}
OBJECTIVES = ("throughput", "weighted_throughput", "efficiency")


def a_session(seconds: float = 60.0) -> Session:
    return Session(InProcess().solve, time.monotonic() + seconds)


def filled(packing: PackingProblem) -> tuple[list[Grouping], list[GroupingBound]]:
    fine = merge_classes(packing)
    found = list(solve_by_templates(fine, Profiles.of_problem(fine.packing), a_session()))
    groupings = [f for f in found if isinstance(f, Grouping)]
    return groupings, [f for f in found if isinstance(f, GroupingBound)]


@settings(max_examples=examples(day=20, nightly=80), **SETTINGS)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(2, 6),
    job_types=st.integers(1, 3),
    objective=st.sampled_from(OBJECTIVES),
)
def test_no_choice_beats_the_bound_and_every_grouping_is_a_choice(
    seed: int, jobs: int, job_types: int, objective: str
) -> None:
    packing = packings.random_packing(seed, jobs, objective, job_types=job_types)
    best = packings.optimum(packing)
    groupings, bounds = filled(packing)
    if best is None:
        assert not groupings
        return
    assert bounds
    assert all(bound.certified and bound.value >= best for bound in bounds)
    for grouping in groupings:
        assert packings.kept_by(packing, grouping.members)
        assert grouping.value == with_values(packing, grouping.members).value.sum() <= best


@settings(max_examples=examples(day=20, nightly=80), **SETTINGS)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 6),
    most=st.integers(1, 6),
    objective=st.sampled_from(OBJECTIVES),
)
def test_whatever_the_prices_no_choice_beats_their_bound(
    seed: int, jobs: int, most: int, objective: str
) -> None:
    packing = packings.random_packing(seed, jobs, objective, job_types=max(jobs // 2, 1))
    best = packings.optimum(packing)
    assume(best is not None)
    fine = merge_classes(packing)
    coarse = merge_weights(fine, most)
    templates = Templates.of_problem(fine.packing, Profiles.of_problem(fine.packing))
    rng = np.random.default_rng(seed)
    for size in (1.0, 10.0**5, 10.0**7):
        duals = Duals(
            rng.normal(size=coarse.packing.classes) * size,
            rng.normal(size=len(packing.limit)) * size,
        )
        assert certified_bound(fine, coarse, templates, duals) >= best


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_columns_that_nothing_adds_to_have_the_relaxation_of_all_columns(objective: str) -> None:
    for seed in range(12):
        jobs = packings.random_packing(seed, 9, objective, job_types=3)
        # Three jobs of each: their columns can be used three times, not one and a half.
        packing = merge_classes(
            replace(jobs, count=4 * jobs.count, conflicts=jobs.conflicts[:0])
        ).packing
        every = first_bound(packing, enumerate_columns(packing))
        columns, duals = generate_columns(packing, a_session())
        if every is None:
            continue
        assert duals is not None
        assert len(columns) >= packing.classes
        assert first_bound(packing, columns) == every


def first_bound(packing: PackingProblem, columns: object) -> int | None:
    """Return the certified bound over columns."""
    for found in solve_program(packing, columns, a_session()):  # type: ignore[arg-type]
        if isinstance(found, GroupingBound) and found.certified:
            return found.value
    return None


def test_each_place_is_filled_by_who_earns_most_there() -> None:
    packing = packings.packing_of(
        packings.Rules("weighted_throughput", max_members=2),
        4,
        stages=[[90, 5, 5], [90, 5, 5], [5, 90, 5], [5, 90, 5]],
        iteration=[100] * 4,
        weight=[1, 3, 2, 2],
        count=[2, 1, 1, 1],
    )
    profiles = Profiles.of_problem(packing)
    assert profiles.of.tolist() == [1, 1, 0, 0]
    templates = Templates.of_problem(packing, profiles)
    assert templates.members[:, :2].tolist() == [[0, 0], [0, 1], [1, 1]]
    earned, chosen = templates.fill(np.zeros(4, dtype=np.int64))
    assert chosen[:, :2].tolist() == [[2, 3], [1, 2], [0, 1]]
    assert (earned.sum(axis=1) == with_values(packing, chosen).value).all()
    # The third class costs more than it earns: then the fourth.
    _, chosen = templates.fill(np.array([0, 10**7, 10**7, 0]))
    assert chosen[:, :2].tolist() == [[2, 3], [0, 3], [0, 0]]


def test_jobs_of_close_weights_share_a_class_and_weights_keep_their_mean() -> None:
    weight = np.array([1, 2, 3, 100, 101, 102, 7])
    packing = packings.packing_of(
        packings.Rules("weighted_throughput"), 7, weight=weight, memory=[0] * 6 + [1]
    )
    fine = merge_classes(packing)
    coarse = merge_weights(fine, 4)
    assert sorted(coarse.packing.count.tolist()) == [1, 2, 2, 2]
    for cls in range(4):
        mean = weight[coarse.of == cls].mean()
        assert coarse.packing.weight[cls] / coarse.unit == pytest.approx(mean, rel=1e-3)
    assert merge_weights(fine, 7).packing.classes == 7


@pytest.mark.parametrize("tenants", [1, 4])
def test_packings_of_many_weights_and_tenants_end_near_their_bound(
    tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_parameters(monkeypatch, parameters, template_mip_seconds=0.1)
    jobs = 80
    rng = np.random.default_rng(0)
    packing = packings.muri_packing(0, jobs, "trace1", "weighted_throughput")
    packing = replace(packing, weight=rng.integers(1, 1000 if tenants == 1 else 4, jobs))
    if tenants > 1:
        owner = np.arange(tenants)[:, None] == rng.integers(tenants, size=jobs)
        packing = replace(
            packing,
            per_group=np.vstack(
                [packing.per_group, np.zeros((tenants, packing.buckets), np.int64)]
            ),
            per_member=np.vstack([packing.per_member, owner]),
            limit=np.append(packing.limit, [jobs // 6] * tenants),
        )
    session = a_session()
    session.deterministic = True
    found = list(solve.solve_set_packing(packing, session))
    best = max(f.value for f in found if isinstance(f, Grouping))
    bound = min(f.value for f in found if isinstance(f, GroupingBound))
    assert best <= bound <= 1.02 * best
    last = [f for f in found if isinstance(f, Grouping)][-1]
    assert packings.kept_by(packing, last.members)
    assert (last.members[:, 1] != ALONE).any()


def test_without_time_a_large_problem_has_a_greedy_grouping() -> None:
    packing = packings.random_packing(0, 60, "weighted_throughput", job_types=3)
    packing = replace(packing, weight=np.arange(60), must_cover=np.zeros(60, dtype=np.bool_))
    fine = merge_classes(replace(packing, conflicts=packing.conflicts[:0]))
    found = list(solve_by_templates(fine, Profiles.of_problem(fine.packing), a_session(0.0)))
    assert [f.source for f in found if isinstance(f, Grouping)] == ["greedy"]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_filling_comes_close_to_all_columns(objective: str) -> None:
    for seed in range(examples(day=3, nightly=8)):
        packing = packings.random_packing(seed, 24, objective, job_types=4)
        every = [f.value for f in solve.solve_set_packing(packing, a_session())]
        groupings, bounds = filled(packing)
        if not groupings:
            continue
        best = groupings[-1].value
        # Of all columns the last thing found is the proven optimum or its bound.
        assert 0.98 * every[-1] <= best <= every[-1] <= bounds[-1].value
        assert bounds[-1].value <= 1.1 * every[-1]
