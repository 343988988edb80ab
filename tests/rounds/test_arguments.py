"""What callers may ask: arguments are checked before any search, and their errors stay theirs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round, RoundLimits
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import verify
from placewright.rounds import Engine, prove_bounds, solve_round
from placewright.rounds.settings import MOST_SECONDS, MOST_SEED, Settings

NAN, INF = float("nan"), float("inf")
WRONG: dict[str, list[Any]] = {
    "time_limit": [NAN, INF, -INF, -1, -1e-9, 1e6, "1", True, [1], 1j],
    "gap": [NAN, INF, -1, 1.5, "0"],
    "seed": [-1, 2**31, 2**40, 0.5, NAN, "1", False],
    "backend": ["", "HiGHS", "gurobi", None, 3, ["highs"]],
    "isolation": ["foo", "", None, 1],
    "deterministic": ["yes", 2, 0.0],
}
RIGHT: dict[str, list[Any]] = {
    "time_limit": [None, 0, 0.5, MOST_SECONDS],
    "gap": [None, 0, 1, 0.5],
    "seed": [None, 0, MOST_SEED],
    "backend": ["auto", "highs", "cp-sat", "cbc", "scip"],
    "isolation": ["process", "none"],
    "deterministic": [None, True, False],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=repr)
def test_a_wrong_argument_is_refused_at_once(full_cluster: Round, name: str, value: Any) -> None:
    """By all who take it; where it is, its value and what was expected are reported."""
    calls: list[Callable[..., Any]] = [solve_round, Engine]
    if name in ("time_limit", "backend", "isolation"):
        # The plan is not even looked at.
        calls.append(lambda round_, **given: prove_bounds(round_, Plan(decisions=()), **given))
    for call in calls:
        with pytest.raises(InvalidInputError, match="expected") as refused:
            call(full_cluster, **{name: value})
        assert refused.value.path == (name,)
        assert refused.value.value is value


@pytest.mark.parametrize("round_", [None, {}, "round.json"])
def test_what_is_no_round_is_refused(round_: Any) -> None:
    for call in (solve_round, Engine):
        with pytest.raises(InvalidInputError, match="expected a Round"):
            call(round_)


def test_what_is_no_executor_is_refused(full_cluster: Round) -> None:
    policy = full_cluster.policy.model_copy(update={"formulation": "geo"})
    geo = trusted(full_cluster.model_copy(update={"policy": policy}))
    for call in (solve_round, Engine):
        with pytest.raises(InvalidInputError, match="executor: 'local': expected an Executor"):
            call(geo, executor="local")
    with ThreadPoolExecutor(1) as pool:
        Engine(geo, executor=pool)


def test_arguments_are_as_wide_as_the_limits_of_a_round(full_cluster: Round) -> None:
    for name in ("time_limit", "gap", "seed", "deterministic"):
        field = "time_s" if name == "time_limit" else name
        for value in RIGHT[name]:
            Settings.of(full_cluster, **{name: value})
            if value is not None:
                RoundLimits(**{field: value})
        for value in WRONG[name]:
            with pytest.raises(InvalidInputError, match=f"^{field}: "):
                RoundLimits(**{field: value})


@settings(max_examples=examples(day=15, nightly=60))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.sampled_from(RIGHT[name] * 3 + WRONG[name])
            | st.floats()
            | st.integers(-(2**40), 2**40)
            for name in RIGHT
        },
    )
)
def test_arguments_are_refused_or_lead_to_a_plan(
    full_cluster: Round, given_: dict[str, Any]
) -> None:
    try:
        plan = solve_round(full_cluster, **{"time_limit": 0.2, "isolation": "none", **given_})
    except InvalidInputError as error:
        assert error.path[0] in given_
        return
    assert verify(full_cluster, plan).ok
    assert plan.certificate is not None
    # Limits are short: a loaded machine may not even have started a solver's process by then.
    assert all(note.endswith("killed at the limit") for note in plan.certificate.degraded)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_what_progress_raises_reaches_the_caller_as_it_is(full_cluster: Round, call: int) -> None:
    boom, calls = ValueError("boom"), 0

    def progress(value: int, bound: float | None) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise boom

    with pytest.raises(ValueError, match="boom") as raised:
        solve_round(full_cluster, isolation="none", progress=progress)
    assert raised.value is boom
    assert raised.traceback[-1].name == "progress"
    assert calls == call
    with Engine(full_cluster, isolation="none", progress=progress) as engine:
        calls = 0
        with pytest.raises(ValueError, match="boom"):
            engine.round()
        assert engine.state is full_cluster
        with pytest.raises(RuntimeError, match="no round has been decided yet"):
            engine.round_solved  # noqa: B018
        plan = engine.round()
        assert plan.certificate is not None
        assert plan.certificate.degraded == ()
