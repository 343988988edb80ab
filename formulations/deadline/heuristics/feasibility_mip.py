"""Feasibility MIP: leases for a selection that list scheduling does not schedule completely.

`find_leases` states the time-indexed model with the selected alternatives fixed: a few thousand
columns, of which those of one-GPU jobs need no branching. Without an objective a solver finds
leases for some hundred jobs, or proves that there are none, in a fraction of a second.

`choose_alternatives` is a restricted MIP (RINS, Danna et al. 2005): it chooses among the
alternatives of a selection and those of a schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models import time_indexed
from placewright.formulations.deadline.models.demand_bound import feasible_alone
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, Status


@dataclass(frozen=True, slots=True)
class Feasibility:
    """A schedule of all selected alternatives, if found; whether a solver claims there is none."""

    schedule: Schedule | None = None
    infeasible: bool = False


def find_leases(
    problem: Problem, alternative: Ints, session: Session, *, seconds: float
) -> Feasibility:
    """Return leases for a selection: the alternative of each job, or `NONE`, (jobs,)."""
    alternatives = alternative[alternative != NONE]
    own = problem.restrict(alternatives)
    if not feasible_alone(own).all():
        return Feasibility(infeasible=True)
    if time_indexed.size(own) > parameters.PARAMETERS.max_feasibility_cells:
        return Feasibility()
    model = time_indexed.build(own)
    arrays = model.relax_flow(model.model.arrays(None))
    lower = arrays.lower.copy()
    lower[model.promised] = 1.0
    arrays = replace(arrays, lower=lower)
    outcome = session.optimise(arrays, most=seconds)
    found = read_flow(model, arrays, outcome, session)
    if found is None:
        return Feasibility(infeasible=outcome is not None and outcome.status is Status.INFEASIBLE)
    return Feasibility(Schedule(np.append(alternatives, NONE)[found.alternative], found.runs))


def choose_alternatives(
    problem: Problem, alternatives: Ints, known: Schedule, session: Session, *, seconds: float
) -> Schedule | None:
    """Return the schedule of these alternatives that admits most and breaks no more than one known.

    Parameters
    ----------
    alternatives
        The alternatives that it may give, those of the known one among them.

    Returns
    -------
    The best that was found, or None if nothing was, or the alternatives are too many.
    """
    own = problem.restrict(alternatives)
    if time_indexed.size(own) > parameters.PARAMETERS.max_restricted_cells:
        return None
    model = time_indexed.build(own)
    inside = np.full(problem.alternatives + 1, NONE, dtype=np.int64)
    inside[alternatives] = np.arange(len(alternatives))
    start = model.values_of(Schedule(inside[known.alternative], known.runs))
    arrays = model.relax_flow(model.maximise_admitted(known.broken(problem)))
    outcome = session.optimise(arrays, most=seconds, gap=0.0, start=start)
    found = read_flow(model, arrays, outcome, session)
    return (
        None
        if found is None
        else Schedule(np.append(alternatives, NONE)[found.alternative], found.runs)
    )


def read_flow(
    model: time_indexed.TimeIndexedModel, arrays: Arrays, outcome: Outcome | None, session: Session
) -> Schedule | None:
    """Return the schedule of an outcome of a model with relaxed flow, if it has one."""
    values = _integral_point(outcome)
    if values is None and outcome is not None and outcome.values is not None:
        # The flow part may be anywhere on a face of the polytope; its vertices are integral.
        values = _integral_point(session.optimise(_fix_integers(arrays, outcome.values)))
    return None if values is None else time_indexed.read(model, values)


def _fix_integers(arrays: Arrays, values: Floats) -> Arrays:
    """Return the linear program with all integer columns fixed."""
    at = np.rint(values)
    return replace(
        arrays,
        lower=np.where(arrays.integer, at, arrays.lower),
        upper=np.where(arrays.integer, at, arrays.upper),
        integer=np.zeros_like(arrays.integer),
    )


def _integral_point(outcome: Outcome | None) -> Floats | None:
    """Return the point of an outcome if there is one, and it is integral."""
    if outcome is None or outcome.values is None:
        return None
    values: Floats = np.rint(outcome.values)
    return (
        values
        if np.abs(values - outcome.values).max(initial=0.0)
        <= parameters.PARAMETERS.integrality_tolerance
        else None
    )
