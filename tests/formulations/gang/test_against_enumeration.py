"""On tiny rounds every backend finds the optimum of all plans, and every bound is one."""

from __future__ import annotations

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings

from examples import tried
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, tiny

BACKENDS = ("highs", "cp-sat", "cbc", "scip")
STABLE = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


def plans_of(round_: Round) -> set[tuple[int, ...]]:
    try:
        plans: set[tuple[int, ...]] = oracle.attainable(round_)
    except oracle.TooManyPlansError:
        assume(False)
    return plans


def certificate_of(plan: Plan) -> Certificate:
    assert plan.certificate is not None
    return plan.certificate


def values_of(plan: Plan) -> tuple[int, ...]:
    return tuple(term.value for term in certificate_of(plan).terms)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 300), ("cp-sat", 120), ("cbc", 60), ("scip", 60)]
)
def test_the_exact_model_proves_the_optimum_of_all_plans(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.rounds())
    def check(round_: Round) -> None:
        plans = plans_of(round_)
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert values_of(plan) == oracle.optimum(round_, plans)
        assert certificate_of(plan).status == "optimal"
        assert certificate_of(plan).degraded == ()

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples", "pairs", "table"),
    [
        ("highs", 400, 8000, 60_000),
        ("highs", 200, 8000, 0),
        ("highs", 200, 0, 0),
        ("cp-sat", 150, 8000, 60_000),
        ("cbc", 60, 8000, 60_000),
    ],
)
def test_no_plan_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch, backend: str, examples: int, pairs: int, table: int
) -> None:
    """Without a table hosts are counted by sums; without pairs unequal hosts share a class, too."""
    set_parameters(monkeypatch, "models", max_shape_class_pairs=pairs)
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.rounds())
    def check(round_: Round) -> None:
        plans = plans_of(round_)
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert certificate_of(plan).degraded == ()
        oracle.check_bounds(plans, certificate_of(plan))

    check()
