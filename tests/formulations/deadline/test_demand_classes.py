"""Demand classes: equal to `np.unique`, also of more alternatives than are compared at once."""

from __future__ import annotations

import numpy as np
import pytest
from formulation_parameters import set_parameters

from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem import problem


@pytest.mark.parametrize(
    ("alternatives", "rows"), [(0, 1), (1, 1), (1, 4), (300, 1), (300, 3), (301, 40)]
)
def test_classes_are_those_of_numpy(monkeypatch, alternatives, rows):
    set_parameters(monkeypatch, parameters, chunk_cells=100)
    demand = np.random.default_rng(rows).integers(-2, 3, (alternatives, rows))
    demand[:, rows // 2 :] = 0
    classes, class_of = problem.demand_classes_of(demand)
    expected, inverse = np.unique(demand, axis=0, return_inverse=True)
    assert classes.tolist() == expected.tolist()
    assert class_of.tolist() == inverse.reshape(-1).tolist()


@pytest.mark.parametrize("alternatives", [0, 3])
def test_without_rows_all_alternatives_are_of_one_class(alternatives):
    classes, class_of = problem.demand_classes_of(np.zeros((alternatives, 0), dtype=np.int64))
    assert classes.shape == (min(alternatives, 1), 0)
    assert class_of.tolist() == [0] * alternatives
