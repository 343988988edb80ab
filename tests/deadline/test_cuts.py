"""Rows at prices are true of every schedule; together they are the fluid relaxation."""

from __future__ import annotations

import time
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.benders_cuts import at_prices, fluid_cut, loaded
from placewright.formulations.deadline.models.demand_bound import DemandRows, feasible_alone
from placewright.formulations.deadline.models.lease_spans import alike
from placewright.formulations.deadline.problem.problem import Ints, Problem
from placewright.formulations.session import Session
from placewright.solver import InProcess, Limits, Model

KINDS = ({"releases": True}, {"gangs": False, "releases": True}, {"rows": 2}, {})


def session() -> Session:
    solver = InProcess()
    return Session(
        lambda backend, arrays, limits, start: solver.solve(backend, arrays, limits, start),
        deadline=time.monotonic() + 60,
    )


def able(problem: Problem) -> Problem:
    """The problem without ways that cannot run alone, and without promises."""
    return only(
        replace(problem, loss=np.zeros_like(problem.loss)), np.flatnonzero(feasible_alone(problem))
    )


def only(problem: Problem, alternatives: Ints) -> Problem:
    return replace(
        problem,
        **{
            name: getattr(problem, name)[alternatives]
            for name in ("job", "need", "first", "end", "value", "demand")
        },
    )


def test_no_schedule_breaks_a_row_at_any_prices(oracle: ModuleType, tiny: ModuleType) -> None:
    for seed in range(150):
        for kind in KINDS:
            problem = able(tiny.problem(seed, tiny.SHAPES[seed % 4], **kind))
            rng = np.random.default_rng(seed)
            for whole in (loaded(DemandRows(problem)), problem) if problem.alternatives else ():
                cut = at_prices(whole, rng.integers(0, 4, whole.capacity.shape))
                best = oracle.best(replace(problem, value=cut.weight))
                assert best.admitted <= cut.limit, (seed, kind)


def rows_of(problem: Problem, *, whole: bool = False) -> tuple[float, int]:
    """The most that choices are worth by cuts alone, and how many it takes."""
    demands, cuts = DemandRows(problem), []
    while True:
        model = Model()
        chosen = model.variables("way", problem.alternatives, upper=1, integer=whole)
        one = model.rows("one", problem.jobs, upper=1)
        model.add(one[problem.job], chosen, 1.0)
        for cut in cuts:
            model.add(model.rows("cut", 1, upper=cut.limit), chosen, cut.weight)
        model.term("value", chosen, problem.value, sense="max")
        outcome = InProcess().solve("highs", model.arrays("value"), Limits(10, gap=0.0))
        assert outcome.values is not None
        assert outcome.objective is not None
        cut = fluid_cut(demands, outcome.values, session())
        if cut is None:
            return outcome.objective, len(cuts)
        assert len(cuts) < 100
        cuts.append(cut)


def test_the_rows_that_choices_break_end_at_the_fluid_relaxation(tiny: ModuleType) -> None:
    cuts = 0
    for seed in range(40):
        for kind in KINDS[:3]:
            problem = able(tiny.problem(seed, "any", **kind))
            if not problem.alternatives or not (problem.first.any() or "rows" in kind):
                continue
            strong = loaded(DemandRows(problem))
            fluid = time_indexed.build(strong, alike(strong)).model.arrays("admitted", relax=True)
            most = InProcess().solve("highs", fluid, Limits(10)).objective
            value, used = rows_of(problem)
            assert value == pytest.approx(most, abs=1e-4), (seed, kind)
            cuts += used
    assert cuts > 10


@pytest.mark.parametrize("releases", [False, True])
def test_the_rows_are_exact_for_jobs_of_one_gpu_whatever_the_capacity_and_whenever_they_begin(
    oracle: ModuleType, tiny: ModuleType, releases: bool
) -> None:
    cuts = 0
    for seed in range(200):
        shape = "any" if releases or seed % 2 else "falling"
        problem = able(tiny.problem(seed, shape, gangs=False, releases=releases, jobs=6))
        if problem.alternatives and (problem.first.any() or (np.diff(problem.capacity) < 0).any()):
            value, used = rows_of(problem, whole=True)
            assert round(value) == oracle.best(problem).admitted, seed
            cuts += used
    assert cuts > 20


def test_a_set_of_leases_that_is_no_window_is_found() -> None:
    whole = {"dtype": np.int64}
    three = np.ones(3, **whole)
    problem = Problem(
        capacity=np.array([[3, 1, 4, 1, 3]], **whole),
        loss=0 * three,
        job=np.arange(3),
        need=4 * three,
        first=0 * three,
        end=5 * three,
        value=three,
        demand=three[:, None],
    )
    demands, all_ = DemandRows(problem), np.ones(3)
    assert not list(demands.violated(all_))
    cut = fluid_cut(demands, all_, session())
    assert cut is not None
    assert (cut.weight.tolist(), cut.limit) == ([1, 1, 1], 2)
    assert fluid_cut(demands, np.array([1.0, 1.0, 0.0]), session()) is None
