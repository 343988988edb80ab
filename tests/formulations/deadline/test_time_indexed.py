"""The time-indexed model finds, with every backend, what enumeration finds.

The profile `long` tries more rounds of each kind.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from examples import examples
from placewright.formulations.deadline.heuristics.master_subproblem import read_flow
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.problem.problem import Problem, Schedule
from placewright.formulations.session import Session
from placewright.solver import InProcess, Limits, Status
from tests.formulations.deadline import oracle, tiny

ROUNDS = examples(day=6, nightly=24, long=1_000)
KINDS: tuple[dict[str, Any], ...] = (
    {"gangs": False},
    {},
    {"releases": True},
    {"promises": True},
    {"releases": True, "promises": True, "rows": 2},
)


def solved(problem: Problem, backend: str) -> Schedule:
    model = time_indexed.build(problem)
    schedule = None
    for term in (time_indexed.BROKEN, time_indexed.ADMITTED):
        if term == time_indexed.BROKEN:
            arrays = model.model.arrays("broken")
        else:
            assert schedule is not None
            arrays = model.maximise_admitted(schedule.broken(problem))
        start = None if schedule is None else model.values_of(schedule)
        outcome = InProcess().solve(backend, arrays, Limits(20, gap=0.0), start)
        assert outcome.status is Status.OPTIMAL, outcome
        assert outcome.values is not None
        assert outcome.objective is not None
        schedule = time_indexed.read(model, outcome.values)
        assert np.array_equal(model.values_of(schedule), outcome.values)
        value = getattr(schedule, term)(problem)
        assert value == pytest.approx(outcome.objective)
    assert schedule is not None
    assert schedule.fits(problem)
    return schedule


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize(
    ("backend", "every"), [("highs", 1), ("cp-sat", 3), ("cbc", 6), ("scip", 6)]
)
def test_every_backend_finds_what_enumeration_finds(backend: str, every: int) -> None:
    for seed in range(0, ROUNDS, every):
        for number, kind in enumerate(KINDS):
            for shape in tiny.SHAPES:
                problem = tiny.problem(1000 * seed + number, shape, **kind)
                schedule = solved(problem, backend)
                found = (schedule.broken(problem), schedule.admitted(problem))
                assert found == oracle.best(problem), (seed, shape, kind)


def single(capacity: list[int], jobs: list[tuple[int, int, int]], first: int = 0) -> Problem:
    """Jobs of (demand, need, end), of value 1 each."""
    whole = {"dtype": np.int64}
    demand, need, end = np.array(jobs, **whole).T
    n = len(jobs)
    return Problem(
        capacity=np.array([capacity], **whole),
        loss=np.zeros(n, **whole),
        job=np.arange(n),
        need=need,
        first=np.zeros(n, **whole),
        end=end,
        value=np.ones(n, **whole),
        demand=demand[:, None],
    )


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_jobs_of_one_gpu_need_no_branching(kind: dict[str, Any]) -> None:
    for seed in range(ROUNDS):
        problem = tiny.problem(seed, "any", **kind)
        best = oracle.best(problem)
        model = time_indexed.build(problem)
        arrays = model.relax_flow(model.maximise_admitted(best.broken))
        session = Session(InProcess().solve, time.monotonic() + 60)
        outcome = session.optimise(arrays, gap=0.0)
        assert outcome is not None
        assert outcome.objective == pytest.approx(best.admitted)
        schedule = read_flow(model, arrays, outcome, session)
        assert schedule is not None
        assert schedule.fits(problem)
        assert (schedule.broken(problem), schedule.admitted(problem)) == best, seed


@pytest.mark.parametrize(
    ("problem", "value"),
    [
        # Capacity rises: no row at the deadline alone sees that two leases are empty.
        (single([0, 0, 2, 2], [(1, 3, 4)]), 0),
        # Capacity falls: every prefix has capacity.
        (single([2, 1, 0], [(1, 3, 3)]), 0),
        # The area fits, but a gang of two leaves no lease for the job that needs both.
        (single([2, 2], [(2, 1, 2), (1, 2, 2)]), 1),
    ],
)
def test_rounds_that_simpler_rows_get_wrong(problem: Problem, value: int) -> None:
    for backend in ("highs", "cp-sat", "cbc", "scip"):
        assert solved(problem, backend).admitted(problem) == value
