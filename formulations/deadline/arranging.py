"""Leases for ways that were chosen, all of them, where filling one by one loses some.

The model of `indexed` with these ways only, each of them promised: a few thousand columns, of which
those of jobs that ask a single GPU need no branching. With nothing to weigh up a solver finds
leases for some hundred jobs, or that there are none, in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline import indexed
from placewright.formulations.deadline.problem import NONE, Ints, Problem, Schedule
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, Status
from placewright.solver.arrays import Floats

MOST_COLUMNS = 8_000
"""Ways times leases up to which a solver is asked."""

WHOLE = 1e-6
"""How far from a whole number a value may be and still count as that number."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """A schedule of all chosen ways, if one was found; whether a solver claims there is none."""

    schedule: Schedule | None = None
    impossible: bool = False


def arrange(problem: Problem, way: Ints, session: Session, *, seconds: float) -> Arranged:
    """Find leases for all chosen ways, (jobs,): the way of each job, or `NONE`."""
    ways = way[way != NONE]
    own = replace(
        problem,
        job=problem.job[ways],
        need=problem.need[ways],
        first=problem.first[ways],
        end=problem.end[ways],
        value=problem.value[ways],
        demand=problem.demand[ways],
    )
    can = indexed.usable(own)
    if not can.any(axis=1).all():
        return Arranged(impossible=True)
    if can.sum() > MOST_COLUMNS:
        return Arranged()
    model = indexed.build(own)
    arrays = model.flowing(model.model.arrays(None))
    lower = arrays.lower.copy()
    lower[model.promised] = 1.0
    arrays = replace(arrays, lower=lower)
    outcome = session.optimise(arrays, most=seconds)
    values = _whole(outcome)
    if values is None and outcome is not None and outcome.values is not None:
        # What flows may lie anywhere on a face of the flow; a vertex of it is whole.
        values = _whole(session.optimise(_fixed(arrays, outcome.values)))
    if values is None:
        return Arranged(impossible=outcome is not None and outcome.status is Status.INFEASIBLE)
    found = indexed.read(model, values)
    return Arranged(Schedule(np.append(ways, NONE)[found.way], found.runs))


def _fixed(arrays: Arrays, values: Floats) -> Arrays:
    """Return the model with its whole variables where they are, and none that must be whole."""
    at = np.rint(values)
    return replace(
        arrays,
        lower=np.where(arrays.integer, at, arrays.lower),
        upper=np.where(arrays.integer, at, arrays.upper),
        integer=np.zeros_like(arrays.integer),
    )


def _whole(outcome: Outcome | None) -> Floats | None:
    """Return the point of an outcome if there is one, and it is whole."""
    if outcome is None or outcome.values is None:
        return None
    values: Floats = np.rint(outcome.values)
    return values if np.abs(values - outcome.values).max(initial=0.0) <= WHOLE else None
