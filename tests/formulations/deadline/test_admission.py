"""Admission finds what enumeration finds, and its bounds are never beaten.

The profile `long` tries more rounds of each kind.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from formulation_parameters import set_parameters

from examples import examples
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models.demand_bound import (
    DemandRows,
    MasterLp,
    MasterObjective,
    feasible_alone,
)
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BROKEN,
    NONE,
    Problem,
    Schedule,
)
from placewright.formulations.deadline.run import AdmissionBound, admit
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.deadline import oracle, tiny

ROUNDS = examples(day=6, nightly=24, long=1_000)
KINDS: tuple[dict[str, Any], ...] = (
    {"gangs": False},
    {},
    {"releases": True},
    {"promises": True},
    {"releases": True, "promises": True, "rows": 2},
)


class Answer(NamedTuple):
    best: Schedule
    bounds: list[AdmissionBound]


def answer(problem: Problem, backend: str = "highs") -> Answer:
    session = Session(InProcess().solve, time.monotonic() + 60, backend=backend)
    schedules, bounds = [], []
    for step in admit(problem, session):
        if isinstance(step, Schedule):
            assert step.fits(problem)
            schedules.append(step)
        else:
            bounds.append(step)
    values = [(-s.broken(problem), s.admitted(problem)) for s in schedules]
    assert values == sorted(set(values))
    assert not session.degraded
    return Answer(schedules[-1], bounds)


def check_bounds(problem: Problem, found: Answer, best: Any) -> None:
    for bound in found.bounds:
        if bound.term == BROKEN:
            assert bound.value <= best.broken
        elif bound.broken == best.broken:
            assert bound.value >= best.admitted
    if problem.loss.any():
        assert any(bound.term == BROKEN for bound in found.bounds)
    assert any(bound.term == ADMITTED and bound.certified for bound in found.bounds)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("backend", "every"), [("highs", 1), ("cp-sat", 4), ("cbc", 6), ("scip", 6)]
)
def test_tiny_rounds_are_solved_exactly(backend: str, every: int) -> None:
    for seed in range(0, ROUNDS, every):
        for number, kind in enumerate(KINDS):
            for shape in tiny.SHAPES:
                problem = tiny.problem(1000 * seed + number, shape, **kind)
                found, best = answer(problem, backend), oracle.best(problem)
                values = found.best.broken(problem), found.best.admitted(problem)
                assert values == best, (seed, shape, kind)
                check_bounds(problem, found, best)


def test_bounds_hold_where_leases_are_only_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    set_parameters(monkeypatch, parameters, max_time_indexed_cells=0)
    for seed in range(ROUNDS):
        for number, kind in enumerate(KINDS):
            problem = tiny.problem(1000 * seed + number, tiny.SHAPES[seed % 4], **kind)
            found, best = answer(problem), oracle.best(problem)
            check_bounds(problem, found, best)


@pytest.mark.parametrize("shape", ["constant", "rising"])
def test_rows_and_filling_are_exact_for_one_gpu_a_common_start_and_capacity_that_never_falls(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    set_parameters(monkeypatch, parameters, max_time_indexed_cells=0)
    for seed in range(2 * ROUNDS):
        problem = tiny.problem(seed, shape, gangs=False)
        assert answer(problem).best.admitted(problem) == oracle.best(problem).admitted


def test_a_round_of_nobody_has_nothing_to_promise() -> None:
    none = np.zeros(0, dtype=np.int64)
    problem = Problem(
        capacity=np.full((1, 3), 8, dtype=np.int64),
        loss=none,
        job=none,
        need=none,
        first=none,
        end=none,
        value=none,
        demand=none.reshape(0, 1),
    )
    found = answer(problem)
    assert found.best.admitted(problem) == 0
    assert [(bound.term, bound.value) for bound in found.bounds] == [(BROKEN, 0), (ADMITTED, 0)]


def first_alternatives(problem: Problem) -> Any:
    """Let the jobs without a promise come first, by their first alternative."""
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    alternatives = np.flatnonzero(feasible_alone(problem) & (problem.loss[problem.job] == 0))[::-1]
    alternative[problem.job[alternatives]] = alternatives
    return alternative


def test_what_rows_prove_is_true_at_any_prices() -> None:
    rng = np.random.default_rng(6)
    for seed in range(2 * ROUNDS):
        for number, kind in enumerate(KINDS[:3]):
            problem = tiny.problem(1000 * seed + number, tiny.SHAPES[seed % 4], **kind)
            objective = MasterObjective(problem.value, np.zeros_like(problem.value), 0)
            nobody = np.zeros(problem.jobs, dtype=np.bool_)
            master = MasterLp(DemandRows(problem), feasible_alone(problem), nobody, objective)
            best = oracle.best(problem).admitted
            for size in (0.0, 0.1, 1.0, 1e6):
                dual = master.lagrangian_bound(rng.normal(scale=size, size=200))
                assert dual.bound >= best
