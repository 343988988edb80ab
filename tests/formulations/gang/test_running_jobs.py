"""On tiny rounds whose running jobs may move every backend finds the optimum of all plans.

Every bound is one, of the exact model as of the count models; the presets' rounds included.
"""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import examples, tried
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves

PRESETS = (None, "drain", "hot_swap", "defragment", "minimal_victims")
STABLE: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}


Plans = set[tuple[int, ...]]


def plans_of(round_: Round) -> tuple[Plans, Plans]:
    """All plans, and those that are lawful by counts of whole GPUs, too."""
    try:
        plans: tuple[Plans, Plans] = moves.attainable_by_counts(round_)
    except oracle.TooManyPlansError:
        assume(False)
    return plans


def solved(round_: Round, backend: str) -> tuple[Plan, Certificate]:
    """The plan, verified and made without a fault on the way, and its certificate."""
    plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return plan, plan.certificate


def values_of(certificate: Certificate) -> tuple[int, ...]:
    return tuple(term.value for term in certificate.terms)


def rewards_stops_on_shared_gpus(round_: Round) -> bool:
    """Whether who shares a GPU with whom decides who may stop, and it is worth something.

    The rows of preemption are not exact there (models/host/solve.py).
    """
    groups = [g for job in round_.jobs for option in job.options for g in option.groups]
    return "remaining" in round_.policy.terms and any(0 < group.gpu < 1000 for group in groups)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 50), ("cp-sat", 20), ("cbc", 10), ("scip", 10)]
)
def test_the_exact_model_proves_the_optimum_of_all_moves(
    backend: str, examples: int, preset: str | None
) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(st.booleans().flatmap(lambda whole: tiny.running_rounds(preset=preset, whole=whole)))
    def check(round_: Round) -> None:
        every, counted = plans_of(round_)
        _, certificate = solved(round_, backend)
        oracle.check_bounds(every, certificate)
        if rewards_stops_on_shared_gpus(round_):
            return
        found = oracle.optimum(round_, counted)
        assert values_of(certificate) == found
        if oracle.optimum(round_, every) == found:
            assert certificate.status == "optimal"

    check()


def test_jobs_move_and_stop_in_the_optima() -> None:
    """The rounds above would prove little if keeping all were always best."""
    seen = {"migrate": 0, "preempt": 0, "start": 0, "keep": 0, "wait": 0}

    @settings(max_examples=examples(day=15, nightly=60), **STABLE)
    @given(tiny.running_rounds(preset="drain"))
    def check(round_: Round) -> None:
        plan, _ = solved(round_, "highs")
        for kind in {decision.decision.value for decision in plan.decisions}:
            seen[kind] += 1

    check()
    assert min(seen.values()) >= examples(day=0, nightly=3), seen


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("backend", "examples", "pairs", "table", "whole"),
    [
        ("highs", 50, 8000, 60_000, True),
        ("highs", 35, 8000, 60_000, False),
        ("highs", 35, 8000, 0, False),
        ("highs", 25, 0, 0, True),
        ("cp-sat", 15, 8000, 60_000, True),
        ("cbc", 8, 8000, 60_000, True),
    ],
)
def test_no_plan_with_moves_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    examples: int,
    pairs: int,
    table: int,
    whole: bool,
    preset: str | None,
) -> None:
    """Without a table hosts are counted by sums; without pairs unequal hosts share a class, too."""
    set_parameters(monkeypatch, "models", max_shape_class_pairs=pairs)
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny.running_rounds(preset=preset, whole=whole))
    def check(round_: Round) -> None:
        plans, _ = plans_of(round_)
        _, certificate = solved(round_, backend)
        oracle.check_bounds(plans, certificate)

    check()
