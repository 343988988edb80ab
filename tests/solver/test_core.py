"""Core search: the loss of points outside the core, and the restriction to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.solver import Arrays, Core, InProcess, Limits, Model, reduced_costs_of


def knapsack(seed: int, sense: str) -> Arrays:
    """Return a program of up to six whole numbers, each between 0 and 2, and two rows."""
    rng = np.random.default_rng(seed)
    model = Model()
    x = model.variables("x", int(rng.integers(2, 7)), upper=rng.integers(1, 3))
    for _ in range(2):
        weight = rng.integers(1, 9, len(x))
        capacity = float(weight.sum() // 2)
        lower, upper = (-np.inf, capacity) if sense == "max" else (capacity, np.inf)
        model.add(model.rows("capacity", 1, lower=lower, upper=upper), x, weight)
    model.term("worth", x, rng.integers(1, 50, len(x)), sense=sense, constant=3.0)
    return model.arrays("worth")


def without_integrality(arrays: Arrays) -> Arrays:
    return replace(arrays, integer=np.zeros_like(arrays.integer))


def points(arrays: Arrays) -> list[np.ndarray]:
    grid = product(*(range(int(upper) + 1) for upper in arrays.upper))
    return [p for p in (np.array(q, dtype=float) for q in grid) if arrays.feasible(p)]


@settings(max_examples=examples(day=20, nightly=150))
@given(st.integers(0, 10**6), st.sampled_from(["max", "min"]), st.booleans())
def test_every_point_has_lost_what_the_columns_off_their_place_cost(
    seed: int, sense: str, wild: bool
) -> None:
    arrays = knapsack(seed, sense)
    relaxed = InProcess().solve("highs", without_integrality(arrays), Limits(10))
    assert relaxed.values is not None
    duals = relaxed.row_duals
    assert duals is not None
    if wild:
        duals = duals + np.random.default_rng(seed).normal(scale=3, size=arrays.rows)
    doubt = reduced_costs_of(arrays, duals, relaxed.values)
    assert doubt is not None
    if not wild:
        assert relaxed.objective is not None
        assert doubt.shortfall(relaxed.objective) == pytest.approx(0, abs=1e-6)
    for point in points(arrays):
        off = np.abs(point - doubt.point) >= 0.5
        lost = doubt.loss[off].sum()
        assert doubt.shortfall(arrays.objective_of(point)) >= lost - 1e-6


@settings(max_examples=examples(day=25, nightly=100))
@given(st.integers(0, 10**6), st.sampled_from(["max", "min"]))
def test_a_core_has_the_points_of_the_whole_that_agree_with_it(seed: int, sense: str) -> None:
    arrays = knapsack(seed, sense)
    rng = np.random.default_rng(seed)
    kept = rng.random(arrays.columns) < 0.6
    point = np.minimum(rng.integers(0, 2, arrays.columns), arrays.upper)
    core = Core.of(arrays, kept, point)
    agreeing = [p for p in points(arrays) if (p[~kept] == point[~kept]).all()]
    inside = points(core.arrays)
    assert len(agreeing) == len(inside)
    for small in inside:
        whole = core.whole(small)
        assert any((whole == p).all() for p in agreeing)
        assert (core.inside(whole) == small).all()
        assert core.arrays.objective_of(small) == pytest.approx(arrays.objective_of(whole))


def test_a_column_without_a_bound_that_pays_leaves_nothing_known() -> None:
    model = Model()
    x = model.variables("x", 2)
    model.add(model.rows("capacity", 1, upper=3.0), x, 1.0)
    model.term("worth", x, [2.0, 1.0], sense="max")
    arrays = model.arrays("worth")
    assert reduced_costs_of(arrays, np.zeros(1), np.zeros(2)) is None
    known = reduced_costs_of(arrays, np.array([2.0]), np.array([3.0, 0.0]))
    assert known is not None
    assert known.loss.tolist() == [0.0, 1.0]
    assert known.within(0.5).tolist() == [True, False]


def test_a_model_without_columns_has_a_core_like_it() -> None:
    model = Model()
    x = model.variables("x", 0)
    model.rows("capacity", 1, upper=3.0)
    model.term("worth", x, [], sense="max", constant=3.0)
    arrays = model.arrays("worth")
    core = Core.of(arrays, np.zeros(0, dtype=np.bool_), np.zeros(0))
    assert core.arrays.columns == 0
    assert core.whole(np.zeros(0)).tolist() == []
