"""The resource grid: rounded units admit exactly the multisets of tasks that fit."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid, coarser_units
from placewright.formulations.gang.models.aggregate.host_columns import host_patterns_apply
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.instances.documents.round import Round


@pytest.mark.parametrize("seed", range(60))
def test_rounded_units_admit_exactly_the_multisets_that_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit = int(rng.integers(50, 500))
    count = int(rng.integers(1, 5))
    gpus = rng.integers(1, 4, count)
    amounts = rng.integers(0, 6, count) * unit + rng.integers(-1, 2, count)
    sizes = np.column_stack([gpus, amounts.clip(min=0)])
    free = np.column_stack([rng.integers(0, 5, 6), rng.integers(0, 14 * unit, 6)])
    found = coarser_units(sizes, free, 60)
    if found is None:
        return
    units, have = found
    assert units.max(initial=0) <= sizes[:, 1].max()
    for (most, amount), most_units in zip(free.tolist(), have.tolist(), strict=True):
        for number in range(most + 1):
            for tasks in combinations_with_replacement(range(count), number):
                chosen = list(tasks)
                if sizes[chosen, 0].sum() <= most:
                    assert (sizes[chosen, 1].sum() <= amount) == (units[chosen].sum() <= most_units)


def test_rounding_is_refused_where_one_mib_makes_a_difference() -> None:
    # Three tasks of 101 do not fit 302, but two and one of 100 do.
    sizes = np.array([[1, 100], [1, 101]])
    assert coarser_units(sizes, np.array([[3, 302]]), 24) is None
    assert coarser_units(sizes, np.array([[3, 303]]), 24) is not None


def test_memory_steps_without_a_common_divisor_make_a_small_table() -> None:
    steps = (21_333, 64_000, 128_000, 192_000)
    round_ = Round.model_validate(
        {
            "cluster": {
                "hosts": [{"name": "h", "gpus": 8, "gpu_model": "A", "cpu": 24, "memory": "500Gi"}]
            },
            "jobs": [
                {
                    "name": f"j{gpus}-{mib}",
                    "options": [
                        {
                            "groups": [
                                {"gpu": gpus, "cpu": f"{3000 * gpus}m", "memory": f"{mib * gpus}Mi"}
                            ]
                        }
                    ],
                }
                for gpus in (1, 2, 4)
                for mib in steps
            ],
        }
    )
    problem = compile_round(round_)
    grid = ResourceGrid(problem, Placement(problem))
    assert host_patterns_apply(problem, grid)
    assert grid.free[0].tolist() == [8, 8, 24]
    assert {*grid.sizes[:, 2].tolist()} == {1, 3, 6, 9, 2, 12, 18, 4, 24, 36}
