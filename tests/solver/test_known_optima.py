"""Small programs whose optimum is known by a formula, where solvers have been wrong before.

HiGHS 1.13 and 1.14 return wrong optima for mixed-integer programs with status Optimal (HiGHS
issues 2957, 2961, 2975, 2980): presolve let a continuous column that stands in one row only cover
that row together with integer columns, and counted the row's activity wrongly.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import tried
from placewright.solver import (
    InProcess,
    Limits,
    Model,
    Status,
    certified_bound,
    get_backend,
    multipliers,
)

LIMITS = Limits(seconds=30.0, gap=0.0)


@settings(max_examples=tried(150))
@given(
    need=st.integers(1, 60).map(lambda quarters: quarters / 4),
    prices=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    gains=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    tops=st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4)),
)
def test_cheapest_cover_with_a_continuous_singleton_column(need, prices, gains, tops) -> None:
    model = Model()
    columns = model.variables("x", 3, upper=tops, integer=[False, True, True])
    model.add(model.rows("need", 1, lower=need), columns, gains)
    model.term("price", columns, prices, sense="min")

    expected = np.inf
    for counts in itertools.product(range(tops[1] + 1), range(tops[2] + 1)):
        rest = max(0.0, need - np.dot(gains[1:], counts)) / gains[0]
        if rest <= tops[0]:
            expected = min(expected, prices[0] * rest + np.dot(prices[1:], counts))
    for backend in ("highs", "cbc", "scip"):
        outcome = InProcess().solve(backend, model.arrays("price"), LIMITS)
        if np.isinf(expected):
            assert outcome.status is Status.INFEASIBLE
        else:
            assert outcome.status is Status.OPTIMAL
            assert outcome.objective == pytest.approx(expected)


@pytest.mark.parametrize("backend", ["highs", "cbc", "scip"])
def test_continuous_column_fills_what_an_integer_column_may_leave(backend: str) -> None:
    model = Model()
    part, whole = model.variables("x", 2, upper=10, integer=[False, True])
    model.add(model.rows("need", 1, lower=6.25), [part, whole], [1, 1])
    model.term("price", [part, whole], [3, 5], sense="min")
    outcome = InProcess().solve(backend, model.arrays("price"), LIMITS)
    assert outcome.objective == pytest.approx(18.75)
    assert outcome.values.tolist() == pytest.approx([6.25, 0.0])


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("seed", range(6))
def test_highs_and_cp_sat_agree_on_packing_with_general_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = Model()
    opened = model.variables("bin", 4, upper=1)
    items = model.variables("item", (4 * 6), upper=8).reshape(4, 6)
    sizes, demand = rng.integers(7, 40, 6), rng.integers(2, 9, 6)
    capacity = model.rows("capacity", 4, upper=0)
    model.add(capacity[:, None], items, sizes[None, :])
    model.add(capacity, opened, -100)
    supply = model.rows("supply", 6, upper=demand)
    model.add(supply[None, :], items, 1)
    model.term("value", items, sizes[None, :] * 3 + rng.integers(0, 3, 6), sense="max")
    model.term("value", opened, -rng.integers(40, 160, 4), sense="max")
    arrays = model.arrays("value")
    highs, cp_sat = (InProcess().solve(name, arrays, LIMITS) for name in ("highs", "cp-sat"))
    assert highs.status is cp_sat.status is Status.OPTIMAL
    assert highs.objective == cp_sat.objective


@pytest.mark.parametrize("backend", ["highs", "cbc", "scip"])
def test_general_integers_in_a_narrow_row(backend: str) -> None:
    """CBC 2.10.3 returns 104 when its integer preprocessing is on."""
    model = Model()
    columns = model.variables(
        "x", 4, lower=[-3, -1, -1, -5], upper=[4, 4, 6, -4], integer=[True, False, True, False]
    )
    model.add(model.rows("narrow", 1, lower=-0.5, upper=1.5), columns[[0, 2]], [8, -9])
    model.add(model.rows("cap", 1, upper=48), columns[1:], [4, 6, -7])
    model.term("value", columns, [-4, -9, 2, -19], sense="max")
    assert InProcess().solve(backend, model.arrays("value"), LIMITS).objective == 106


def test_presolve_does_not_lose_the_optimum_of_an_integer_program() -> None:
    """HiGHS 1.12 with its aggregator on says 1; found by fuzzing, shrunk to 10 rows."""
    model = Model()
    x = model.variables("x", 14, upper=[1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 5, 1, 5])
    rows = model.rows(
        "r", 10, upper=[0, 0, 0, 0, 10, 0, 0, 10, 0, 0], lower=[0, -np.inf, 0, 0, *[-np.inf] * 6]
    )
    row = [0, 0, 5, 0, 8, 2, 2, 6, 1, 2, 9, 1, 3, 3, 5, 3, 8, 4, 5, 4, 6, 7, 8, 7, 9]
    column = np.repeat(np.arange(14), [1, 2, 2, 1, 2, 3, 1, 1, 2, 2, 2, 2, 2, 2])
    value = [-1, 1, 1, 1, 1, -2, 1, 1, -1, 1, 1, 2, -1, 1, 1, 1, 1, 7, -1, 2, -1, 7, -1, 2, -1]
    model.add(rows[row], x[column], value)
    model.term("cost", x[[3, 6]], [2, -1], sense="min")
    for backend in ("highs", "cp-sat", "cbc", "scip"):
        outcome = InProcess().solve(backend, model.arrays("cost"), LIMITS)
        assert (outcome.status, outcome.objective) == (Status.OPTIMAL, 0)
        assert outcome.bound == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
@pytest.mark.parametrize(
    ("lower", "upper", "coefficients", "equal", "cost"),
    [
        ([0, 0, 0, 2], [1, 1, 1, 2], [4, 4, -3, -1], 0, [0, 1, 3, 4]),
        ([0, -3, 2, 2], [1, 0, 5, 2], [-4, 2, 3, 4], 5, [0, 0, 0, 0]),
        ([0, 0, -3, 2], [1, 1, -1, 5], [1.5, -2, 1.5, 1.5], 7, [3, 0, 1, 0]),
    ],
)
def test_an_equation_without_integer_points_is_infeasible(
    backend: str,
    lower: list[int],
    upper: list[int],
    coefficients: list[float],
    equal: int,
    cost: list[int],
) -> None:
    """HiGHS 1.12 drops it in its presolve, breaks it and then reports a solve error."""
    model = Model()
    x = model.variables("x", 4, lower=lower, upper=upper)
    model.add(model.rows("equation", 1, lower=equal, upper=equal), x, coefficients)
    model.term("cost", x, cost, sense="min")
    outcome = get_backend(backend)(model.arrays("cost"), LIMITS)
    assert outcome.status is Status.INFEASIBLE, outcome.message


@pytest.mark.parametrize(
    ("jobs", "hosts", "seed"), [*((8, 3, seed) for seed in range(70)), (60, 12, 106), (60, 12, 170)]
)
def test_weights_of_priority_classes_are_no_fault(jobs: int, hosts: int, seed: int) -> None:
    """HiGHS's dual simplex fails at large duals in ten of these programs, in the last two cycles.

    Those take it more than 20 seconds, and the primal simplex a hundred iterations.
    """
    rng = np.random.default_rng(seed)
    model = Model()
    tasks, level = rng.choice([1, 2, 3, 4], jobs), rng.integers(0, 6, jobs)
    starts = model.variables("y", jobs, upper=rng.choice([1, 1, 2], jobs))
    placed = model.variables("x", jobs * hosts, upper=20).reshape(jobs, hosts)
    link = model.rows("link", jobs, lower=0, upper=0)
    model.add(link, starts, -tasks)
    model.add(link[:, None], placed, 1)
    for resource in range(3):
        size = rng.choice([1, 2, 4, 8, 5, 10, 20, 3, 15], jobs)
        capacity = rng.choice([4, 8, 16, 20, 40, 9], hosts)
        rows = model.rows(f"resource-{resource}", hosts, upper=capacity)
        model.add(rows[None, :], placed, size[:, None])
    weight = np.array([1, 40, 8_000, 4_800_000, 9_610_124_609, 7_392_403_546_000])[level]
    model.term("value", starts, weight * rng.choice([1, 2, 3, 4, 5, 8, 16], jobs), sense="max")
    arrays = model.arrays("value", relax=True)
    outcome = get_backend("highs")(arrays, LIMITS)
    assert outcome.status is Status.OPTIMAL, outcome.message
    assert outcome.row_duals is not None
    assert outcome.bound == pytest.approx(outcome.objective, rel=1e-12)
    certified = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
    assert certified is not None
    assert float(certified) == pytest.approx(outcome.objective, rel=1e-12)
