"""Column generation for the aggregate model: its relaxations, and bounds from them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import tighter
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.account_cuts import AccountCuts
from placewright.formulations.gang.models.aggregate.disruption_budget import without_budget
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.gpu_part_columns import GpuPartPatterns
from placewright.formulations.gang.models.aggregate.host_classes import host_classes
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    grid_host_classes,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.powers_of_two import only_powers_of_two
from placewright.formulations.gang.models.aggregate.resource_grid import ResourceGrid
from placewright.formulations.gang.models.aggregate.sifting import solve_by_sifting
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import BOTTLENECK, OPTION_SUMS, SENSE
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import Model, Outcome, certified_bound, multipliers

PLACE_TERMS = ("disruption", "spread", "opened", BOTTLENECK)
"""Terms of the aggregate model that depend on where jobs are, not only on which of them run."""

MODELLED_TERMS = (*OPTION_SUMS, *SHARE_TERMS, *PLACE_TERMS)
"""Terms of the aggregate model."""


class PricedModel(NamedTuple):
    """An aggregate model with the patterns that price its columns; None if it needs none."""

    aggregate: AggregateModel
    patterns: GpuPatterns | HostPatterns | None


class HostPatternModel(NamedTuple):
    """An aggregate model whose columns are patterns of whole hosts."""

    aggregate: AggregateModel
    patterns: HostPatterns


def aggregate_models(problem: Problem, greedy: Placement) -> Iterator[PricedModel]:
    """Yield the models to search, the one with the tightest relaxation first.

    Patterns of whole hosts are exact for each host, but a search over the patterns generated so far
    may lack those that a good plan needs. So the model by sums follows, and then host patterns
    again, by then with those of the plans found.
    """
    empty = Placement(problem, cleared=True)
    capacity = tasks_per_host(empty)
    tightest = None if only_powers_of_two(problem) else host_pattern_model(problem, empty, capacity)
    if tightest is not None:
        tightest.patterns.add_patterns_of(greedy)
        yield PricedModel(*tightest)
    sums = build_aggregate_model(problem, host_classes(problem, capacity), capacity, empty.whole)
    shares = GpuPatterns if problem.part_demands is None else GpuPartPatterns
    yield PricedModel(sums, shares(sums) if len(sums.parts) else None)
    if tightest is not None:
        yield PricedModel(*tightest)


def tasks_per_host(empty: Placement) -> NDArray[np.int64]:
    """Return how many tasks of each shape fit each host of a cleared placement, (shapes, hosts)."""
    return np.stack([empty.fits(s) for s in range(len(empty.problem.shape_gpu))])


def host_pattern_model(
    problem: Problem, empty: Placement, capacity: NDArray[np.int64]
) -> HostPatternModel | None:
    """Return the model by patterns of whole hosts, none generated; None if they do not apply.

    Under a disruption budget it has those of the running jobs in place, without which it would be
    infeasible.
    """
    grid = ResourceGrid(problem, empty)
    if not host_patterns_apply(problem, grid):
        return None
    classes = grid_host_classes(empty, capacity, grid)
    aggregate = build_aggregate_model(problem, classes, capacity, empty.whole, sums=False)
    patterns = HostPatterns(aggregate, grid)
    if problem.budget is not None:
        patterns.add_patterns_of(Placement(problem))
    return HostPatternModel(aggregate, patterns)


def bound_by_relaxation(
    session: Session,
    aggregate: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    term: str,
    holds: tuple[tuple[str, int], ...] = (),
    without: tuple[str, ...] = (),
) -> Generator[Bound, None, Outcome | None]:
    """Bound a term by column generation over the linear relaxation; return the last outcome.

    Each iteration claims a bound: the optimum over the columns so far plus the most that missing
    ones can add (Lagrange; Lübbecke and Desrosiers, Selected topics in column generation, 2005).
    Columns are priced at the duals and at their running mean, which converges faster
    (stabilisation: Wentges 1997). At the end the duals, as whole numbers, certify a bound. Then
    cuts of accounts are added, and it goes on, as long as that lowers the bound.

    Parameters
    ----------
    holds
        The terms, with their values, that the bound is conditional on; all terms that rows of the
        model hold must be among them.
    without
        Names of row blocks to leave out. They must be the last rows: patterns read duals by row.

    Raises
    ------
    ValueError
        If rows hold another term, or rows that stay come after one that is left out.
    """
    tuning = parameters.PARAMETERS.models
    _check_rows(aggregate.model, holds, without)
    claimed: float | None = None
    last: Outcome | None = None
    mean: NDArray[np.float64] | None = None
    # Without rows of the budget while patterns let too few jobs run on: a weaker bound.
    ignored, retried = False, aggregate.problem.budget is None
    # Rows that hold terms have to be the last ones.
    cuts = AccountCuts(closed=bool(aggregate.model.held))
    inner = bool({"spread", BOTTLENECK} & {term, *(held for held, _ in holds)})
    while True:
        arrays = aggregate.model.arrays(term, relax=True, without=without)
        if not inner:
            arrays = arrays.without_columns(aggregate.inner_gang_columns)
        if ignored:
            arrays = without_budget(aggregate, arrays)
        if patterns is None:
            options = aggregate.sifted
            row = aggregate.option_row[aggregate.y_class[options]]
            outcome = solve_by_sifting(
                session, arrays, aggregate.y[options], row, share=tuning.relaxation_share
            )
        else:
            outcome = session.optimise(arrays, share=tuning.relaxation_share)
        if outcome is None or outcome.bound is None or outcome.row_duals is None:
            if outcome is None or ignored or retried:
                break
            ignored = True
            continue
        last, duals = outcome, outcome.row_duals
        added, missing = False, 0.0
        if patterns is not None:
            # Prices jump from one optimum to the next; their running mean leads faster to the last.
            weight = tuning.dual_smoothing
            mean = duals if mean is None else (1 - weight) * mean + weight * duals
            ahead = mean is not duals and patterns.add_improving(mean, SENSE[term])[0]
            added, missing = patterns.add_improving(duals, SENSE[term])
            added |= ahead
        claimed = tighter(claimed, outcome.bound + arrays.sign * missing, SENSE[term])
        most = outcome.bound + arrays.sign * missing
        done = aggregate.problem.round_bound(term, most) == aggregate.problem.round_bound(
            term, outcome.bound
        )
        if (
            not added
            or done
            or missing <= max(tuning.relaxation_gap_rel, session.gap / 2) * abs(outcome.bound)
        ):
            y = multipliers(arrays, duals)
            certified = certified_bound(arrays, y, patterns.max_missing_gain(y) if patterns else 0)
            if certified is not None:
                value = aggregate.problem.round_certified(term, certified)
                yield Bound(term, value, holds, certified=True)
            if cuts.add(aggregate, outcome, ignored=ignored):
                mean = None
                continue
            if not ignored or retried:
                break
            ignored, retried, mean = False, True, None
    if claimed is not None:
        yield Bound(term, aggregate.problem.round_bound(term, claimed), holds)
    return last if last is None else cuts.priced(aggregate, last)


def _check_rows(model: Model, holds: tuple[tuple[str, int], ...], without: tuple[str, ...]) -> None:
    """Check that duals prove what a relaxation reports; see `bound_by_relaxation`."""
    held = {f"hold:{term}" for term, _ in holds}
    left_out = False
    for block in model.row_blocks:
        left_out |= block.name in without and block.size > 0
        if block.name not in without and block.size > 0 and left_out:
            raise ValueError(f"rows {block.name!r} come after rows that are left out: {without}")
        if block.name in set(model.held) - held - set(without):
            raise ValueError(f"rows {block.name!r} are not among what a bound holds: {holds}")


def collect_bounds(
    steps: Generator[Bound, None, Outcome | None],
) -> tuple[list[Bound], Outcome | None]:
    """Run a relaxation to its end; return its bounds and its outcome."""
    bounds: list[Bound] = []
    while True:
        try:
            bounds.append(next(steps))
        except StopIteration as end:
            return bounds, end.value
