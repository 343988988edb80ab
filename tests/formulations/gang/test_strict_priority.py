"""Strict priority: on tiny rounds every backend finds the optimum, class by class, of all plans.

Every bound is one, of the exact model as of the count models, also where running jobs may move.
"""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings

from examples import tried
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, tiny, tiny_fair
from tests.formulations.gang import oracle_running as moves

BACKENDS = [("highs", 60), ("cp-sat", 25), ("cbc", 12), ("scip", 12)]
STABLE: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


def strict(round_: Round) -> Round:
    policy = round_.policy.model_copy(update={"priority": "strict"})
    return round_.model_copy(update={"policy": policy})


def solved(round_: Round, backend: str) -> Certificate:
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan.certificate


def kept(round_: Round) -> set[tuple[int, ...]]:
    """All plans that keep the running jobs."""
    return _few(oracle.attainable, round_)


def moved(round_: Round) -> set[tuple[int, ...]]:
    """All plans."""
    return _few(moves.attainable_with_moves, round_)


def _few(enumerate_plans: Any, round_: Round) -> set[tuple[int, ...]]:
    try:
        plans: set[tuple[int, ...]] = enumerate_plans(round_)
    except oracle.TooManyPlansError:
        assume(False)
    return plans


def values_of(certificate: Certificate) -> tuple[int, ...]:
    return tuple(term.value for term in certificate.terms)


@pytest.mark.parametrize(("backend", "examples"), BACKENDS)
def test_the_exact_model_starts_the_highest_class_first(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.rounds().map(strict))
    def check(round_: Round) -> None:
        plans = kept(round_)
        certificate = solved(round_, backend)
        assert values_of(certificate) == oracle.optimum(round_, plans)
        assert certificate.status == "optimal"

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "examples"), BACKENDS)
def test_the_exact_model_stops_no_job_for_a_lower_class(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.running_rounds().map(strict))
    def check(round_: Round) -> None:
        plans = moved(round_)
        certificate = solved(round_, backend)
        assert values_of(certificate) == oracle.optimum(round_, plans)
        assert certificate.status == "optimal"

    check()


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(("backend", "examples"), BACKENDS)
def test_jobs_that_a_guarantee_covers_are_of_a_higher_class(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples // 2), **STABLE)
    @given(tiny_fair.full_rounds().map(strict))
    def check(drawn: Round) -> None:
        terms = tuple(t for t in ("value", *drawn.policy.terms) if t != "share")
        policy = drawn.policy.model_copy(update={"terms": tuple(dict.fromkeys(terms))})
        round_ = drawn.model_copy(update={"policy": policy})
        plans = moved(round_)
        certificate = solved(round_, backend)
        assert values_of(certificate) == oracle.optimum(round_, plans)

    check()


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize(
    ("backend", "examples", "table"),
    [("highs", 60, 60_000), ("highs", 30, 0), ("cp-sat", 20, 60_000), ("cbc", 10, 60_000)],
)
@pytest.mark.parametrize("running", [False, True])
def test_no_plan_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch, backend: str, examples: int, table: int, running: bool
) -> None:
    """Without a table hosts are counted by sums."""
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)
    rounds = tiny.running_rounds() if running else tiny.rounds()

    @settings(max_examples=tried(examples // 2), **STABLE)
    @given(rounds.map(strict))
    def check(round_: Round) -> None:
        plans = moved(round_) if running else kept(round_)
        oracle.check_bounds(plans, solved(round_, backend))

    check()
