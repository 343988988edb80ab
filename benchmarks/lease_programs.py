"""Time-indexed programs of deadline admission, given whole to one solver.

That of Chronus's artifact has a 0/1 variable per deadline of a job and lease, so that a job with
four deadlines has four rows of them. It asks that each job has one of its deadlines; where not all
jobs fit it has no solution, so here at most one. Placewright's own exact model is in
`formulations/deadline/models/time_indexed.py`.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21;
`MIPSolver.job_selection` of its artifact, whose current lease is to be used as much as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.baselines import Answer, InvalidPlanError
from placewright.array_types import Ints
from placewright.formulations.deadline.models.time_indexed import build, read
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.solver import Arrays, Limits, Model, Status, Worker

__all__ = ["Program", "artifact", "artifact_program", "indexed"]

Program = Callable[[str, float, Problem], Answer]

_ROUNDING = 1e-6


def artifact_program(problem: Problem) -> tuple[Model, Ints, Ints]:
    """Return the artifact's program, and its columns (alternatives,) and (alternatives, horizon).

    Its only term, `admitted`, adds to the value at most 1 for what the current lease is used.
    """
    model = Model()
    chosen = model.variables("chosen", problem.alternatives, upper=1.0)
    one = model.rows("one deadline", problem.jobs, upper=1.0)
    model.add(one[problem.job], chosen, 1.0)
    lease = np.arange(problem.horizon)
    inside = (problem.first[:, None] <= lease) & (lease < problem.end[:, None])
    alternative, at = np.nonzero(inside)
    runs = np.full(inside.shape, -1, dtype=np.int64)
    runs[inside] = held = model.variables("runs", len(alternative), upper=1.0)
    work = model.rows("work", problem.alternatives, lower=0.0, upper=0.0)
    model.add(work[alternative], held, 1.0)
    model.add(work, chosen, -problem.need.astype(np.float64))
    for i, (row, asked) in enumerate(zip(problem.capacity, problem.demand.T, strict=True)):
        capacity = model.rows(f"capacity {i}", problem.horizon, upper=row.astype(np.float64))
        model.add(capacity[at], held, asked[alternative].astype(np.float64))
    model.term("admitted", chosen, problem.value.astype(np.float64), sense="max")
    now = at == 0
    most = max(1, int(problem.capacity[0].max()))
    model.term("admitted", held[now], problem.demand[alternative[now], 0] / most, sense="max")
    return model, np.asarray(chosen, dtype=np.int64), runs


def artifact(backend: str, seconds: float, problem: Problem) -> Answer:
    """Solve the artifact's program; the value is that of the schedule."""
    model, chosen, runs = artifact_program(problem)

    def schedule(values: npt.NDArray[np.float64]) -> Schedule:
        alternatives = np.flatnonzero(values[chosen] > 0.5)
        alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        alternative[problem.job[alternatives]] = alternatives
        when = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        when[problem.job[alternatives]] = (runs[alternatives] >= 0) & (
            values[runs[alternatives]] > 0.5
        )
        return Schedule(alternative, when)

    return _answer(backend, model.arrays("admitted"), "admitted", seconds, problem, schedule)


def indexed(backend: str, seconds: float, problem: Problem) -> Answer:
    """Solve placewright's exact model, for the first term that is in question."""
    model = build(problem)
    if problem.loss.any():
        arrays, term = model.model.arrays("broken"), "broken"
    else:
        arrays, term = model.maximise_admitted(0), "admitted"
    return _answer(backend, arrays, term, seconds, problem, partial(read, model))


def _answer(
    backend: str,
    arrays: Arrays,
    term: str,
    seconds: float,
    problem: Problem,
    read: Callable[[npt.NDArray[np.float64]], Schedule],
) -> Answer:
    with Worker() as worker:
        outcome = worker.solve(backend, arrays, Limits(seconds=seconds, gap=0.0))
    bound: float | None = None
    if outcome.bound is not None:
        most, least = outcome.bound + _ROUNDING, outcome.bound - _ROUNDING
        bound = math.floor(most) if term == "admitted" else math.ceil(least)
    if outcome.values is None:
        return Answer(outcome.status.value, term, None, bound, outcome.message)
    schedule = read(outcome.values)
    if not schedule.fits(problem):
        raise InvalidPlanError(f"the schedule of {backend} does not fit; a feasible one expected")
    broken, admitted = schedule.broken(problem), schedule.admitted(problem)
    value = broken if term == "broken" else admitted
    status = "optimal" if outcome.status is Status.OPTIMAL else "feasible"
    figures = {"columns": arrays.columns, "broken": broken, "admitted": admitted}
    return Answer(status, term, value, bound, outcome.message, figures)
