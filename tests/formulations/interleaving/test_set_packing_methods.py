"""Enumeration, templates and column generation agree."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation import (
    solve_by_column_generation,
)
from placewright.formulations.interleaving.set_packing.columns import (
    enumerate_columns,
    merge_classes,
)
from placewright.formulations.interleaving.set_packing.integer_program import solve_program
from placewright.formulations.interleaving.set_packing.solve import Profiles, solve_by_templates
from placewright.formulations.session import Session
from placewright.solver import InProcess
from tests.formulations.interleaving import packings

# At the prices of 1020 a group that is not allowed would pay, since all its jobs must be covered.
SEEDS = (*range(8), 1020)


def methods(packing: PackingProblem) -> Iterator[list[Grouping | GroupingBound]]:
    """Yield what each method finds; the first one is exact."""
    small = merge_classes(packing)
    yield list(solve_program(small.packing, enumerate_columns(small.packing), a_session()))
    yield list(solve_by_templates(small, Profiles.of_problem(small.packing), a_session()))
    yield list(solve_by_column_generation(small.packing, a_session()))


def a_session() -> Session:
    return Session(InProcess().solve, time.monotonic() + 60.0)


@pytest.mark.nightly(after=5)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_method_finds_more_than_there_is_or_proves_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(8, 26))
    job_types = int(rng.integers(2, jobs))
    packing = packings.random_packing(
        seed, jobs, packings.OBJECTIVES[seed % 3], job_types=job_types
    )
    exact, *others = methods(packing)
    values = [found.value for found in exact if isinstance(found, Grouping)]
    for found in [f for found_ in others for f in found_]:
        if isinstance(found, Grouping):
            assert values
            assert found.value <= max(values)
        elif values:
            assert found.value >= max(values)
