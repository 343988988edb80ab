"""Lexicographic optimisation of the aggregate model: its relaxation, its search, its bounds."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import floor

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.column_generation import (
    MODELLED_TERMS,
    PLACE_TERMS,
    bound_by_relaxation,
    collect_bounds,
)
from placewright.formulations.gang.models.aggregate.core_search import (
    option_reduced_costs,
    remaining_core,
    search_core,
)
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.tenant_share_rows import with_actual_shares
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome, ReducedCosts


def search_term_by_term(
    session: Session,
    aggregate: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    relaxed: Outcome | None = None,
    *,
    gap: float | None = None,
    share: float | None = None,
) -> Generator[Bound, None, NDArray[np.float64] | None]:
    """Branch and bound lexicographically, each term held before the next; return the last point.

    Parameters
    ----------
    relaxed
        The outcome of the first term's relaxation over the same columns; then only its core is
        searched (core_search.py).
    gap
        Relative gap of the first term; by default half the session's.
    share
        Of the time left, for the first term.
    """
    problem, model = aggregate.problem, aggregate.model
    values: NDArray[np.float64] | None = None
    holds: list[tuple[str, int]] = []
    pending = set(model.held)
    reduced: ReducedCosts | None = None
    for term in _searched(problem):
        arrays = model.arrays(term, without=pending)
        if isinstance(patterns, HostPatterns):
            arrays = patterns.relax_exchanges(arrays, session.backend)
        if values is None:
            reduced = option_reduced_costs(
                arrays, relaxed, aggregate.y, aggregate.option_row[aggregate.y_class]
            )
            first_gap = session.gap / 2 if gap is None else gap
            outcome = search_core(session, arrays, reduced, first_gap, share)
        else:
            outcome = _search_later(session, term, arrays, values, reduced, holds[0][1])
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        # A model that lacks patterns proves nothing by its search.
        if patterns is None and outcome.bound is not None:
            yield Bound(term, problem.round_bound(term, outcome.bound), tuple(holds))
        values = outcome.values
        if problem.shares:
            values = with_actual_shares(
                model, problem, *aggregate.y_columns, aggregate.left_out_shares, values
            )
        model.hold(term, round(outcome.objective), HOLD_SLACK)
        pending -= {f"hold:{term}"}
        holds.append((term, round(outcome.objective)))
    return values


def _search_later(
    session: Session,
    term: str,
    arrays: Arrays,
    values: NDArray[np.float64],
    reduced: ReducedCosts | None,
    first: int,
) -> Outcome | None:
    """Search a later term from the last point, over the core of the first term."""
    tuning = parameters.PARAMETERS.models
    core = None if reduced is None else remaining_core(arrays, reduced, first)
    inside, start = (arrays, values) if core is None else (core.arrays, core.inside(values))
    gap = tuning.place_term_gap_rel if term in PLACE_TERMS else None
    outcome = session.optimise(
        inside,
        share=tuning.later_search_share,
        most=tuning.max_search_seconds,
        gap=gap,
        start=start,
    )
    if core is None or outcome is None or outcome.values is None:
        return outcome
    return replace(outcome, values=core.whole(outcome.values))


def _modelled(problem: Problem) -> list[str]:
    """Return the policy's terms that the aggregate model has."""
    return [t for t in problem.terms if t in MODELLED_TERMS]


def _searched(problem: Problem) -> list[str]:
    """Return the modelled terms for which counts are searched.

    With pools of levels jobs are placed by what domains have left (domain_packing.py): counts that
    would be best for where jobs are do not last.
    """
    if not problem.pools:
        return _modelled(problem)
    return list(takewhile(lambda term: term not in PLACE_TERMS, _modelled(problem)))


def later_bounds(
    session: Session,
    aggregate: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    terms: Sequence[str] | None = None,
) -> Iterator[Bound]:
    """Bound each later term over the relaxation, earlier ones held at the best plan's values.

    `terms` are the first of the policy's, if not all are asked for.
    """
    problem = aggregate.problem
    pending = set(aggregate.model.held)
    holds: list[tuple[str, int]] = []
    for term in problem.terms if terms is None else terms:
        if session.best is None:
            return
        if term in MODELLED_TERMS:
            if holds:
                without = tuple(pending)
                yield from bound_by_relaxation(
                    session, aggregate, patterns, term, tuple(holds), without
                )
            aggregate.model.hold(term, session.best[term], HOLD_SLACK)
            pending -= {f"hold:{term}"}
        holds.append((term, session.best[term]))


def relax_term_by_term(
    session: Session,
    aggregate: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    terms: Sequence[str],
) -> Generator[Bound, None, Outcome | None]:
    """Relax terms lexicographically, each held at its bound before the next; return the last.

    Each iteration leaves its columns in the model. The bounds hold for plans that reach those of
    the terms before. None if time does not suffice for all of them.
    """
    program, outcome = aggregate.model, None
    pending, holds = set(program.held), list[tuple[str, int]]()
    for term in terms:
        if holds:
            program.hold(*holds[-1], HOLD_SLACK)
            pending -= {f"hold:{holds[-1][0]}"}
        steps = bound_by_relaxation(
            session, aggregate, patterns, term, tuple(holds), tuple(pending)
        )
        bounds, outcome = collect_bounds(steps)
        yield from bounds
        if outcome is None or not bounds:
            return None
        holds.append((term, floor(min(bound.value for bound in bounds))))
    return outcome
