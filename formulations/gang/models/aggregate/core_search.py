"""Core search: branch and bound over the columns of least reduced-cost loss.

The core problem of Balas and Zemel (An Algorithm for Large Zero-One Knapsack Problems, Operations
Research 28, 1980), with reduced-cost fixing of all other columns; solver/core.py has the theory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.bound_arithmetic import HOLD_SLACK, near
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session
from placewright.solver import Arrays, Core, Outcome, ReducedCosts, reduced_costs_of


def option_reduced_costs(
    arrays: Arrays, relaxed: Outcome | None, options: Ints, row: Ints
) -> ReducedCosts | None:
    """Return the reduced costs of a model's relaxation, if it is worth searching a core.

    Parameters
    ----------
    options
        Columns that are options of job classes.
    row
        For each of them, the row that counts the jobs of its class.

    Returns
    -------
    ReducedCosts or None
        None if the model is small, or the relaxation has no duals.
    """
    tuning = parameters.PARAMETERS.models
    if arrays.columns <= tuning.max_core_columns or relaxed is None:
        return None
    if relaxed.row_duals is None or relaxed.values is None:
        return None
    reduced = reduced_costs_of(arrays, relaxed.row_duals, relaxed.values)
    if reduced is None:
        return None
    # If the jobs of a class all have one option, another one loses what it loses, or the class its
    # price where some job waits.
    upper = arrays.upper[options]
    full = (relaxed.values[options] == upper) & (upper == arrays.row_upper[row])
    rival = (reduced.sign * relaxed.row_duals).clip(min=0.0)
    np.minimum.at(rival, row[~full], reduced.loss[options[~full]])
    point, loss = reduced.point.copy(), reduced.loss.copy()
    point[options[full]] = upper[full]
    loss[options[full]] += rival[row[full]]
    return replace(reduced, point=point, loss=loss)


def search_core(
    session: Session,
    arrays: Arrays,
    reduced: ReducedCosts | None,
    gap: float,
    share: float | None = None,
) -> Outcome | None:
    """Search the core; then once more all columns that might still beat the plan found.

    Returns an outcome of the whole model. The whole model is searched if `reduced` is None or the
    first core has no point.
    """
    tuning = parameters.PARAMETERS.models
    share = tuning.first_search_share if share is None else share
    if reduced is None:
        return session.optimise(arrays, share=share, most=tuning.max_search_seconds, gap=gap)
    margin = float(np.partition(reduced.loss, tuning.max_core_columns)[tuning.max_core_columns])
    found: Outcome | None = None
    while True:
        kept = reduced.within(margin)
        core = Core.of(arrays, kept, reduced.point)
        start = None if found is None or found.values is None else core.inside(found.values)
        outcome = session.optimise(
            core.arrays, share=share, most=tuning.max_search_seconds, gap=gap, start=start
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            return found or search_core(session, arrays, None, gap, share)
        # A column outside has lost at least as much as the column left out at the least loss.
        outside = reduced.bound - float(reduced.loss[~kept].min(initial=np.inf))
        bound = None
        if outcome.bound is not None:
            bound = reduced.sign * max(reduced.sign * outcome.bound, outside)
        found = replace(outcome, values=core.whole(outcome.values), bound=bound)
        missing = reduced.shortfall(outcome.objective)
        if missing <= margin or bound is None or near(bound, outcome.objective, gap):
            return found
        margin = missing * (1 + tuning.core_loss_rel)


def remaining_core(arrays: Arrays, reduced: ReducedCosts, held: float) -> Core:
    """Return the core of all points whose first term is no worse than `held`."""
    tuning = parameters.PARAMETERS.models
    lost = reduced.shortfall(held) + HOLD_SLACK + tuning.core_loss_rel * abs(reduced.bound)
    return Core.of(arrays, reduced.within(lost), reduced.point)
