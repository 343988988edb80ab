"""Which region runs which job, and what that is worth and costs at best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Ints
from placewright.formulations.geo.bounds.lagrangian import price_classes, value_bound
from placewright.formulations.geo.heuristics.core_mip import solve_core_mip
from placewright.formulations.geo.heuristics.deal_jobs import deal_jobs
from placewright.formulations.geo.models.assignment_lp import (
    AssignmentModel,
    Floats,
    build_assignment_model,
    build_cost_classes,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.session import HOLD_SLACK, Session

COST_SHARE = 0.5
"""Of the least worth of a job, what the dearest region costs more than none: value comes first."""

MAX_INTEGER_COLUMNS, INTEGER_SECONDS = 3_000, 5.0
"""Columns and time of a program of whole jobs that is solved for its bound."""


def solve_value_bound(classes: JobClasses, session: Session) -> float:
    """Return the most value of any plan, proven by prices; without time or solver they are 0."""
    free = np.zeros_like(classes.problem.remote_gib)
    assignment_model = build_assignment_model(classes, build_cost_classes(classes, free))
    arrays = assignment_model.model.arrays("value", relax=True)
    outcome = session.optimise(arrays, share=0.3, presolve=False)
    if outcome is None or outcome.row_duals is None:
        return value_bound(classes, np.zeros(len(assignment_model.rows)))
    return value_bound(classes, np.abs(outcome.row_duals)[assignment_model.rows])


def solve_integer_value_bound(classes: JobClasses, session: Session) -> float | None:
    """Return the most value of any plan, as a solver claims that knows jobs to be whole.

    None if there are too many ways for that, or no time.
    """
    assignment_model = build_assignment_model(
        classes, build_cost_classes(classes, np.zeros_like(classes.problem.remote_gib))
    )
    arrays = assignment_model.model.arrays("value")
    if arrays.columns > MAX_INTEGER_COLUMNS:
        return None
    outcome = session.optimise(arrays, share=0.3, most=INTEGER_SECONDS)
    return None if outcome is None else outcome.bound


def solve_cost_bound(
    classes: JobClasses, costs: Ints, value: int, session: Session
) -> float | None:
    """Return what plans of at least this value cost at least, proven by prices.

    `costs` (jobs, regions) are what jobs cost that run in a region.
    """
    assignment_model = build_assignment_model(classes, build_cost_classes(classes, costs))
    assignment_model.model.hold("value", value, slack=HOLD_SLACK)
    outcome = session.optimise(assignment_model.model.arrays("cost", relax=True), presolve=False)
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.abs(outcome.row_duals)
    largest = float(costs.max(axis=1, initial=0).sum())
    priced = price_classes(classes, duals[assignment_model.rows], float(duals[-1]), largest)
    return max(0.0, priced.cost_bound(costs, value))


@dataclass(frozen=True, slots=True, eq=False)
class RegionAssignment:
    """The region of each pending job (jobs,), and the GPU model; NONE without room, or any."""

    region: Ints
    model: Ints


def assign_regions(classes: JobClasses, costs: Ints, session: Session) -> RegionAssignment | None:
    """Choose regions, for value first and then for cost; None without time or solver."""
    # Without costs the program is much smaller: there is time for that.
    for counted_costs, share in ((costs, 0.45), (np.zeros_like(costs), 0.8)):
        assignment_model = build_assignment_model(
            classes, build_cost_classes(classes, counted_costs)
        )
        values = _solve(assignment_model, counted_costs, session, share)
        if values is not None:
            region, assignment = deal_jobs(assignment_model, values, costs)
            model = np.where(
                assignment == NONE, NONE, np.append(classes.assignment_model, NONE)[assignment]
            )
            return RegionAssignment(region, model)
    return None


def _solve(
    assignment_model: AssignmentModel, costs: Ints, session: Session, share: float
) -> Floats | None:
    """Return the best point of a program; None without time or solver."""
    model, value = assignment_model.model, assignment_model.classes.value
    # In parts of the dearest job: with numbers of that size HiGHS takes a third less time.
    unit = 1.0 / max(1.0, float(value.max(initial=0)))
    min_value = float(value[value > 0].min(initial=value.max(initial=1)))
    cost_weight = COST_SHARE * min_value / max(1, int(costs.max(initial=0)))
    columns, score = assignment_model.value
    model.term("worth", columns, unit * score, sense="max")
    columns, cost = assignment_model.cost
    model.term("worth", columns, -unit * cost_weight * cost, sense="max")
    return solve_core_mip(model.arrays("worth"), session, share)
