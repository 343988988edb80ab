"""The pricing table of host patterns equals enumeration, for every class of hosts at once."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest

from placewright.formulations.gang.models.aggregate import host_columns
from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    grid_host_classes,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.solve import (
    bound_by_relaxation,
    collect_bounds,
    host_pattern_model,
    tasks_per_host,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.solver import InProcess


def problem_of(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    hosts = [
        {
            "name": f"h{i}",
            "gpus": int(rng.integers(1, 5)),
            "gpu_model": "AB"[int(rng.integers(2))],
            "cpu": f"{int(rng.integers(1, 9)) * 500}m",
            "memory": f"{int(rng.integers(1, 9)) * 64}Mi",
        }
        for i in range(5)
    ]
    models = sorted({host["gpu_model"] for host in hosts})
    jobs = [
        {
            "name": f"j{i}",
            "options": [
                {
                    "groups": [
                        {
                            "gpu": int(rng.integers(1, 4)),
                            "cpu": int(rng.integers(0, 4)),
                            "memory": f"{int(rng.integers(0, 4)) * 128}Mi",
                            "gpu_models": None if rng.random() < 0.5 else [models[0]],
                        }
                    ]
                }
            ],
        }
        for i in range(5)
    ]
    return compile_round(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs}))


@pytest.mark.parametrize("seed", range(40))
def test_the_best_pattern_of_each_host_equals_enumeration(seed: int) -> None:
    problem = problem_of(seed)
    empty = Placement(problem)
    fitting = np.stack([empty.fits(s) for s in range(len(problem.shape_gpu))])
    grid = ResourceGrid(problem, empty)
    assert host_patterns_apply(problem, grid)
    classes = grid_host_classes(empty, fitting, grid)
    counts = build_aggregate_model(problem, classes, fitting, empty.whole, sums=False)
    patterns = HostPatterns(counts, grid)
    price = np.random.default_rng(seed).integers(1, 50, len(problem.shape_gpu))

    duals = np.zeros(counts.model.row_count)
    duals[counts.task_row] = -price
    patterns.add_improving(duals, "max")
    best_of = dict.fromkeys(range(len(classes)), 0)
    for kind, cut in zip(patterns.pool.kind, patterns.pool.cuts, strict=True):
        best_of[int(kind)] = max(best_of[int(kind)], int(price @ cut))

    total = 0
    for host in np.flatnonzero(classes.of_host >= 0):
        free = np.array([empty.whole[host], *empty.free[host]])
        sizes = np.column_stack([problem.shape_gpu // 1000, problem.shape_demand])
        best = max(
            int(np.dot(price, count))
            for count in product(*(range(int(n) + 1) for n in fitting[:, host]))
            if (np.dot(count, sizes) <= free).all()
        )
        assert best_of[int(classes.of_host[host])] == best
        total += best
    # In whole numbers, with no price on hosts: what all patterns together can add.
    y = np.zeros(counts.model.row_count, dtype=object)
    y[counts.task_row] = [-int(p) for p in price]
    assert patterns.max_missing_gain(y) == total


@pytest.mark.parametrize("seed", range(20))
def test_exchanges_change_no_optimum_of_the_relaxation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(seed)
    bounds = [relaxed_value(problem)]
    none = np.zeros((0, 2), dtype=np.int64)
    monkeypatch.setattr(host_columns, "exchangeable_slots", lambda *_: none)
    bounds.append(relaxed_value(problem))
    assert bounds[0] == pytest.approx(bounds[1])


def relaxed_value(problem: Problem) -> float:
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    session = Session(InProcess().solve, deadline=time.monotonic() + 60.0)
    _, outcome = collect_bounds(bound_by_relaxation(session, *model, VALUE))
    assert outcome is not None
    assert outcome.objective is not None
    return outcome.objective


def test_patterns_in_use_hold_the_tasks_that_took_their_slots() -> None:
    hosts = [{"name": f"h{i}", "gpus": 4, "gpu_model": "A"} for i in range(3)]
    jobs = [{"name": f"j{gpus}", "options": [{"groups": [{"gpu": gpus}]}]} for gpus in (1, 2, 3)]
    problem = compile_round(Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs}))
    empty = Placement(problem, cleared=True)
    model = host_pattern_model(problem, empty, tasks_per_host(empty))
    assert model is not None
    aggregate, patterns = model
    one, two, three = np.argsort(problem.shape_gpu).tolist()
    cut = np.zeros(3, dtype=np.int64)
    cut[two] = 2
    patterns.add(np.array([0]), cut[None])
    number = np.zeros(aggregate.model.columns, dtype=np.int64)
    number[patterns.pool.columns] = 3
    arrays = aggregate.model.arrays(VALUE)
    # Three of the six slots for two GPUs are taken by tasks of one.
    row = aggregate.task_row
    matrix = np.zeros((arrays.rows, arrays.columns))
    matrix[arrays.entry_rows(), arrays.indices] = arrays.data
    exchange = np.flatnonzero((matrix[row[two]] == -1) & (matrix[row[one]] == 1))
    number[exchange] = 3
    used = patterns.in_use(number)
    assert sum(times for _, _, times in used) == 3
    total = sum(times * cut for _, cut, times in used)
    assert [total[one], total[two], total[three]] == [3, 3, 0]
