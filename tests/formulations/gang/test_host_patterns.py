"""The pricing table of host patterns equals enumeration, for every class of hosts at once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    grid_host_classes,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.resource_grid import ResourceGrid
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.round import Round


def problem_of(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    hosts = [
        {
            "name": f"h{i}",
            "gpus": int(rng.integers(1, 5)),
            "gpu_model": "AB"[int(rng.integers(2))],
            "cpu": int(rng.integers(1, 9)) * 500,
            "memory": int(rng.integers(1, 9)) * 64,
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
                            "gpu": int(rng.integers(1, 4)) * 1000,
                            "cpu": int(rng.integers(0, 4)) * 1000,
                            "memory": int(rng.integers(0, 4)) * 128,
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
    room = np.stack([empty.fits(s) for s in range(len(problem.shape_gpu))])
    grid = ResourceGrid(problem, empty)
    assert host_patterns_apply(problem, grid)
    classes = grid_host_classes(empty, room, grid)
    counts = build_aggregate_model(problem, classes, room, empty.whole, sums=False)
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
            for count in product(*(range(int(n) + 1) for n in room[:, host]))
            if (np.dot(count, sizes) <= free).all()
        )
        assert best_of[int(classes.of_host[host])] == best
        total += best
    # In whole numbers, with no price on hosts: what all patterns together can add.
    y = np.zeros(counts.model.row_count, dtype=object)
    y[counts.task_row] = [-int(p) for p in price]
    assert patterns.max_missing_gain(y) == total
