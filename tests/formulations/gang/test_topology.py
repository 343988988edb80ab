"""Joint levels, slices, failure domains and anti-affinity: the optimum of all plans, and bounds."""

from __future__ import annotations

from types import ModuleType

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings

from examples import tried
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Certificate, Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, oracle_arrangement, tiny_arrangement

STABLE = {
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
}


def plans_of(oracle: ModuleType, round_: Round) -> set[tuple[int, ...]]:
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


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize(
    ("backend", "moving", "examples"),
    [
        ("highs", False, 100),
        ("highs", True, 70),
        ("cp-sat", False, 30),
        ("cp-sat", True, 20),
        ("cbc", False, 25),
        ("cbc", True, 20),
        ("scip", False, 20),
        ("scip", True, 20),
    ],
)
def test_the_exact_model_proves_the_optimum_of_tied_options(
    backend: str, moving: bool, examples: int
) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(tiny_arrangement.rounds(moving=moving))
    def check(round_: Round) -> None:
        plans = plans_of(oracle_arrangement, round_)
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert certificate_of(plan).degraded == ()
        assert values_of(plan) == oracle.optimum(round_, plans)
        assert certificate_of(plan).status == "optimal"

    check()


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("table", [60_000, 0])
def test_no_plan_with_tied_options_beats_a_bound_of_the_count_model(
    monkeypatch: pytest.MonkeyPatch, moving: bool, table: int
) -> None:
    set_parameters(monkeypatch, "models", max_host_table_entries=table)
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    set_parameters(monkeypatch, "neighbourhood", max_failures=2)

    @settings(max_examples=tried(50), **STABLE)
    @given(tiny_arrangement.rounds(moving=moving))
    def check(round_: Round) -> None:
        plans = plans_of(oracle_arrangement, round_)
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert certificate_of(plan).degraded == ()
        oracle.check_bounds(plans, certificate_of(plan))

    check()


def test_a_slice_of_which_one_task_stays_is_filled_up_where_that_is() -> None:
    """Two tasks move, one of each slice: a third one has to, or both slices are torn apart."""
    host = {"gpus": 2, "gpu_model": "A"}
    places = [("a0", 0), ("a1", 0), ("a0", 1), ("a1", 1)]
    group = {"gpu": 1, "count": 4, "slices": {"size": 2, "required": "rack"}}
    tasks = [{"index": i, "host": h, "gpus": [gpu]} for i, (h, gpu) in enumerate(places)]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": name, "level": "rack"} for name in "ab"],
                "hosts": [
                    {**host, "name": "a[0-1]", "parent": "a"},
                    {**host, "name": "b0", "parent": "b"},
                ],
            },
            "jobs": [{"name": "j", "options": [{"groups": [group]}], "running": {"tasks": tasks}}],
            "policy": {"terms": ["remaining", "disruption"], "vacate": ["a1"]},
        }
    )
    check_round(round_)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert certificate_of(plan).degraded == ()
    assert certificate_of(plan).status == "optimal"
    assert values_of(plan) == (0, 3000)


def test_a_pinned_job_keeps_others_of_its_label_away() -> None:
    label = {"anti_affinity": {"label": "replica", "level": "host"}}
    job = {"options": [{"groups": [{"gpu": 1}]}], **label}
    pinned = {"pinned": True, "tasks": [{"host": "h0", "gpus": [0]}]}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "A"}]},
            "jobs": [{**job, "name": "runs", "running": pinned}, {**job, "name": "waits"}],
            "policy": {"terms": ["value", "opened"]},
        }
    )
    check_round(round_)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert [task.host for task in plan["waits"].tasks] == ["h1"]
    assert certificate_of(plan).status == "optimal"
    assert certificate_of(plan).degraded == ()
