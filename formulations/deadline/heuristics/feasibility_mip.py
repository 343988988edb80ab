"""Leases for ways that were chosen, where filling one by one loses some of them.

`arrange` states the model of `indexed` with these ways only, each of them promised: a few thousand
columns, of which those of jobs that ask a single GPU need no branching. With nothing to weigh up a
solver finds leases for some hundred jobs, or that there are none, in a fraction of a second.

`best_of` lets it choose among few ways, such as those of a choice that cannot be arranged and those
of a schedule that can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import possible
from placewright.formulations.deadline.problem.problem import NONE, Ints, Problem, Schedule
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, Status
from placewright.solver.arrays import Floats

MOST_COLUMNS = 8_000
"""Ways times leases up to which a solver is asked."""

MOST_OF_SEVERAL = 6_000
"""The same where it also has to choose among ways."""

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
    own = problem.only(ways)
    if not possible(own).all():
        return Arranged(impossible=True)
    if time_indexed.cells(own) > MOST_COLUMNS:
        return Arranged()
    model = time_indexed.build(own)
    arrays = model.flowing(model.model.arrays(None))
    lower = arrays.lower.copy()
    lower[model.promised] = 1.0
    arrays = replace(arrays, lower=lower)
    outcome = session.optimise(arrays, most=seconds)
    found = read_flow(model, arrays, outcome, session)
    if found is None:
        return Arranged(impossible=outcome is not None and outcome.status is Status.INFEASIBLE)
    return Arranged(Schedule(np.append(ways, NONE)[found.way], found.runs))


def best_of(
    problem: Problem, ways: Ints, known: Schedule, session: Session, *, seconds: float
) -> Schedule | None:
    """Find the schedule that admits most and breaks no more than a known one.

    Parameters
    ----------
    ways
        The ways that it may give, those of the known one among them.

    Returns
    -------
    The best that was found, or None if nothing was, or the ways are too many.
    """
    own = problem.only(ways)
    if time_indexed.cells(own) > MOST_OF_SEVERAL:
        return None
    model = time_indexed.build(own)
    inside = np.full(problem.ways + 1, NONE, dtype=np.int64)
    inside[ways] = np.arange(len(ways))
    start = model.point(Schedule(inside[known.way], known.runs))
    arrays = model.flowing(model.second_term(known.broken(problem)))
    outcome = session.optimise(arrays, most=seconds, gap=0.0, start=start)
    found = read_flow(model, arrays, outcome, session)
    return None if found is None else Schedule(np.append(ways, NONE)[found.way], found.runs)


def read_flow(
    model: time_indexed.Indexed, arrays: Arrays, outcome: Outcome | None, session: Session
) -> Schedule | None:
    """Return the schedule of an outcome of a model that is `flowing`, if it has one."""
    values = _whole(outcome)
    if values is None and outcome is not None and outcome.values is not None:
        # What flows may lie anywhere on a face of the flow; a vertex of it is whole.
        values = _whole(session.optimise(_fixed(arrays, outcome.values)))
    return None if values is None else time_indexed.read(model, values)


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
