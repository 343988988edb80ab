"""Fractions of time by hand, beside all vertices of the region, and beside a convex program."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from examples import examples
from placewright.array_types import Floats, Ints
from placewright.rounds.policies.time_fractions import (
    Demand,
    Standing,
    finish_time_fair,
    largest_multiple,
    max_min,
    max_min_agnostic,
    proportionally_fair_lottery,
    shortest_makespan,
)
from placewright.solver import InProcess, Limits, Model

SOLVER = InProcess()


def floats(*values: float) -> Floats:
    """Make a column."""
    return np.array(values, dtype=np.float64)


def demand(rates: list[list[float]], gpus: list[int], capacity: list[int]) -> Demand:
    """Make a demand from lists."""
    return Demand(np.array(rates, dtype=np.float64), np.array(gpus), np.array(capacity))


def drawn(rng: np.random.Generator, jobs: int, models: int) -> Demand:
    """Draw a demand in which each job runs on some models."""
    gpus: Ints = rng.choice([1, 2, 4], jobs)
    capacity: Ints = rng.integers(4, 9, models)
    rates = np.round(rng.uniform(0.2, 5, (jobs, models)), 2)
    rates[rng.random((jobs, models)) < 0.3] = 0
    rates[np.arange(jobs), rng.integers(0, models, jobs)] = 1.0
    return Demand(rates, gpus, capacity)


def is_in_region(given: Demand, fractions: Floats) -> bool:
    """Whether nobody has less than no time or more than all, and every model has the GPUs."""
    return bool(
        (fractions >= 0).all()
        and (fractions[given.rates == 0] == 0).all()
        and (fractions.sum(axis=1) <= 1 + 1e-6).all()
        and (given.gpus @ fractions <= given.capacity * (1 + 1e-6)).all()
    )


def test_themis_of_two_jobs_on_one_gpu_is_the_golden_ratio() -> None:
    """One has 10 s behind it and 10 left, the other 20 left; alone they take 20 and 40 s."""
    rho, fractions = finish_time_fair(
        demand([[1], [1]], [1, 1], [1]),
        Standing(floats(10, 0), floats(10, 20), floats(10, 0), floats(20, 40)),
        SOLVER,
    )
    assert rho == pytest.approx(1.3090, abs=1e-4)
    assert fractions[0, 0] == pytest.approx(0.6180, abs=1e-4)
    assert fractions.sum() == pytest.approx(1, abs=1e-4)


def test_parts_of_the_cluster_by_hand() -> None:
    """Two jobs on 2 and 4 GPUs: each owns 1 and 2; the larger one needs both models to run."""
    given = demand([[3, 1], [6, 2]], [1, 4], [2, 4])
    assert given.proportional().tolist() == pytest.approx([5 / 3, 10 / 3])
    # 3 GPUs for a job of one: a third of its time on the first model; 3/4 of its time for four.
    assert given.isolated().tolist() == pytest.approx([1 + 2 / 3, 6 / 4 + 2 * 2 / 4])


def test_max_min_gives_each_job_the_model_that_is_faster_for_it() -> None:
    """Shares are rates over 1.5; at the largest smallest share, 4/3, nobody shares a model."""
    fractions = max_min(demand([[2, 1], [1, 2]], [1, 1], [1, 1]), SOLVER)
    assert fractions.ravel().tolist() == pytest.approx([1, 0, 0, 1])


def test_shortest_makespan_by_hand() -> None:
    """Work 8 at 4 or 1 a second, and 6 at 2 or 1: both run all the time, on different models.

    With a of its time on the fast one, the first does 1 + 3 a, the second 2 - a a second; they end
    together at a = 5/13, after 26/7 s.
    """
    given = demand([[4, 1], [2, 1]], [1, 1], [1, 1])
    z, fractions = largest_multiple(given, floats(8, 6), SOLVER)
    assert 1 / z == pytest.approx(26 / 7)
    assert fractions.ravel().tolist() == pytest.approx([5 / 13, 8 / 13, 8 / 13, 5 / 13])
    assert shortest_makespan(given, floats(8, 6), SOLVER).tolist() == fractions.tolist()


def test_water_filling_by_hand() -> None:
    """6 GPUs: the job of 1 runs all the time; 5 are left for two of 4: each 2.5, 5/8 of it."""
    fractions = max_min_agnostic(demand([[1, 1]] * 3, [4, 1, 4], [2, 4]))
    assert fractions.sum(axis=1).tolist() == pytest.approx([5 / 8, 1, 5 / 8])
    assert (fractions[:, 1] == 2 * fractions[:, 0]).all()


@pytest.mark.parametrize("seed", range(examples(day=20, nightly=200)))
def test_water_filling_is_lexicographically_largest(seed: int) -> None:
    """Nobody's GPU time can grow unless that of one that has no more shrinks."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8], int(rng.integers(1, 9)))
    given = Demand(np.ones((len(gpus), 1)), gpus, rng.integers(8, 20, 1))
    fractions = max_min_agnostic(given)[:, 0]
    time = gpus * fractions
    stopped = fractions < 1 - 1e-9
    assert (fractions <= 1).all()
    assert time.sum() == pytest.approx(min(int(given.capacity[0]), int(gpus.sum())))
    if stopped.any():
        assert time[stopped] == pytest.approx(time.max())


def best_vertex(given: Demand, need: Floats) -> float:
    """Return the largest z by looking at every vertex of the region, z included."""
    jobs, models = given.rates.shape
    size = jobs * models + 1
    rows, bounds = [], []
    for j in range(jobs):
        work = np.zeros(size)
        work[j * models : (j + 1) * models] = -given.rates[j]
        work[-1] = need[j]
        time = np.zeros(size)
        time[j * models : (j + 1) * models] = 1
        rows += [work, time]
        bounds += [0.0, 1.0]
    for m in range(models):
        room = np.zeros(size)
        room[m:-1:models] = given.gpus
        rows.append(room)
        bounds.append(float(given.capacity[m]))
    a = np.vstack([*rows, -np.eye(size)])
    b = np.concatenate([bounds, np.zeros(size)])
    chosen = np.array(list(combinations(range(len(b)), size)))
    bases = a[chosen]
    regular = np.abs(np.linalg.det(bases)) > 1e-9
    points = np.linalg.solve(bases[regular], b[chosen[regular]][..., None])[..., 0]
    inside = (points @ a.T <= b + 1e-7).all(axis=1)
    return float(points[inside, -1].max())


@pytest.mark.parametrize("seed", range(examples(day=15, nightly=150)))
def test_largest_multiple_is_that_of_the_best_vertex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = drawn(rng, 2, 2)
    need = rng.uniform(0.5, 4, 2)
    z, fractions = largest_multiple(given, need, SOLVER)
    assert is_in_region(given, fractions)
    assert z == pytest.approx(best_vertex(given, need), rel=1e-6)
    assert ((given.rates * fractions).sum(axis=1) >= z * need * (1 - 1e-6)).all()


@pytest.mark.parametrize("seed", range(examples(day=15, nightly=150)))
def test_pooled_jobs_have_the_multiple_of_the_lp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    given = drawn(rng, int(rng.integers(1, 8)), 3)
    pooled = given.pooled(rng.uniform(0.5, 3, len(given.gpus)))
    need = rng.uniform(0.5, 4, len(given.gpus))
    z, fractions = largest_multiple(pooled, need, SOLVER)
    alike = Demand(np.repeat(pooled.rates, 3, axis=1), given.gpus, given.capacity)
    assert is_in_region(alike, given.spread(fractions))
    assert z == pytest.approx(largest_multiple(alike, need, SOLVER)[0], rel=1e-6)


def convex_rho(given: Demand, left: Floats, elapsed: Floats, isolated: Floats) -> float:
    """Return the smallest rho of the convex program, by cutting planes (Kelley 1960).

    Beside fractions there is the time y that the work left takes, at least left / rate, a convex
    function of the fractions of which only tangents are in the LP.
    """
    jobs, models = given.rates.shape
    lp = Model()
    x = lp.variables("x", jobs * models, upper=1.0, integer=False).reshape(jobs, models)
    y = lp.variables("y", jobs, integer=False)
    rho = lp.variables("rho", 1, integer=False)
    lp.add(lp.rows("time", jobs, upper=1.0)[:, None], x, 1.0)
    lp.add(lp.rows("room", models, upper=given.capacity)[None, :], x, given.gpus[:, None])
    fair = lp.rows("fair", jobs, upper=-elapsed)
    lp.add(fair, y, 1.0)
    lp.add(fair, rho, -isolated)
    lp.term("rho", rho, 1.0, sense="min")
    speed = given.rates / left[:, None]
    at = speed.max(axis=1) / 8
    for _ in range(200):
        tangents = lp.rows("tangents", jobs, lower=2 / at)
        lp.add(tangents, y, 1.0)
        lp.add(tangents[:, None], x, speed / at[:, None] ** 2)
        found = SOLVER.solve("highs", lp.arrays("rho"), Limits(10.0))
        values = found.values
        assert values is not None
        at = np.maximum((speed * values[x]).sum(axis=1), at * 1e-3)
        true = float(((elapsed + 1 / at) / isolated).max())
        if true <= values[rho[0]] * (1 + 1e-6):
            return true
    raise AssertionError("the cutting planes do not converge")


@pytest.mark.parametrize("seed", range(examples(day=25, nightly=500)))
def test_bisection_gives_the_rho_of_the_convex_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 7))
    given = drawn(rng, jobs, int(rng.integers(1, 4)))
    left, elapsed = rng.uniform(1, 100, jobs), rng.uniform(0, 60, jobs) * rng.integers(0, 2, jobs)
    isolated = rng.uniform(0, 60, jobs) + left / given.isolated()
    rho, fractions = finish_time_fair(given, Standing(0 * left, left, elapsed, isolated), SOLVER)
    assert is_in_region(given, fractions)
    ends = elapsed + left / (given.rates * fractions).sum(axis=1)
    assert float((ends / isolated).max()) <= rho * (1 + 1e-4)
    assert rho == pytest.approx(convex_rho(given, left, elapsed, isolated), rel=1e-4)


def test_all_tenants_but_one_want_the_same_plan() -> None:
    """The plan of N - 1 tenants is drawn (N - 1) / N of the time (ROBUS, section 4)."""
    value = np.array([[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    assert proportionally_fair_lottery(value, np.ones(5)).tolist() == pytest.approx([0.8, 0.2])
    weight = floats(1, 1, 1, 1, 6)
    assert proportionally_fair_lottery(value, weight).tolist() == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize("seed", range(examples(day=10, nightly=100)))
def test_no_plan_gains_more_than_all_have(seed: int) -> None:
    """At the optimum no plan is worth more than 1 in sum of weight * value / expected value."""
    rng = np.random.default_rng(seed)
    tenants, plans = rng.integers(1, 6, 2).tolist()
    value = np.round(rng.random((tenants, plans)) * rng.integers(0, 2, (tenants, plans)), 2)
    value[:, 0] += 0.05
    weight = rng.uniform(0.2, 2, tenants)
    chance = proportionally_fair_lottery(value, weight)
    assert chance.sum() == pytest.approx(1)
    gain = (weight / weight.sum() / (value @ chance)) @ value
    assert gain.max() <= 1 + 1e-5
