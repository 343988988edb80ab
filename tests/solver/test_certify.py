"""Certified bounds hold for any multipliers; at the duals they are the relaxation's optimum.

That they hold on whole rounds with corrupted duals is tried on 400 rounds, or as many as the
environment variable PLACEWRIGHT_CORRUPTED_ROUNDS says.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.formulations.gang import models, repair, run
from placewright.formulations.gang.exact import run as exact
from placewright.formulations.gang.hostpatterns import HostPatterns
from placewright.formulations.gang.patterns import Patterns
from placewright.instances.references import check_round
from placewright.instances.round import Round
from placewright.rounds import solve, solve_round
from placewright.solver import Arrays, InProcess, Limits, Model, Outcome, Status
from placewright.solver.arrays import Floats
from placewright.solver.backends import highs
from placewright.solver.certify import certified_bound, multipliers

ROUNDS = int(os.environ.get("PLACEWRIGHT_CORRUPTED_ROUNDS", "400"))


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


def random_group(rng: np.random.Generator, levels: list[str]) -> dict[str, Any]:
    wanted = [1000, 1000, 2000, 3000, 4000] + ([300, 400, 500, 700] if rng.random() < 0.5 else [])
    group: dict[str, Any] = {
        "gpu": int(rng.choice(wanted)),
        "count": int(rng.choice([1, 1, 2, 3])),
        "cpu": int(rng.choice([0, 1, 2, 3, 5])),
        "memory": int(rng.choice([0, 0, 2, 5, 9])),
    }
    if rng.random() < 0.2:
        group["gpu_models"] = ["A"]
    if rng.random() < 0.3:
        group["required"] = str(rng.choice(levels))
    return group


def random_round(rng: np.random.Generator) -> Round:
    """Make a tiny round: up to 3 hosts in up to 2 racks, and up to 5 jobs of up to two options."""
    levels = ["rack"] if rng.random() < 0.6 else []
    templates = [
        [
            {
                "groups": [random_group(rng, [*levels, "host"])],
                "value": None if rng.random() < 0.7 else int(rng.integers(0, 6)) * 700,
            }
            for _ in range(rng.choice([1, 1, 2]))
        ]
        for _ in range(2)
    ]
    terms = list(rng.permutation(["value", "spread", "opened"]))
    if rng.random() < 0.8:
        terms = ["value", *(str(term) for term in terms if term != "value")]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": levels,
                "domains": [{"name": f"r{i}", "level": level} for level in levels for i in (0, 1)],
                "hosts": [
                    {
                        "name": f"h{i}",
                        "parent": f"r{rng.integers(2)}" if levels else None,
                        "gpus": int(rng.integers(1, 5)),
                        "gpu_model": "AB"[min(i, rng.integers(2))],
                        "cpu": int(rng.choice([4, 6, 8])),
                        "memory": int(rng.choice([8, 16])),
                    }
                    for i in range(rng.integers(1, 4))
                ],
            },
            "tenants": [{"name": "t", "quota": {"gpu": int(rng.integers(1, 9)) * 1000}}],
            "jobs": [
                {
                    "name": f"j{i}",
                    "tenant": "t" if rng.random() < 0.3 else None,
                    "options": templates[rng.integers(2)],
                }
                for i in range(rng.integers(1, 6))
            ],
            "policy": {"terms": terms},
        }
    )
    check_round(round_)
    return round_


@pytest.fixture(scope="module")
def oracle() -> ModuleType:
    path = Path(__file__).parents[1] / "gang" / "oracle.py"
    spec = spec_from_file_location("oracle_of_rounds", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.MAX_STATES = 10**6  # one in tens of thousands of these rounds needs more than usual
    return module


def test_no_plan_beats_a_certified_bound_however_the_duals_are_corrupted(
    oracle: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend corrupts them, or they are corrupted late, as the bound is certified.

    In some rounds no pattern is generated, so that all that is missing has to be charged. Only
    relaxations are solved: the plan is the greedy one, and a round is cheap.
    """
    honest, rng, lying, early = highs.solve, np.random.default_rng(0), False, False

    def backend(arrays: Arrays, *rest: Any) -> Outcome:
        if arrays.integer.any():
            return Outcome(Status.NO_SOLUTION, backend="highs")
        outcome = honest(arrays, *rest)
        if lying and outcome.row_duals is not None:
            return replace(outcome, row_duals=corrupted(rng, outcome.row_duals))
        return outcome

    def late(arrays: Arrays, duals: Floats) -> Any:
        return multipliers(arrays, duals if lying else corrupted(rng, duals))

    for kind in (Patterns, HostPatterns):

        def improve(self: Any, *prices: Any, generate: Any = kind.improve) -> tuple[bool, float]:
            return (False, 0.0) if early else generate(self, *prices)

        monkeypatch.setattr(kind, "improve", improve)
    monkeypatch.setattr(highs, "solve", backend)
    monkeypatch.setattr(models, "multipliers", late)
    monkeypatch.setattr(exact, "multipliers", late)
    monkeypatch.setattr(repair, "PATIENCE", 0)
    monkeypatch.setattr(solve, "versions", lambda _: {})
    tight = 0
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        round_ = random_round(rng)
        lying, early = rng.random() < 0.3, rng.random() < 0.3
        monkeypatch.setattr(run, "MAX_EXACT_CELLS", 6000 if rng.random() < 0.3 else -1)
        plan = solve_round(round_, isolation="none")
        assert plan.certificate is not None
        values = tuple(term.value for term in plan.certificate.terms)
        plans = oracle.attainable(round_)
        for index, term in enumerate(plan.certificate.terms):
            best = oracle.best_given(round_, plans, values, index)
            assert term.certified is not None
            assert oracle.SENSE[term.name] * (term.certified - best) >= 0, (seed, term, best)
            tight += term.name == "value" and term.certified == best
    # Bounds that are all far away could not be beaten.
    assert tight > ROUNDS / 10
