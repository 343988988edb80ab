"""Restricted master heuristic: which jobs run by an integer program, then where, host by host."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.displace import counted_starts
from placewright.formulations.gang.heuristics.gang_insertion import insert_counts
from placewright.formulations.gang.heuristics.quota_prices import displace_within_quotas
from placewright.formulations.gang.models.aggregate.column_generation import (
    HostPatternModel,
    PricedModel,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome

DISRUPTION = "disruption"
USED_TOLERANCE = 1e-9


def displace_by_model(
    session: Session,
    model: PricedModel | HostPatternModel,
    relaxed: Outcome | None,
    best: Mapping[str, int] | None = None,
    of_classes: Outcome | None = None,
) -> Placement | None:
    """Restricted master heuristic: an integer program over a few patterns, then disaggregation.

    The aggregate model plans on hosts that are cleared of running jobs; `displace_by_counts` places
    its counts where displacing the running jobs costs least; if that loses some of their value,
    `insert_counts` starts them where running jobs can move. With the values of a `best` plan the
    program has to reach its `value`, and stops the jobs that are cheapest to stop. Priority classes
    are optimised one after the other, over patterns of their own relaxation if that is known. None
    without host patterns, a solved relaxation or an integer solution in time.

    Parameters
    ----------
    relaxed, of_classes
        The relaxation of `value`, and that of the last priority class, the others held.
    """
    counts, patterns = model
    if not isinstance(patterns, HostPatterns) or relaxed is None:
        return None
    columns, program = patterns.pool.columns, counts.model
    terms: tuple[str, ...] = counts.problem.value_terms
    if of_classes is None:
        arrays = program.arrays(VALUE, without=program.held)
        excluded = _columns_to_exclude(arrays, counts, columns, relaxed)
    else:
        held = {f"hold:{term}" for term in terms[:-1]}
        arrays = program.arrays(
            terms[-1], without=[name for name in program.held if name not in held]
        )
        excluded = _columns_to_exclude(arrays, counts, columns, of_classes)
    gap = None
    if best is not None:
        for term in terms:
            program.hold(term, best[term], HOLD_SLACK)
        terms, gap = (DISRUPTION,), parameters.PARAMETERS.models.place_term_gap_rel
    tuning = parameters.PARAMETERS.insertion
    values: NDArray[np.float64] | None = None
    counted = -inf
    left_out = {*program.held} if best is None else set()
    for term in terms:
        arrays = patterns.relax_exchanges(program.arrays(term, without=left_out), session.backend)
        outcome = session.optimise(
            arrays.without_columns(excluded),
            share=tuning.displacement_share,
            most=tuning.max_displacement_seconds,
            gap=gap,
            start=values,
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        values = outcome.values
        counted = outcome.objective if terms == (VALUE,) else -inf
        if term != terms[-1]:
            program.hold(term, round(outcome.objective), HOLD_SLACK)
            left_out -= {f"hold:{term}"}
    if values is None:
        return None
    found = displace_within_quotas(session, counts, patterns, values, relaxed.row_duals)
    upgrade_options(found)
    if found.value >= counted * (1 - session.gap):
        return found
    inserted = Placement(counts.problem)
    insert_counts(session, inserted, counted_starts(counts, values))
    upgrade_options(inserted)
    return max(found, inserted, key=lambda placement: placement.value)


def _columns_to_exclude(
    arrays: Arrays, counts: AggregateModel, patterns: NDArray[np.int64], relaxed: Outcome
) -> NDArray[np.bool_]:
    """Mark the columns (columns,) left out of the restricted master.

    It keeps the patterns that the relaxation uses, and some of least reduced cost.
    """
    excluded = counts.inner_gang_columns
    if relaxed.values is None or relaxed.row_duals is None:
        return excluded
    used = np.zeros(arrays.columns)
    used[: len(relaxed.values)] = relaxed.values
    worth = arrays.reduced_costs(relaxed.row_duals)
    unused = patterns[used[patterns] <= USED_TOLERANCE]
    unused = unused[np.argsort(-worth[unused], kind="stable")]
    excluded[unused[parameters.PARAMETERS.insertion.max_unused_patterns :]] = True
    return excluded
