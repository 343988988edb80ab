"""Bounds by whole jobs: branch and bound over y, with patterns projected out (Benders 1962).

Where a relaxation starts parts of gangs within quotas, a bound needs whole jobs. Branch and bound
over the patterns generated so far proves nothing: others may be missing. But multipliers mu of the
rows with patterns give a row without them that holds whatever the patterns are:

    sum_j (mu A)[j] x[j]  <=  mu b  +  the most that all patterns can add at mu

Such rows take the place of those with patterns, the first at the duals of the relaxation, and whole
y are optimised. If the relaxation cannot start all of these, its duals give the next row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.column_generation import PricedModel
from placewright.formulations.gang.problem.terms import SENSE
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, multipliers
from placewright.solver.arrays import ALWAYS
from placewright.solver.certify import SCALE

_SLACK = 1e-9  # of the row, relative: its coefficients are rounded


def bound_by_whole_jobs(
    session: Session, model: PricedModel, relaxed: Outcome, term: str
) -> Iterator[Bound]:
    """Bound a term that is maximised; `relaxed` is the outcome of its relaxation."""
    counts, patterns = model
    rows: list[tuple[Floats, float]] = []
    for _ in range(parameters.PARAMETERS.models.max_whole_job_rows):
        arrays = _relaxation(model, term)
        pattern = np.zeros(arrays.columns, dtype=np.bool_)
        if patterns is not None:
            if relaxed.row_duals is None:
                return
            pattern[patterns.pool.columns] = True
            priced = np.zeros(arrays.rows, dtype=np.bool_)
            priced[arrays.entry_rows()[pattern[arrays.indices]]] = True
            mu = multipliers(arrays, np.where(priced, relaxed.row_duals, 0.0))
            weight, most = _combined(arrays, mu / SCALE)
            most += patterns.max_missing_gain(mu) / SCALE
            rows.append((np.where(pattern, 0.0, weight), most))
            for row in rows:
                arrays = _with_row(arrays, priced, *row)
                priced = np.append(priced, False)
        integer = np.isin(np.arange(arrays.columns), counts.y)
        found = session.optimise(replace(arrays.without_columns(pattern), integer=integer))
        if found is None or found.bound is None:
            return
        yield Bound(term, counts.problem.round_bound(term, found.bound))
        if patterns is None or found.values is None or found.objective is None:
            return
        within = _relaxed_within(session, model, term, np.rint(found.values[counts.y]))
        if within is None or within.objective is None or within.objective >= found.objective:
            return
        relaxed = within


def _relaxation(model: PricedModel, term: str) -> Arrays:
    counts = model.aggregate
    arrays = counts.model.arrays(term, relax=True, without=counts.model.held)
    return arrays.without_columns(counts.inner_gang_columns)


def _relaxed_within(
    session: Session, model: PricedModel, term: str, most: Floats
) -> Outcome | None:
    """Solve the relaxation with no more jobs than `most` (y,), by column generation."""
    counts, patterns = model
    while True:
        arrays = _relaxation(model, term)
        upper = arrays.upper.copy()
        upper[counts.y] = np.minimum(upper[counts.y], most)
        outcome = session.optimise(replace(arrays, upper=upper))
        if patterns is None or outcome is None or outcome.row_duals is None:
            return outcome
        if not patterns.add_improving(outcome.row_duals, SENSE[term])[0]:
            return outcome


def _combined(arrays: Arrays, multiplier: Floats) -> tuple[Floats, float]:
    """Return the sum of all rows, each times its multiplier: coefficients and upper limit."""
    price = multiplier.astype(np.float64)
    limit = np.where(price > 0, arrays.row_upper, arrays.row_lower)
    paid = arrays.data * price[arrays.entry_rows()]
    weight = np.bincount(arrays.indices, paid, arrays.columns).astype(np.float64)
    return weight, float((price[price != 0] * limit[price != 0]).sum())


def _with_row(arrays: Arrays, left_out: Bools, weight: Floats, most: float) -> Arrays:
    """Return the model with a row `weight @ x <= most` in place of others."""
    columns = np.flatnonzero(weight)
    return replace(
        arrays,
        row_lower=np.append(np.where(left_out, -np.inf, arrays.row_lower), -np.inf),
        row_upper=np.append(
            np.where(left_out, np.inf, arrays.row_upper), most + _SLACK * abs(most)
        ),
        indptr=np.append(arrays.indptr, arrays.indptr[-1] + len(columns)),
        indices=np.append(arrays.indices, columns),
        data=np.append(arrays.data, weight[columns]),
        when=np.append(arrays.when, ALWAYS),
        row_block=np.append(arrays.row_block, len(arrays.block_names)),
        block_names=(*arrays.block_names, "whole jobs"),
    )
