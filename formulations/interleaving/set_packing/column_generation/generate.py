"""Stabilised column generation: the LP relaxation over all columns, few of which are generated.

The restricted master's duals price jobs and rows. Columns of positive reduced cost (here: value
less prices) enter, first from the exchange neighbourhoods of the columns in use
(`heuristic_pricing`), then from exact pricing (`pricing`), which bounds the full master at any
prices. Duals of a master over few columns oscillate: so exact pricing uses a convex combination of
them and the best duals so far (Wentges smoothing), repaired until hardly a group has positive
reduced cost (`dual_repair`).

References
----------
Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming", International
Transactions in Operational Research 4, 1997; du Merle, Villeneuve, Desrosiers and Hansen,
"Stabilized column generation", Discrete Mathematics 194, 1999.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation.dual_repair import (
    member_increases,
    repair_duals,
)
from placewright.formulations.interleaving.set_packing.column_generation.duals import (
    Prices,
    max_groups,
    rounded_prices,
)
from placewright.formulations.interleaving.set_packing.column_generation.heuristic_pricing import (
    price_neighbours,
)
from placewright.formulations.interleaving.set_packing.column_generation.master import (
    MasterSolution,
    retained_columns,
    select_entering,
    solve_master,
)
from placewright.formulations.interleaving.set_packing.column_generation.pricing import (
    PricingResult,
    solve_pricing,
)
from placewright.formulations.interleaving.set_packing.columns import (
    Columns,
    concatenate,
    with_values,
)
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class _PricingRound:
    """Exact pricing of all buckets at some duals.

    Attributes
    ----------
    job, row
        The prices, raised until hardly a group pays, as in `Relaxation`.
    bound
        What they prove.
    columns
        Groups that paid before.
    """

    job: Floats
    row: Floats
    bound: int
    columns: Columns


def generate(
    packing: PackingProblem, start: Columns, session: Session, reserve: float
) -> Iterator[GroupingBound | MasterSolution]:
    """Yield ever tighter bounds, and finally the solution of the last restricted master.

    Parameters
    ----------
    start
        Columns to begin with, each class on its own among them.
    reserve
        Seconds to leave before the deadline.
    """
    rng = np.random.default_rng(session.seed)
    columns, last = start, 0.0
    solution: MasterSolution | None = None
    best: _PricingRound | None = None
    smoothing, rounds_without_gain = parameters.PARAMETERS.dual_smoothing_share, 0
    group_limit = max(int(max_groups(packing).sum()), 1)
    zero_prices = rounded_prices(packing, np.zeros(packing.classes), np.zeros(len(packing.limit)))
    if zero_prices is not None:
        # However little time there is, there is a bound: each job as if it were on its own.
        yield GroupingBound(
            _price_all_buckets(
                packing,
                zero_prices,
                0,
                parameters.PARAMETERS.max_first_pricing_nodes,
                session,
                reserve,
            ).bound,
            certified=True,
        )
    while not session.expired(reserve):
        solved = solve_master(packing, columns, session)
        if solved is None:
            break
        solution = solved
        prices = _stabilised_prices(packing, solution, best, smoothing)
        master_prices = rounded_prices(packing, solution.job, solution.row)
        if prices is None or master_prices is None:
            break
        tolerance = int(
            parameters.PARAMETERS.pricing_tolerance_rel
            * solution.value
            / group_limit
            * prices.scale
        )
        used = columns.take(solution.values > 0)
        entering = price_neighbours(packing, prices, used, tolerance, rng)
        stalled = solution.value <= last * (1 + parameters.PARAMETERS.stall_gain_rel)
        last = solution.value
        if stalled or (best is None and session.expired(2 * reserve)):
            repaired = _repair_prices(packing, prices, entering, tolerance)
            if repaired is None:
                break
            pricing_round = _price_all_buckets(
                packing,
                repaired,
                tolerance,
                parameters.PARAMETERS.max_pricing_nodes,
                session,
                reserve,
            )
            entering = concatenate(entering, pricing_round.columns)
            rounds_without_gain += 1
            if best is None or pricing_round.bound < best.bound:
                if best is None or pricing_round.bound < best.bound * (
                    1 - parameters.PARAMETERS.pricing_tolerance_rel
                ):
                    rounds_without_gain = 0
                best = pricing_round
                yield GroupingBound(best.bound, certified=True)
            if (
                best.bound <= solution.value * (1 + parameters.PARAMETERS.close_gap_rel)
                or rounds_without_gain > parameters.PARAMETERS.max_iterations_without_gain
            ):
                break
        gain = master_prices.reduced_cost(packing, entering.members, entering.value)
        # Where nothing pays at the relaxation's own prices, the next look is nearer to them.
        smoothing = (
            parameters.PARAMETERS.dual_smoothing_share
            if (gain > tolerance).any()
            else smoothing / 2
        )
        gain = prices.reduced_cost(packing, entering.members, entering.value)
        entering = entering.take(select_entering(entering, gain, packing.classes))
        columns = concatenate(retained_columns(packing, solution, master_prices), entering)
    if solution is not None:
        yield solution


def _stabilised_prices(
    packing: PackingProblem, solution: MasterSolution, best: _PricingRound | None, smoothing: float
) -> Prices | None:
    """Return duals smoothed with the best ones so far (Wentges)."""
    if best is None:
        return rounded_prices(packing, solution.job, solution.row)
    job = smoothing * best.job + (1 - smoothing) * solution.job
    return rounded_prices(packing, job, smoothing * best.row + (1 - smoothing) * solution.row)


def _repair_prices(
    packing: PackingProblem, prices: Prices, columns: Columns, tolerance: int
) -> Prices | None:
    """Return prices at which no given column exceeds the tolerance."""
    reduced = prices.reduced_cost(packing, columns.members, columns.value)
    increase = member_increases(packing, PricingResult(columns, reduced, tolerance), tolerance)
    return rounded_prices(packing, prices.job + increase / prices.scale, prices.row)


def _price_all_buckets(
    packing: PackingProblem,
    prices: Prices,
    tolerance: int,
    work: int,
    session: Session,
    reserve: float,
) -> _PricingRound:
    """Price all buckets exactly, and return the repaired duals with their bound."""
    group_limits, bound, job = max_groups(packing), prices.base, prices.job
    parts = [with_values(packing, packing.frozen_groups)]
    for bucket in range(packing.buckets):
        in_bucket = packing.bucket == bucket
        if (packing.count[in_bucket] > 0).any():
            found = solve_pricing(packing, prices, bucket, tolerance, work, session, reserve)
            repair = repair_duals(packing, found, int(group_limits[bucket]))
            bound += repair.cost
            # What groups still pay, their members pay in equal parts.
            job = (
                job
                + (repair.increase + in_bucket * (repair.threshold / packing.max_members))
                / prices.scale
            )
            parts.append(found.columns)
    return _PricingRound(job, prices.row, bound // prices.scale, concatenate(*parts))
