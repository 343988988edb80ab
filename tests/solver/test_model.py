"""Blocks, terms and the arrays that come out of a model."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from placewright.solver import ALWAYS, InProcess, Limits, Model, Outcome, Status

LIMITS = Limits(seconds=20.0, gap=0.0)


def small() -> Model:
    """Two jobs on two hosts, one GPU each; host 1 takes one job."""
    model = Model()
    keys = [(job, host) for job in "ab" for host in (0, 1)]
    placed = model.variables("placed", 4, upper=1, keys=keys)
    model.add(model.rows("once", 2, upper=1, keys=["a", "b"]), placed.reshape(2, 2).T, 1)
    model.add(model.rows("capacity", 2, upper=[2, 1], keys=[0, 1]), placed.reshape(2, 2), 1)
    model.term("value", placed, [3, 5, 2, 7], sense="max")
    model.term("moves", placed[1::2], 1, sense="min", constant=2)
    return model


def dense(arrays) -> np.ndarray:
    matrix = np.zeros((arrays.rows, arrays.columns))
    matrix[arrays.entry_rows(), arrays.indices] = arrays.data
    return matrix


def test_arrays_hold_what_was_appended() -> None:
    arrays = small().arrays("value")
    assert arrays.sense == "max"
    assert arrays.cost.tolist() == [3, 5, 2, 7]
    assert dense(arrays).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert arrays.row_upper.tolist() == [1, 1, 2, 1]
    assert np.isneginf(arrays.row_lower).all()
    assert arrays.when.tolist() == [ALWAYS] * 4
    assert arrays.integer.all()
    assert not small().arrays("value", relax=True).integer.any()


def test_repeated_entries_add_up_and_zeros_vanish() -> None:
    model = Model()
    columns = model.variables("x", 3)
    row = model.rows("row", 2)
    model.add(row[0], [2, 0, 2, 1], [1, 4, 2, 5])
    model.add(row[0], columns[1], -5)
    arrays = model.arrays(None)
    assert arrays.indptr.tolist() == [0, 2, 2]
    assert arrays.indices.tolist() == [0, 2]
    assert arrays.data.tolist() == [4, 3]


def test_terms_of_one_name_add_up_and_have_a_value() -> None:
    model = small()
    point = np.array([1.0, 0, 0, 1])
    assert model.value_of("value", point) == 10
    assert model.value_of("moves", point) == 3
    model.term("moves", 0, 4, sense="min", constant=1)
    assert model.value_of("moves", point) == 8
    arrays = model.arrays("moves")
    assert (arrays.sense, arrays.constant, arrays.objective_of(point)) == ("min", 3, 8)
    with pytest.raises(ValueError, match="sense 'max' of term 'moves' must be 'min'"):
        model.term("moves", 0, 1, sense="max")


def test_rows_and_columns_are_explained_by_block_and_key() -> None:
    model = small()
    assert model.explain_row(1) == ("once", "b")
    assert model.explain_row(3) == ("capacity", 1)
    assert model.explain_column(2) == ("placed", ("b", 0))
    assert [block.name for block in model.row_blocks] == ["once", "capacity"]
    with pytest.raises(IndexError, match="index 4 is not in the model"):
        model.explain_row(4)


@pytest.mark.parametrize(("left_out", "optimum"), [((), 10), (("once",), 12), (("capacity",), 12)])
def test_block_can_be_left_out(left_out: tuple[str, ...], optimum: float) -> None:
    arrays = small().arrays("value", without=left_out)
    assert arrays.rows == 4 - 2 * len(left_out)
    assert InProcess().solve("enumeration", arrays, LIMITS).objective == optimum
    assert all(arrays.row_name(row) for row in range(arrays.rows))
    with pytest.raises(KeyError, match="'quota'"):
        small().arrays("value", without=("quota",))


@pytest.mark.parametrize(("slack", "moves"), [(0.0, 3.0), (2.0, 3.0), (5.0, 2.0)])
def test_held_term_limits_what_the_next_one_may_cost(slack: float, moves: float) -> None:
    model = small()
    model.hold("value", 10.0, slack)
    outcome = InProcess().solve("enumeration", model.arrays("moves"), LIMITS)
    assert outcome.objective == moves
    assert model.value_of("value", outcome.values) >= 10.0 - slack
    assert model.row_blocks[-1].name == "hold:value"
    model.hold("moves", 2.0)
    held = InProcess().solve("enumeration", model.arrays("value"), LIMITS)
    expected = Status.OPTIMAL if moves == 2.0 else Status.INFEASIBLE
    assert held.status is expected


def test_holding_a_term_again_replaces_its_row() -> None:
    model = small()
    model.hold("value", 10.0)
    model.hold("value", 8.0)
    assert model.held == ("hold:value",)
    arrays = model.arrays("moves")
    assert arrays.rows == 5
    assert arrays.row_lower[-1] == 8.0


def test_violations_name_the_broken_rows() -> None:
    model = small()
    arrays = model.arrays("value")
    point = np.array([1.0, 1, 0, 1])
    assert [model.explain_row(row) for row in arrays.violations(point)] == [
        ("once", "a"),
        ("capacity", 1),
    ]
    assert not arrays.feasible(point)
    assert arrays.feasible(np.array([1.0, 0, 0, 1]))
    assert not arrays.feasible(np.array([1.0, 0, 0, 2]))
    assert not arrays.feasible(np.array([0.5, 0, 0, 1]))
    assert not arrays.feasible(np.array([np.nan, 0, 0, 1]))
    assert not arrays.feasible(np.array([1.0, 0, 0]))


def test_arrays_go_through_pickle() -> None:
    arrays = small().arrays("value")
    again = pickle.loads(pickle.dumps(arrays, protocol=5))
    assert dense(again).tolist() == dense(arrays).tolist()
    assert again.block_names == arrays.block_names
    with pytest.raises(FrozenInstanceError):
        again.sense = "min"


def test_bounds_of_integer_variables_are_rounded_inwards() -> None:
    model = Model()
    model.variables("x", 2, lower=0.5, upper=[2.5, 1.0], integer=[True, False])
    arrays = model.arrays(None)
    assert arrays.lower.tolist() == [1, 0.5]
    assert arrays.upper.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            lambda m: m.variables("y", 2, lower=[0, 3], upper=2, keys="ab"),
            r"3.0 to 2.0 of y\['b'\]",
        ),
        (lambda m: m.variables("y", 1, lower=0.2, upper=0.8), r"1.0 to 0.0 of y\[0\]"),
        (lambda m: m.variables("y", 1, lower=np.nan), "bounds nan"),
        (lambda m: m.variables("y", -1), "size -1 of block 'y' is negative"),
        (lambda m: m.variables("y", 2, keys="abc"), "'y' has 3 keys; 2 were expected"),
        (lambda m: m.rows("r", 1, lower=np.inf), "bounds inf to inf"),
        (lambda m: m.rows("r", 1, when=9), "column 9 is not in the model; 0 to 3"),
        (lambda m: m.rows("r", 1, when=m.variables("y", 1)), r"condition y\[0\] .* not a 0/1"),
        (lambda m: m.add(9, 0, 1), "row 9 is not in the model; 0 to 3 was expected"),
        (lambda m: m.add(0, -1, 1), "column -1 is not in the model"),
        (lambda m: m.add(0, 0, np.inf), "coefficient inf is not finite"),
        (lambda m: m.term("value", 0, np.nan, sense="max"), "coefficient nan is not finite"),
        (lambda m: m.term("value", 0, 1, sense="max", constant=np.inf), "constant inf"),
    ],
)
def test_wrong_input_names_what_is_wrong(wrong, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wrong(small())


def test_unknown_term_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="spread"):
        small().arrays("spread")


def test_outcome_has_a_point_exactly_when_its_status_says_so() -> None:
    with pytest.raises(ValueError, match="values must be given with status 'optimal'"):
        Outcome(Status.OPTIMAL)
    with pytest.raises(ValueError, match="values must be None with status 'failed'"):
        Outcome(Status.FAILED, values=np.zeros(1), objective=0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"seconds": -1.0}, {"seconds": float("nan")}, {"gap": -0.1}, {"threads": 0}, {"work": 0.0}],
)
def test_limits_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is out of range"):
        Limits(**{"seconds": 1.0, **wrong})
