"""The term `stranded` against brute force: exact on tiny rounds, and never below its bound."""

from __future__ import annotations

from typing import Any

import pytest
from gang_parameters import set_parameters
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from examples import examples, tried
from placewright.formulations.gang.bounds import stranded_lower_bound
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.policy import TaskKind
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from tests.formulations.gang import oracle, tiny
from tests.formulations.gang import oracle_running as moves

STABLE: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
}
TERMS = ("value", "stranded", "opened", "stranded", "leftover")


@st.composite
def kinds(draw: st.DrawFn) -> TaskKind:
    return TaskKind(
        gpu=f"{draw(st.sampled_from([1000, 500, 2000, 300, 0, 700, 4000]))}m",
        cpu=f"{draw(st.sampled_from([0, 1, 3, 5]))}m",
        memory=f"{draw(st.sampled_from([0, 0, 4, 9]))}Mi",
        weight=draw(st.integers(1, 4)),
    )


@st.composite
def with_stranded(draw: st.DrawFn, rounds: st.SearchStrategy[Round]) -> Round:
    """A tiny round that has `stranded` among its first terms, mostly with a mix of its own."""
    round_ = draw(rounds)
    others = [term for term in round_.policy.terms if term != "stranded"]
    at = draw(st.sampled_from([1, 1, 0]))
    terms = (*others[:at], "stranded", *others[at:])
    mix = draw(st.none() | st.lists(kinds(), min_size=1, max_size=4).map(tuple))
    policy = round_.policy.model_copy(update={"terms": terms, "mix": mix})
    round_ = round_.model_copy(update={"policy": policy})
    check_round(round_)
    return round_


def plans_of(found: Any, round_: Round) -> set[tuple[int, ...]]:
    try:
        plans: set[tuple[int, ...]] = found(round_)
    except oracle.TooManyPlansError:
        assume(False)
    return plans


def values_of(plan: Plan) -> tuple[int, ...]:
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
    return tuple(term.value for term in plan.certificate.terms)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "examples"), [("highs", 80), ("cp-sat", 30), ("cbc", 30), ("scip", 30)]
)
def test_the_exact_model_proves_what_is_stranded_least(backend: str, examples: int) -> None:
    @settings(max_examples=tried(examples), **STABLE)
    @given(with_stranded(tiny.rounds(terms=TERMS[:3], jobs=4)))
    def check(round_: Round) -> None:
        plans = plans_of(oracle.attainable, round_)
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert values_of(plan) == oracle.optimum(round_, plans)
        assert plan.certificate is not None
        assert plan.certificate.status == "optimal"
        values_of(plan)  # nothing went wrong on the way
        oracle.check_bounds(plans, plan.certificate)

    check()


def test_running_jobs_move_where_they_strand_less() -> None:
    @settings(max_examples=tried(50), **STABLE)
    @given(with_stranded(tiny.running_rounds()))
    def check(round_: Round) -> None:
        plans = plans_of(moves.attainable_with_moves, round_)
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert values_of(plan) == oracle.optimum(round_, plans)

    check()


def test_whole_gpus_go_to_those_of_jobs_that_stop() -> None:
    """By counts `old` has room beside `new`, which may have its GPU all the same."""
    old = {"count": 2, "gpu": "600m"}
    places = [{"host": "h0", "gpus": [1]}, {"host": "h1", "gpus": [1], "index": 1}]
    raw = {
        "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 2, "gpu_model": "g"}]},
        "jobs": [
            {"name": "old", "options": [{"groups": [old], "value": 2800}]},
            {"name": "new", "options": [{"groups": [{"gpu": 1}]}], "priority": 2},
        ],
        "policy": {"terms": ["stranded", "value"], "priority": "preemption"},
    }
    raw["jobs"][0]["running"] = {"tasks": places}  # type: ignore[index]
    round_ = Round.model_validate(raw)
    plan = solve_round(round_, gap=0.0, isolation="none")
    assert verify(round_, plan).ok
    assert values_of(plan) == (0, 1000 - 2800)


@pytest.mark.parametrize("moving", [False, True])
def test_no_plan_strands_less_than_the_bound_without_a_solver(moving: bool) -> None:
    rounds = tiny.running_rounds() if moving else tiny.rounds(terms=TERMS[:3], jobs=4)
    found = moves.attainable_with_moves if moving else oracle.attainable
    tight = 0

    @settings(max_examples=tried(80), **STABLE)
    @given(with_stranded(rounds))
    def check(round_: Round) -> None:
        nonlocal tight
        at = round_.policy.terms.index("stranded")
        least = min(plan[at] for plan in plans_of(found, round_))
        bound = stranded_lower_bound(compile_round(round_))
        assert 0 <= bound <= least
        tight += bound == least

    check()
    assert tight > examples(day=0, nightly=10)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("moving", [False, True])
def test_larger_rounds_have_valid_plans_and_bounds(
    monkeypatch: pytest.MonkeyPatch, moving: bool
) -> None:
    set_parameters(monkeypatch, "run", max_exact_variables=-1)
    rounds = tiny.running_rounds() if moving else tiny.rounds(terms=TERMS[:3], jobs=4)
    found = moves.attainable_with_moves if moving else oracle.attainable

    @settings(max_examples=tried(60), **STABLE)
    @given(with_stranded(rounds))
    def check(round_: Round) -> None:
        plans = plans_of(found, round_)
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        values_of(plan)  # nothing went wrong on the way
        oracle.check_bounds(plans, plan.certificate)

    check()
