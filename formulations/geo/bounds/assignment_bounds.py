"""Bounds of `value` and of the read cost, from the assignment LP and its duals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.bound_arithmetic import HOLD_SLACK
from placewright.formulations.geo import parameters
from placewright.formulations.geo.bounds.lagrangian import lagrangian_value_bound, price_classes
from placewright.formulations.geo.models.assignment_lp import (
    build_assignment_model,
    build_cost_classes,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import SolveOptions

COSTS = ("remote_reads", "egress_cost")


def solve_value_bound(classes: JobClasses, session: Session) -> float:
    """Return a certified upper bound of `value`, at LP duals or, without an LP, at zero."""
    free = np.zeros_like(classes.problem.remote_gib)
    assignment_model = build_assignment_model(classes, build_cost_classes(classes, free))
    arrays = assignment_model.model.arrays("value", relax=True)
    outcome = session.optimise(
        arrays, share=parameters.PARAMETERS.bound_share, options=SolveOptions(presolve=False)
    )
    if outcome is None or outcome.row_duals is None:
        return lagrangian_value_bound(classes, np.zeros(len(assignment_model.rows)))
    return lagrangian_value_bound(classes, np.abs(outcome.row_duals)[assignment_model.rows])


def solve_integer_value_bound(classes: JobClasses, session: Session) -> float | None:
    """Return an upper bound of `value` by the integer assignment model, as the solver claims it.

    None if the model is too large or there is no time.
    """
    assignment_model = build_assignment_model(
        classes, build_cost_classes(classes, np.zeros_like(classes.problem.remote_gib))
    )
    arrays = assignment_model.model.arrays("value")
    if arrays.columns > parameters.PARAMETERS.max_integer_columns:
        return None
    outcome = session.optimise(
        arrays,
        share=parameters.PARAMETERS.bound_share,
        most=parameters.PARAMETERS.max_integer_seconds,
    )
    return None if outcome is None else outcome.bound


def solve_cost_bound(
    classes: JobClasses, costs: Ints, value: int, session: Session
) -> float | None:
    """Return a certified lower bound of the cost of plans of at least this value, at LP duals.

    `costs` (jobs, regions) are the costs of jobs in regions. None if the LP was not solved.
    """
    assignment_model = build_assignment_model(classes, build_cost_classes(classes, costs))
    assignment_model.model.hold("value", value, slack=HOLD_SLACK)
    outcome = session.optimise(
        assignment_model.model.arrays("cost", relax=True), options=SolveOptions(presolve=False)
    )
    if outcome is None or outcome.row_duals is None:
        return None
    duals = np.abs(outcome.row_duals)
    largest = float(costs.max(axis=1, initial=0).sum())
    priced = price_classes(classes, duals[assignment_model.rows], float(duals[-1]), largest)
    return max(0.0, priced.cost_bound(costs, value))


def integer_value_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield the bound of the integer assignment model, if the best plan is not proven yet."""
    if session.best is None or session.close_enough(session.best["value"]):
        return
    most = solve_integer_value_bound(classes, session)
    if most is not None:
        yield Bound("value", most)


def cost_bound(classes: JobClasses, session: Session) -> Iterator[Bound]:
    """Yield a bound of the second term over plans of the best value, if it is a read cost."""
    problem = classes.problem
    first = next((t for t in problem.round.policy.terms[1:2] if t in COSTS), None)
    if first is not None and session.best is not None:
        value = session.best["value"]
        least = solve_cost_bound(classes, problem.read_costs, value, session)
        if least is not None:
            yield Bound(first, least, (("value", value),), certified=True)
