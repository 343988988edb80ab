"""On tiny rounds with pools every backend finds the optimum of all plans; bounds are bounds."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, oracle_pools, tiny_pools

STABLE: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
Plans = set[tuple[int, ...]]


def plans_of(pools: ModuleType, round_: Round) -> Plans:
    try:
        plans: Plans = pools.PoolOracle(round_).attainable()
    except pools.TooManyPlansError:
        assume(False)
    return plans


def solved(round_: Round, backend: str) -> Certificate:
    """The certificate of a plan that is verified and was made without a fault on the way."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    found = verify(round_, plan)
    assert found.ok, found.violations
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "number"), [("highs", 40), ("cp-sat", 30), ("cbc", 15), ("scip", 15)]
)
def test_the_exact_model_proves_the_optimum_of_all_plans_with_pools(
    backend: str, number: int
) -> None:
    @settings(max_examples=examples(day=max(4, number // 6), nightly=number, long=1000), **STABLE)
    @given(st.booleans().flatmap(lambda moves: tiny_pools.pool_rounds(moves=moves)))
    def check(round_: Round) -> None:
        plans = plans_of(oracle_pools, round_)
        certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)
        values = tuple(term.value for term in certificate.terms)
        assert values == oracle.optimum(round_, plans)
        # Where stops are rewarded, a plan on other GPUs may be better than what an operator signs.
        if "remaining" not in round_.policy.terms:
            assert certificate.status == "optimal"

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_what_a_job_that_moves_leaves_of_a_full_pool_is_for_those_above_the_victim(
    backend: str,
) -> None:
    # In 6 of the first 30 rounds a better plan would give it to others.
    for seed in range(100, 100 + examples(day=6, nightly=30, long=1000)):
        round_ = tiny_pools.full_racks(Random(seed))
        plans = oracle_pools.PoolOracle(round_).attainable()
        certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)
        values = tuple(term.value for term in certificate.terms)
        assert (values, certificate.status) == (oracle.optimum(round_, plans), "optimal"), seed


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(
    ("pairs", "table", "number"), [(8000, 60_000, 40), (8000, 0, 20), (0, 0, 20)]
)
def test_no_plan_with_pools_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch, pairs: int, table: int, number: int
) -> None:
    set_parameters(monkeypatch, "models", max_shape_class_pairs=pairs)
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=examples(day=max(4, number // 6), nightly=number, long=1000), **STABLE)
    @given(st.booleans().flatmap(lambda moves: tiny_pools.pool_rounds(moves=moves)))
    def check(round_: Round) -> None:
        plans = plans_of(oracle_pools, round_)
        oracle.check_bounds(plans, solved(round_, "highs"))

    check()
