"""Sifting: a relaxation with many more options than rows, solved over the few that pay.

Most options of a job lose against its others at any prices near the right ones. A sample of the
classes, with the same fraction of everything else, gives first prices. A program of each class's
best options at those gives better ones. While an option left out would improve the optimum, it is
added. The final duals price every column, so the optimum is that of the whole (Bixby, Gregory,
Lustig, Marsten and Shanno, Very Large-Scale Linear Programming, Operations Research 40, 1992).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session
from placewright.solver import Arrays, Core, Outcome


def solve_by_sifting(
    session: Session, arrays: Arrays, options: Ints, row: Ints, *, share: float
) -> Outcome | None:
    """Solve a relaxation; columns that are no options take part from the start.

    Parameters
    ----------
    options
        Columns that are options.
    row
        For each of them the row that counts the options of its class, in ascending order.
    share
        Of the time left, for each of the programs.
    """
    tuning = parameters.PARAMETERS.models
    classes = len(np.unique(row))
    if len(options) < max(tuning.min_sifting_columns, 2 * tuning.num_options_per_class * classes):
        return session.optimise(arrays, share=share)
    prices = _sampled(session, arrays, options, row, share)
    if prices is None:
        return session.optimise(arrays, share=share)
    kept = np.ones(arrays.columns, dtype=np.bool_)
    kept[options] = False
    worth = arrays.sign * arrays.reduced_costs(prices)[options]
    kept[options[_best(worth, row)]] = True
    small = tuning.sifting_gain_rel * float(np.abs(arrays.cost).max(initial=0.0))
    for _ in range(tuning.max_sifting_rounds):
        core = Core.of(arrays, kept, np.zeros(arrays.columns))
        outcome = session.optimise(core.arrays, share=share)
        if outcome is None or outcome.row_duals is None or outcome.values is None:
            break
        values = core.whole(outcome.values)
        duals = _with_class_prices(arrays, values, outcome.row_duals, options, row)
        worth = np.where(kept, 0.0, arrays.sign * arrays.reduced_costs(duals))[options]
        pays = np.flatnonzero(worth > small)
        if not len(pays):
            missing = arrays.sign * float(worth.clip(min=0.0) @ arrays.upper[options])
            bound = None if outcome.bound is None else outcome.bound + missing
            return replace(outcome, values=values, bound=bound, row_duals=duals)
        kept[options[pays[_best(worth[pays], row[pays])]]] = True
    return session.optimise(arrays, share=share)


def _sampled(
    session: Session, arrays: Arrays, options: Ints, row: Ints, share: float
) -> Floats | None:
    """Return the prices of rows in a sample of the classes, 0 for the rows of the classes."""
    tuning = parameters.PARAMETERS.models
    every = -(-len(options) // tuning.num_sample_columns)
    kept = np.ones(arrays.columns, dtype=np.bool_)
    kept[options] = row % every == 0
    upper, scale = arrays.upper / every, np.full(arrays.rows, 1.0 / every)
    upper[options], scale[row] = arrays.upper[options], 1.0
    sample = replace(
        arrays,
        upper=upper,
        row_lower=arrays.row_lower * scale,
        row_upper=arrays.row_upper * scale,
    )
    core = Core.of(sample, kept, np.zeros(arrays.columns))
    outcome = session.optimise(core.arrays, share=share)
    if outcome is None or outcome.row_duals is None:
        return None
    prices = outcome.row_duals.copy()
    prices[row] = 0.0
    return prices


def _with_class_prices(
    arrays: Arrays, values: Floats, duals: Floats, options: Ints, row: Ints
) -> Floats:
    """Return duals of the same value at which options left out have lower reduced costs.

    An option at its own upper bound that uses up all jobs of its class has a positive reduced cost.
    It can be moved to the dual of the class, so that the class's other options have to earn more.
    """
    worth = arrays.sign * arrays.reduced_costs(duals)[options]
    upper = arrays.upper[options]
    full = (values[options] == upper) & (upper == arrays.row_upper[row]) & (worth > 0)
    priced = duals.copy()
    priced[row[full]] += arrays.sign * worth[full]
    return priced


def _best(worth: Floats, row: Ints) -> Ints:
    """Return the positions of the best options of each class; `row` is in ascending order."""
    tuning = parameters.PARAMETERS.models
    order = np.lexsort((-worth, row))
    first = np.searchsorted(row, row, side="left")
    return order[np.arange(len(order)) - first < tuning.num_options_per_class]
