"""What SCIP keeps besides all limits: a cut-off, and an order in which to branch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placewright.solver import Arrays, InProcess, Limits, Model, SolveOptions, Status


def cover(seed: int, sense: str = "min") -> Arrays:
    """Return sets to cover things with, as cheaply as can be; or the same upside down."""
    rng = np.random.default_rng(seed)
    model = Model()
    columns = model.variables("set", 30, upper=1)
    share = model.variables("share", 30, upper=1, integer=False)
    model.add(model.rows("beside", 30, upper=0), share, 1)
    model.add(np.arange(30), columns, -1)
    held = rng.random((20, 30)) < 0.2
    held[:, 0] = True
    things = model.rows("thing", 20, lower=1)
    model.add(things[:, None], share[None, :], held)
    sign = 1 if sense == "min" else -1
    model.term("price", columns, sign * rng.integers(10, 40, 30), sense=sense)
    return model.arrays("price")


def solved(arrays: Arrays, cutoff: float | None = None):
    return InProcess().solve(
        "scip", arrays, Limits(60.0, gap=0.0, options=SolveOptions(cutoff=cutoff))
    )


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("seed", range(4))
def test_cutoff_is_proven_where_nothing_is_better_and_else_the_optimum_is_found(
    seed: int, sense: str
) -> None:
    arrays = cover(seed, sense)
    best = solved(arrays)
    assert best.status is Status.OPTIMAL
    for worse in (0.5, 3.0):
        outcome = solved(arrays, best.objective - arrays.sign * worse)
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == pytest.approx(best.objective)
    for better in (1.0, 5.0, 1e6):
        cutoff = best.objective + arrays.sign * better
        outcome = solved(arrays, cutoff)
        assert (outcome.status, outcome.values) == (Status.NO_SOLUTION, None)
        assert outcome.bound == pytest.approx(cutoff, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_bound_that_alone_is_asked_for_is_that_of_the_optimum(seed: int) -> None:
    arrays = cover(seed)
    limits = Limits(60.0, gap=0.0, options=SolveOptions(proving=True))
    outcome = InProcess().solve("scip", arrays, limits)
    assert outcome.bound == pytest.approx(solved(arrays).objective)


def test_cutoff_that_no_point_of_an_infeasible_model_meets_is_its_bound() -> None:
    model = Model()
    columns = model.variables("x", 2, upper=1)
    model.add(model.rows("much", 1, lower=3), columns, 1)
    model.term("price", columns, 1, sense="min")
    arrays = model.arrays("price")
    assert solved(arrays).status is Status.INFEASIBLE
    assert solved(arrays, 5.0).bound == pytest.approx(5.0, rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_order_to_branch_in_changes_no_optimum(seed: int) -> None:
    arrays = cover(seed)
    order = np.zeros(arrays.columns, dtype=np.int64)
    order[:30] = np.random.default_rng(seed).integers(0, 2**40, 30)
    ordered = solved(replace(arrays, priority=order))
    assert ordered.objective == pytest.approx(solved(arrays).objective)
