"""Models of very large numbers: rounding in the last digits refutes no bound."""

from __future__ import annotations

import time

import numpy as np
import pytest

from placewright.formulations.session import Session
from placewright.solver import (
    InProcess,
    Limits,
    Model,
    Outcome,
    Status,
    UnsupportedModelError,
    get_backend,
)
from placewright.solver.outcome import audit

LIMITS = Limits(20.0, gap=0.0)


def lost(values: np.ndarray, keep: int) -> Model:
    """What is lost of things of these values when no more than `keep` are kept."""
    model = Model()
    x = model.variables("x", len(values), upper=1)
    model.add(model.rows("capacity", 1, upper=keep), x, 1)
    model.term("lost", x, -values, sense="min", constant=float(values.sum()))
    return model


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
@pytest.mark.parametrize("seed", range(8))
def test_sums_that_nearly_cancel_are_no_lies(backend: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Tenths are no floats: their sums differ with the order of the summands.
    values = rng.integers(0, 10**11, 30) / 10
    arrays = lost(values, keep=30 - seed % 2).arrays("lost")
    try:
        outcome = get_backend(backend)(arrays, LIMITS)
    except UnsupportedModelError:
        return
    assert outcome.status is Status.OPTIMAL, outcome.message
    least = values.min() * (seed % 2)
    assert outcome.objective == pytest.approx(least, abs=1e-3)


def test_a_bound_that_is_beaten_by_more_than_rounding_is_a_lie() -> None:
    arrays = lost(np.array([10.0**11, 7.0]), keep=2).arrays("lost")
    for bound, lies in ((0.0, False), (1.5e-5, False), (1.0, True)):
        claimed = Outcome(Status.OPTIMAL, values=np.ones(2), objective=0.0, bound=bound)
        found = audit(arrays, claimed)
        assert (found.status is Status.FAILED) == lies
        assert lies or found.bound == 0.0


@pytest.mark.parametrize("seed", range(12))
def test_highs_takes_coefficients_from_10_to_the_15th_on(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([9e15, 3e15 + 1, 1e15, 1e12, 7.0], 5)
    model = Model()
    x = model.variables("x", 5, upper=1)
    model.add(model.rows("hold", 1, lower=sizes.max() - 0.5), x, sizes)
    model.term("cost", x, rng.integers(1, 9, 5), sense="min")
    arrays = model.arrays("cost")
    outcome, best = (get_backend(name)(arrays, LIMITS) for name in ("highs", "enumeration"))
    assert (outcome.status, outcome.objective) == (Status.OPTIMAL, best.objective)


def test_what_cp_sat_cannot_hold_is_solved_by_highs_without_a_complaint() -> None:
    model = Model()
    x = model.variables("x", 2)
    model.add(model.rows("least", 1, lower=3), x, 1)
    model.term("cost", x, 1, sense="min")
    arrays = model.arrays("cost")
    with pytest.raises(UnsupportedModelError):
        get_backend("cp-sat")(arrays, LIMITS)
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0, backend="cp-sat")
    outcome = session.optimise(arrays)
    assert outcome is not None
    assert (outcome.objective, session.degraded) == (3.0, [])
