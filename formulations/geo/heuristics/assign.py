"""Which region runs which job, and what that is worth and costs at best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Ints
from placewright.formulations.geo.bounds.lagrangian import most_value, price
from placewright.formulations.geo.heuristics.core_mip import whole_point
from placewright.formulations.geo.heuristics.deal_jobs import whole_jobs
from placewright.formulations.geo.models.assignment_lp import (
    Floats,
    Program,
    clusters_of,
    program_of,
)
from placewright.formulations.geo.problem.class_arrays import Kinds
from placewright.formulations.session import HOLD_SLACK, Session

COST_SHARE = 0.5
"""Of the least worth of a job, what the dearest region costs more than none: value comes first."""

MOST_WHOLE, WHOLE_SECONDS = 3_000, 5.0
"""Columns and time of a program of whole jobs that is solved for its bound."""


def bound_value(kinds: Kinds, session: Session) -> float:
    """Return the most value of any plan, proven by prices; without time or solver they are 0."""
    free = np.zeros_like(kinds.problem.remote)
    program = program_of(kinds, clusters_of(kinds, free))
    arrays = program.model.arrays("value", relax=True)
    outcome = session.optimise(arrays, share=0.3, presolve=False)
    if outcome is None or outcome.row_duals is None:
        return most_value(kinds, np.zeros(len(program.rows)))
    return most_value(kinds, np.abs(outcome.row_duals)[program.rows])


def bound_whole(kinds: Kinds, session: Session) -> float | None:
    """Return the most value of any plan, as a solver claims that knows jobs to be whole.

    None if there are too many ways for that, or no time.
    """
    program = program_of(kinds, clusters_of(kinds, np.zeros_like(kinds.problem.remote)))
    arrays = program.model.arrays("value")
    if arrays.columns > MOST_WHOLE:
        return None
    outcome = session.optimise(arrays, share=0.3, most=WHOLE_SECONDS)
    return None if outcome is None else outcome.bound


def bound_cost(kinds: Kinds, costs: Ints, value: int, session: Session) -> float | None:
    """Return what plans of at least this value cost at least, proven by prices.

    `costs` (jobs, regions) are what jobs cost that run in a region.
    """
    program = program_of(kinds, clusters_of(kinds, costs))
    program.model.hold("value", value, slack=HOLD_SLACK)
    outcome = session.optimise(program.model.arrays("cost", relax=True), presolve=False)
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.abs(outcome.row_duals)
    largest = float(costs.max(axis=1, initial=0).sum())
    priced = price(kinds, duals[program.rows], float(duals[-1]), largest)
    return max(0.0, priced.least(costs, value))


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The region of each pending job (jobs,), and the GPU model; NONE without room, or any."""

    region: Ints
    model: Ints


def choose(kinds: Kinds, costs: Ints, session: Session) -> Chosen | None:
    """Choose regions, for value first and then for cost; None without time or solver."""
    # Without costs the program is much smaller: there is time for that.
    for counted, share in ((costs, 0.45), (np.zeros_like(costs), 0.8)):
        program = program_of(kinds, clusters_of(kinds, counted))
        values = _best(program, counted, session, share)
        if values is not None:
            region, way = whole_jobs(program, values, costs)
            model = np.where(way == NONE, NONE, np.append(kinds.way_model, NONE)[way])
            return Chosen(region, model)
    return None


def _best(program: Program, costs: Ints, session: Session, share: float) -> Floats | None:
    """Return the best point of a program; None without time or solver."""
    model, value = program.model, program.kinds.value
    # In parts of the dearest job: with numbers of that size HiGHS takes a third less time.
    unit = 1.0 / max(1.0, float(value.max(initial=0)))
    least = float(value[value > 0].min(initial=value.max(initial=1)))
    each = COST_SHARE * least / max(1, int(costs.max(initial=0)))
    columns, worth = program.value
    model.term("worth", columns, unit * worth, sense="max")
    columns, cost = program.cost
    model.term("worth", columns, -unit * each * cost, sense="max")
    return whole_point(model.arrays("worth"), session, share)
