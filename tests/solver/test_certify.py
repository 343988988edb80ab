"""Certified bounds hold for any multipliers; at the duals they are the relaxation's optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.solver import InProcess, Limits, Model, Status
from placewright.solver.certify import certified_bound, multipliers


def random_model(seed: int, sense: str) -> Model:
    rng = np.random.default_rng(seed)
    model = Model()
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    x = model.variables("x", n, lower=rng.integers(-3, 1, n), upper=rng.integers(1, 6, n))
    lower = rng.integers(-8, 3, m).astype(float)
    lower[rng.random(m) < 0.5] = -np.inf
    upper = rng.integers(3, 12, m).astype(float)
    upper[rng.random(m) < 0.3] = np.inf
    rows = model.rows("r", m, lower=lower, upper=upper)
    at, column = np.nonzero(rng.random((m, n)) < 0.7)
    model.add(rows[at], x[column], rng.integers(-4, 5, len(at)) / 2)
    model.term("t", x, rng.integers(-9, 10, n), sense=sense, constant=float(rng.integers(-5, 5)))
    return model


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["max", "min"]), st.integers(0, 10**6))
def test_any_multipliers_give_a_bound(seed: int, sense: str, other: int) -> None:
    model = random_model(seed, sense)
    arrays = model.arrays("t")
    best = InProcess().solve("enumeration", arrays, Limits(10))
    wild = np.random.default_rng(other).normal(scale=3, size=arrays.rows)
    bound = certified_bound(arrays, multipliers(arrays, wild))
    assert bound is not None
    if best.status is Status.OPTIMAL:
        assert best.objective is not None
        assert bound >= best.objective if sense == "max" else bound <= best.objective


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(["max", "min"]))
def test_the_duals_of_the_relaxation_certify_its_optimum(seed: int, sense: str) -> None:
    arrays = random_model(seed, sense).arrays("t", relax=True)
    outcome = InProcess().solve("highs", arrays, Limits(10))
    if outcome.status is Status.OPTIMAL:
        assert outcome.row_duals is not None
        bound = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
        assert float(bound) == pytest.approx(outcome.objective, abs=1e-6)


def test_a_paying_column_without_a_bound_and_odd_data_are_not_certified() -> None:
    model = Model()
    x = model.variables("x", 1)
    row = model.rows("r", 1, upper=3.0)
    model.add(row, x, 1.0)
    model.term("t", x, 1.0, sense="max")
    arrays = model.arrays("t")
    assert certified_bound(arrays, multipliers(arrays, np.zeros(1))) is None
    assert certified_bound(arrays, multipliers(arrays, np.ones(1))) == 3
    model.add(row, x, 0.1)
    arrays = model.arrays("t")
    assert certified_bound(arrays, multipliers(arrays, np.ones(1))) is None


def test_missing_columns_are_charged() -> None:
    model = Model()
    x = model.variables("x", 1, upper=5)
    row = model.rows("r", 1, upper=3.0)
    model.add(row, x, 1.0)
    model.term("t", x, 1.0, sense="max")
    arrays = model.arrays("t")
    assert certified_bound(arrays, multipliers(arrays, np.ones(1)), extra=1 << 40) == 4
