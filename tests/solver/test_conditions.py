"""Rows with a condition: the big-M is the smallest valid one, and CP-SAT's scaling is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pulp
import pytest

from examples import examples
from placewright.solver import InProcess, Limits, Model, Status, UnsupportedModelError, big_m
from placewright.solver.certify import multipliers

LIMITS = Limits(seconds=20.0, gap=0.0)


def conditional(lower: float = -np.inf, upper: float = np.inf, *, top: float = 5) -> Model:
    model = Model()
    switch = model.variables("switch", 1, upper=1)
    columns = model.variables("x", 2, lower=-1, upper=top)
    row = model.rows("limit", 1, lower=lower, upper=upper, when=switch)
    model.add(row, columns, [2, -1])
    return model


def test_big_m_of_an_upper_bound_is_the_largest_excess() -> None:
    plain = big_m(conditional(upper=4).arrays(None))
    # 2 x - y is at most 11, so 7 above its bound.
    assert plain.data.tolist() == [7, 2, -1]
    assert plain.row_upper.tolist() == [11]
    assert (plain.when == -1).all()


def test_big_m_of_a_lower_bound_is_the_largest_deficit() -> None:
    plain = big_m(conditional(lower=0).arrays(None))
    assert plain.data.tolist() == [-7, 2, -1]
    assert plain.row_lower.tolist() == [-7]
    assert plain.row_upper.tolist() == [np.inf]


def test_row_with_two_bounds_becomes_two_and_keeps_its_name() -> None:
    model = conditional(lower=0, upper=4)
    model.rows("last", 1, upper=3)
    plain = big_m(model.arrays(None))
    assert [plain.row_name(row) for row in range(plain.rows)] == [
        "row 0 of block 'limit'",
        "row 1 of block 'limit'",
        "row 2 of block 'last'",
    ]
    assert plain.row_upper.tolist() == [11, np.inf, 3]
    assert plain.row_lower.tolist() == [-np.inf, -7, -np.inf]


def test_row_that_always_holds_needs_no_factor_and_one_without_bounds_vanishes() -> None:
    assert big_m(conditional(upper=11).arrays(None)).data.tolist() == [2, -1]
    assert big_m(conditional().arrays(None)).rows == 0


def test_literal_inside_its_own_row_is_counted_once() -> None:
    model = conditional(upper=4)
    model.add(0, 0, 3)
    plain = big_m(model.arrays(None))
    assert plain.data.tolist() == [10, 2, -1]
    assert plain.row_upper.tolist() == [11]


def test_arrays_without_conditions_come_back_as_they_are() -> None:
    arrays = conditional().arrays(None, without=("limit",))
    assert big_m(arrays) is arrays


def test_unbounded_activity_is_refused_by_name() -> None:
    arrays = conditional(upper=4, top=np.inf).arrays(None)
    with pytest.raises(UnsupportedModelError, match="row 0 of block 'limit'"):
        big_m(arrays)
    for backend in ("highs", "cbc"):
        with pytest.raises(UnsupportedModelError, match="row 0 of block 'limit'"):
            InProcess().solve(backend, arrays, LIMITS)


def test_condition_counts_only_where_its_literal_is_one() -> None:
    arrays = conditional(upper=4).arrays(None)
    assert arrays.violations(np.array([1.0, 5, 0])).tolist() == [0]
    assert arrays.violations(np.array([0.0, 5, 0])).tolist() == []


def test_duals_are_withheld_when_rows_have_conditions() -> None:
    model = conditional(upper=4)
    model.term("value", [1, 2], 1, sense="max")
    arrays = model.arrays("value", relax=True)
    assert InProcess().solve("highs", arrays, LIMITS).row_duals is None
    assert InProcess().solve("highs", big_m(arrays), LIMITS).row_duals.shape == (1,)


def test_a_row_with_a_condition_proves_nothing() -> None:
    model = conditional(upper=4)
    model.term("value", [1, 2], 1, sense="max")
    assert multipliers(model.arrays("value", relax=True), np.ones(1)).tolist() == [0]


def packing(coefficients, upper: float, top: float = np.inf) -> Model:
    model = Model()
    columns = model.variables("x", len(coefficients), upper=top)
    model.add(model.rows("cap", 1, upper=upper), columns, coefficients)
    model.term("value", columns, 1, sense="max")
    return model


@pytest.mark.parametrize(
    ("coefficients", "upper", "optimum"),
    [
        ([0.1, 0.7], 0.3, 3),
        ([1 / 3, 1], 1.0, 3),
        ([0.25, 0.125], 1.0, 8),
        ([1, 1], 2.9999999999, 3),
    ],
)
def test_cp_sat_scales_fractions_and_bounds_open_columns(coefficients, upper, optimum) -> None:
    outcome = InProcess().solve("cp-sat", packing(coefficients, upper).arrays("value"), LIMITS)
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == outcome.bound == optimum


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (packing([np.pi, 1], 9), "coefficient 3.14159.* of row 0 of block 'cap'"),
        (packing([-1, 1], 9), "column 0 has bounds 0.0 to inf"),
        (packing([1e15, 1], 9, top=1e9), "row 0 of block 'cap' reaches"),
        (packing([1 / 999983, 1 / 999979], 9), "common denominator"),
    ],
)
def test_cp_sat_refuses_what_does_not_scale(model: Model, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        InProcess().solve("cp-sat", model.arrays("value"), LIMITS)


def test_enumeration_refuses_large_boxes_and_continuous_columns() -> None:
    with pytest.raises(UnsupportedModelError, match="at most 2000000"):
        InProcess().solve("enumeration", packing([1] * 30, 9, top=1).arrays("value"), LIMITS)
    with pytest.raises(UnsupportedModelError, match="column 0 is continuous"):
        InProcess().solve("enumeration", packing([1], 9).arrays("value", relax=True), LIMITS)


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip", "enumeration"])
def test_models_without_columns_have_a_status_too(backend: str) -> None:
    model = Model()
    model.term("value", [], [], sense="max", constant=3)
    outcome = InProcess().solve(backend, model.arrays("value"), LIMITS)
    assert (outcome.status, outcome.objective, outcome.bound) == (Status.OPTIMAL, 3, 3)
    model.rows("impossible", 1, lower=1)
    assert InProcess().solve(backend, model.arrays("value"), LIMITS).status is Status.INFEASIBLE


@pytest.mark.parametrize("backend", ["highs", "cbc", "scip"])
def test_unbounded_and_infeasible_are_distinguished(backend: str) -> None:
    model = Model()
    columns = model.variables("x", 2)
    model.add(model.rows("difference", 1, lower=0), columns, [1, -1])
    model.term("value", columns, 1, sense="max")
    assert InProcess().solve(backend, model.arrays("value"), LIMITS).status is Status.UNBOUNDED
    model.add(model.rows("impossible", 1, upper=-1), columns, 1)
    assert InProcess().solve(backend, model.arrays("value"), LIMITS).status is Status.INFEASIBLE


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
def test_work_limit_repeats_its_answer_and_a_start_is_taken(backend: str) -> None:
    rng = np.random.default_rng(5)
    model = Model()
    columns = model.variables("x", 40, upper=3)
    rows = model.rows("cap", 12, upper=400)
    model.add(rows[:, None], columns[None, :], rng.integers(1, 60, (12, 40)))
    model.term("value", columns, rng.integers(20, 40, 40), sense="max")
    arrays = model.arrays("value")
    limits = Limits(seconds=60.0, work=examples(day=0.02, nightly=0.05))
    first, second = (
        InProcess().solve(backend, arrays, limits, start=np.zeros(40)) for _ in range(2)
    )
    assert first.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert not first.wall_stopped
    assert first.values.tolist() == second.values.tolist()
    assert first.bound == second.bound
    assert first.bound >= first.objective


@pytest.mark.parametrize("seed", [0, 2**31 - 1])
def test_no_seed_of_cbc_is_taken_from_the_time_of_day(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """CBC reads a seed of 0 as the time: equal rounds had other plans and proofs each second."""
    options_seen: list[str] = []
    program = pulp.COIN_CMD

    def spy(**settings: Any) -> pulp.COIN_CMD:
        options_seen.extend(settings["options"])
        return program(**settings)

    monkeypatch.setattr(pulp, "COIN_CMD", spy)
    model = Model()
    model.term("value", model.variables("x", 2, upper=3), 1, sense="max")
    InProcess().solve("cbc", model.arrays("value"), Limits(seconds=20.0, seed=seed))
    seeds = [int(option.split()[1]) for option in options_seen if "eed" in option]
    assert len(seeds) == 2
    assert min(seeds) > 0
