"""Branch and bound over the columns that a relaxation leaves in doubt, and the bound that gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK, near
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session
from placewright.solver import Arrays, Core, Outcome, ReducedCosts, reduced_costs_of

Ints = NDArray[np.int64]


def option_reduced_costs(
    arrays: Arrays, relaxed: Outcome | None, options: Ints, row: Ints
) -> ReducedCosts | None:
    """Return what a relaxation says of the columns of a model, if that is worth a core.

    `options` are columns of which a row, of each the one in `row`, counts those of a class.
    """
    tuning = parameters.PARAMETERS.models
    if arrays.columns <= tuning.max_core_columns or relaxed is None:
        return None
    if relaxed.row_duals is None or relaxed.values is None:
        return None
    doubt = reduced_costs_of(arrays, relaxed.row_duals, relaxed.values)
    if doubt is None:
        return None
    # If the jobs of a class all have one option, another one loses what it loses, or the class its
    # price where some job waits.
    upper = arrays.upper[options]
    full = (relaxed.values[options] == upper) & (upper == arrays.row_upper[row])
    rival = (doubt.sign * relaxed.row_duals).clip(min=0.0)
    np.minimum.at(rival, row[~full], doubt.loss[options[~full]])
    point, loss = doubt.point.copy(), doubt.loss.copy()
    point[options[full]] = upper[full]
    loss[options[full]] += rival[row[full]]
    return replace(doubt, point=point, loss=loss)


def search_core(
    session: Session,
    arrays: Arrays,
    doubt: ReducedCosts | None,
    gap: float,
    share: float | None = None,
) -> Outcome | None:
    """Search the columns least settled; once more those that might still beat what was found.

    The outcome is one of the whole model, which is searched where nothing is known of its columns,
    or the first core has no point.
    """
    tuning = parameters.PARAMETERS.models
    share = tuning.first_search_share if share is None else share
    if doubt is None:
        return session.optimise(arrays, share=share, most=tuning.max_search_seconds, gap=gap)
    margin = float(np.partition(doubt.loss, tuning.max_core_columns)[tuning.max_core_columns])
    found: Outcome | None = None
    while True:
        kept = doubt.within(margin)
        core = Core.of(arrays, kept, doubt.point)
        start = None if found is None or found.values is None else core.inside(found.values)
        outcome = session.optimise(
            core.arrays, share=share, most=tuning.max_search_seconds, gap=gap, start=start
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            return found or search_core(session, arrays, None, gap, share)
        # Whoever is outside has lost at least as much as the column left out at the least loss.
        outside = doubt.bound - float(doubt.loss[~kept].min(initial=np.inf))
        bound = None
        if outcome.bound is not None:
            bound = doubt.sign * max(doubt.sign * outcome.bound, outside)
        found = replace(outcome, values=core.whole(outcome.values), bound=bound)
        missing = doubt.shortfall(outcome.objective)
        if missing <= margin or bound is None or near(bound, outcome.objective, gap):
            return found
        margin = missing * (1 + tuning.core_loss_rel)


def remaining_core(arrays: Arrays, doubt: ReducedCosts, held: float) -> Core:
    """Return the core of the points whose objective, that of the doubt, is no worse than `held`."""
    tuning = parameters.PARAMETERS.models
    lost = doubt.shortfall(held) + HOLD_SLACK + tuning.core_loss_rel * abs(doubt.bound)
    return Core.of(arrays, doubt.within(lost), doubt.point)
