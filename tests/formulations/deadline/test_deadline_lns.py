"""Local search finds better schedules, breaks no more promises, and is the same each time."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from placewright.formulations.deadline.heuristics.list_scheduling import complete, objective
from placewright.formulations.deadline.heuristics.local_search import improve
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"releases": True},
    {"promises": True},
    {"releases": True, "promises": True, "rows": 2},
)


def nothing(problem: Problem) -> Schedule:
    runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
    return Schedule(np.full(problem.jobs, NONE, dtype=np.int64), runs)


def never() -> bool:
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_at_the_optimum_of_nearly_all_tiny_rounds(
    tiny: ModuleType, oracle: ModuleType, kind: dict[str, Any]
) -> None:
    missed = 0
    for seed in range(24):
        problem = tiny.problem(seed, tiny.SHAPES[seed % 4], jobs=6, **kind)
        best = oracle.best(problem)
        schedule = complete(problem, nothing(problem))
        for found in improve(problem, schedule, never, steps=40):
            assert found.fits(problem)
            assert objective(problem, found) > objective(problem, schedule)
            schedule = found
        assert objective(problem, schedule) <= (-best.broken, best.admitted)
        missed += objective(problem, schedule) < (-best.broken, best.admitted)
    assert missed <= 1


def test_it_stops_when_time_is_up(tiny: ModuleType) -> None:
    problem = tiny.problem(3, jobs=6)
    assert list(improve(problem, nothing(problem), lambda: True)) == []


def test_a_seed_gives_one_answer(tiny: ModuleType) -> None:
    problem = tiny.problem(5, "any", jobs=6, releases=True, promises=True)
    runs = [
        [
            found.runs.tolist()
            for found in improve(problem, nothing(problem), never, steps=50, seed=7)
        ]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0]
