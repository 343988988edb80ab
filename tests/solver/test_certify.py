"""Certified bounds hold for any multipliers; at the duals they are the relaxation's optimum.

That they hold on whole rounds with corrupted duals is tried on 400 rounds, and on
100,000 with the profile `long`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gang_parameters import set_parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.array_types import Floats
from placewright.formulations.gang.models.aggregate import solve as aggregate
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.host import solve as exact
from placewright.rounds import solve, solve_round
from placewright.solver import Arrays, InProcess, Limits, Model, Outcome, Status
from placewright.solver.backends import highs
from placewright.solver.certify import certified_bound, multipliers
from tests.formulations.gang import oracle
from tests.formulations.gang import oracle_running as moves
from tests.solver.random_rounds import random_round

ROUNDS = examples(day=120, nightly=400, long=100_000)


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


@settings(max_examples=examples(day=50, nightly=200))
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


@settings(max_examples=examples(day=25, nightly=100))
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


def test_numbers_that_may_have_been_rounded_are_not_certified() -> None:
    for number, certified in ((2.0**53, True), (2.0**53 + 2, False)):
        model = Model()
        x = model.variables("x", 1, upper=1.0)
        model.term("t", x, number, sense="max")
        arrays = model.arrays("t")
        assert (certified_bound(arrays, multipliers(arrays, np.zeros(0))) is not None) == certified


def test_missing_columns_are_charged() -> None:
    model = Model()
    x = model.variables("x", 1, upper=5)
    row = model.rows("r", 1, upper=3.0)
    model.add(row, x, 1.0)
    model.term("t", x, 1.0, sense="max")
    arrays = model.arrays("t")
    assert certified_bound(arrays, multipliers(arrays, np.ones(1)), extra=1 << 40) == 4


def corrupted(rng: np.random.Generator, duals: Floats) -> Floats:
    """Spoil duals a little, or beyond recognition, and sometimes not at all."""
    if rng.random() < 0.2:
        return duals
    some = rng.random(len(duals)) < rng.random()
    scale = 10.0 ** rng.uniform(-6, 3)
    noise = scale * rng.normal(size=len(duals))
    return [
        duals * (1 + noise),
        duals + noise * np.abs(duals).max(initial=1.0),
        np.where(some, duals, 0.0),
        np.where(some, duals, -duals),
        rng.permutation(duals),
        np.clip(duals * 10.0 ** rng.uniform(0, 18), -1e19, 1e19),
        np.rint(duals / 1000) * 1000,
        np.where(some, duals, rng.choice([np.nan, np.inf, -np.inf, 1e300])),
        1e4 * noise,
    ][rng.integers(9)]


@pytest.mark.parametrize("moving", [False, True])
def test_no_plan_beats_a_certified_bound_however_the_duals_are_corrupted(
    monkeypatch: pytest.MonkeyPatch,
    moving: bool,
) -> None:
    """The backend corrupts them, or they are corrupted late, as the bound is certified.

    In half of the rounds running jobs may move. In some no pattern is generated, so that all that
    is missing has to be charged; in some unequal hosts share a class, or are counted by sums where
    patterns would do. In most of them only relaxations are solved, and a round is cheap; where the
    search is honest, the exact model goes on to the later terms.
    """
    # One in tens of thousands of these rounds needs more than usual.
    monkeypatch.setattr(oracle, "MAX_STATES", 10**6)
    monkeypatch.setattr(moves, "MAX_WAYS", 10**6)
    honest, rng, corrupting, early = highs.solve, np.random.default_rng(0), False, False
    searching = False

    def backend(arrays: Arrays, *rest: Any) -> Outcome:
        if arrays.integer.any():
            return (
                honest(arrays, *rest) if searching else Outcome(Status.NO_SOLUTION, backend="highs")
            )
        outcome = honest(arrays, *rest)
        if corrupting and outcome.row_duals is not None:
            return replace(outcome, row_duals=corrupted(rng, outcome.row_duals))
        return outcome

    def late(arrays: Arrays, duals: Floats) -> Any:
        return multipliers(arrays, duals if corrupting else corrupted(rng, duals))

    for kind in (GpuPatterns, HostPatterns):

        def improve(
            self: Any, *prices: Any, honest: Any = kind.add_improving
        ) -> tuple[bool, float]:
            return (False, 0.0) if early else honest(self, *prices)

        monkeypatch.setattr(kind, "add_improving", improve)
    monkeypatch.setattr(highs, "solve", backend)
    monkeypatch.setattr(aggregate, "multipliers", late)
    monkeypatch.setattr(exact, "multipliers", late)
    set_parameters(monkeypatch, "neighbourhood", max_failures=0)
    monkeypatch.setattr(solve, "versions", lambda _: {})
    tight: Counter[str] = Counter()
    seeds = range(moving, ROUNDS, 2)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        round_ = random_round(rng, moving=moving)
        corrupting, early, searching = rng.random(3) < [0.3, 0.3, 0.2]
        set_parameters(monkeypatch, "run", max_exact_variables=6000 if rng.random() < 0.3 else -1)
        table = 60_000 if rng.random() < 0.7 else 0
        pairs = 8000 if rng.random() < 0.8 else 0
        set_parameters(
            monkeypatch, "models", max_host_table_entries=table, max_shape_class_pairs=pairs
        )
        plan = solve_round(round_, isolation="none")
        assert plan.certificate is not None
        values = tuple(term.value for term in plan.certificate.terms)
        plans = moves.attainable_with_moves(round_) if moving else oracle.attainable(round_)
        assert values in plans, seed
        for index, term in enumerate(plan.certificate.terms):
            best = oracle.best_given(round_, plans, values, index)
            assert term.certified is not None
            assert oracle.SENSE[term.name] * (term.certified - best) >= 0, (seed, term, best)
            tight[term.name.partition("_")[0]] += term.certified == best != 0
    # Bounds that are all far away could not be beaten.
    assert tight["value"] > len(seeds) / 20
    assert tight["remaining"] > len(seeds) / 100 or not moving
