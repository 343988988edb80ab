"""Assignment of jobs to regions: core MIP of the assignment model, then whole jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo import parameters
from placewright.formulations.geo.heuristics.core_mip import solve_core_mip
from placewright.formulations.geo.heuristics.deal_jobs import deal_jobs
from placewright.formulations.geo.models.assignment_lp import (
    AssignmentModel,
    build_assignment_model,
    build_cost_classes,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class RegionAssignment:
    """The region and the GPU model of each pending job (jobs,).

    The region is NONE without capacity, the model NONE if any will do.
    """

    region: Ints
    model: Ints


def assign_regions(classes: JobClasses, costs: Ints, session: Session) -> RegionAssignment | None:
    """Return regions of pending jobs that maximise value, then minimise cost; None without time.

    `costs` (jobs, regions) are the costs of jobs in regions.
    """
    # Without costs the model is much smaller, and may be solved in the time left.
    tuning = parameters.PARAMETERS
    for counted_costs, share in (
        (costs, tuning.assignment_share),
        (np.zeros_like(costs), tuning.costless_assignment_share),
    ):
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
    """Return a good point of the model (columns,), or None without time or solver."""
    model, value = assignment_model.model, assignment_model.classes.value
    # Scaled to the largest value of a job: HiGHS then takes a third less time.
    unit = 1.0 / max(1.0, float(value.max(initial=0)))
    min_value = float(value[value > 0].min(initial=value.max(initial=1)))
    cost_weight = (
        parameters.PARAMETERS.cost_share_of_value * min_value / max(1, int(costs.max(initial=0)))
    )
    columns, score = assignment_model.value
    model.term("score", columns, unit * score, sense="max")
    columns, cost = assignment_model.cost
    model.term("score", columns, -unit * cost_weight * cost, sense="max")
    return solve_core_mip(model.arrays("score"), session, share)
