"""Column generation over groups of distinct jobs, then diving and the restricted master MIP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
    pad_members,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    Columns,
    column_values,
    concatenate,
    single_values,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    SetPackingProgram,
    greedy,
    improve_by_exchange,
    round_relaxation,
)
from placewright.formulations.interleaving.set_packing.pricing import (
    Prices,
    PricingResult,
    max_groups,
    price_neighbours,
    rounded_prices,
    solve_pricing,
)
from placewright.formulations.session import Session

# Dual repair: raise duals until few groups have positive reduced cost, to tighten the bound.
#
# After exact pricing every group of a bucket that was not found has a reduced cost of at most
# `rest_bound`. A threshold of reduced cost may remain, which costs the threshold times the groups
# that fit; what exceeds it is removed by raising the duals of members, which costs the increase
# times the jobs. Raised duals give no other group a positive reduced cost. The cheapest of some
# thresholds is taken.


@dataclass(frozen=True, slots=True, eq=False)
class DualRepair:
    """Increases of the duals of one bucket's classes, and what they cost."""

    increase: Ints  # (classes,): What is added to the scaled price of a job of each class
    threshold: int  # No group has a greater scaled reduced cost at the raised prices
    cost: int  # By how much the scaled bound exceeds that of the prices before, if no group paid


def repair_duals(packing: PackingProblem, found: PricingResult, group_limit: int) -> DualRepair:
    """Return the cheapest of some repairs; at most `group_limit` groups of the bucket fit."""
    top = max(int(found.reduced.max(initial=found.rest_bound)), found.rest_bound)
    best = DualRepair(np.zeros(packing.classes, dtype=np.int64), top, top * group_limit)
    for share in parameters.PARAMETERS.dual_repair_threshold_shares:
        threshold = found.rest_bound + int((top - found.rest_bound) * share)
        if threshold * group_limit >= best.cost:
            continue
        increase = member_increases(packing, found, threshold)
        cost = threshold * group_limit + sum((increase.astype(object) * packing.count).tolist())
        best = min(best, DualRepair(increase, threshold, cost), key=lambda r: r.cost)
    return best


def member_increases(packing: PackingProblem, found: PricingResult, threshold: int) -> Ints:
    """Return increases at which no found group exceeds the threshold, int64 (classes,).

    Always that class is raised that most takes part, by as much as the worst of its groups needs.
    """
    some = found.reduced > threshold
    members, over = found.columns.members[some], found.reduced[some] - threshold
    increase = np.zeros(packing.classes, dtype=np.int64)
    while len(over):
        present = members != ALONE
        part = np.repeat(over, present.sum(axis=1)).astype(np.float64)
        mass = np.bincount(members[present], weights=part, minlength=packing.classes)
        raised_class = int((mass / packing.count.clip(min=1)).argmax())
        times = (members == raised_class).sum(axis=1)
        more = int((-(-over // times.clip(min=1)))[times > 0].max())
        increase[raised_class] += more
        over = over - more * times
        members, over = members[over > 0], over[over > 0]
    return increase


# The restricted master: its LP, the columns that it begins with, and those that enter and stay.
#
# A class that must be covered pays a premium instead of a row that could not be kept at first; the
# premium is taken off its dual afterwards.


@dataclass(frozen=True, slots=True, eq=False)
class MasterSolution:
    """An LP solution of the restricted master, with its duals."""

    columns: Columns
    values: Floats  # (columns,): How often each column is used
    job: Floats  # (classes,): The price of a job of each class
    row: Floats  # (rows,): The price of a unit of each row

    @property
    def value(self) -> float:
        """Value of the LP solution."""
        return float(self.values @ self.columns.value)


def initial_columns(packing: PackingProblem, seed: int) -> Columns:
    """Return single jobs, groups that run, and random groups."""
    rng = np.random.default_rng(seed)
    classes = np.flatnonzero(packing.count > 0)
    parts = [
        Columns(pad_members(classes[:, None]), single_values(packing)[classes]),
        with_values(packing, packing.frozen_groups),
    ]
    for bucket in range(packing.buckets):
        jobs = classes[packing.bucket[classes] == bucket]
        for size in range(2, packing.max_members + 1):
            for _ in range(parameters.PARAMETERS.num_start_groups_per_job):
                drawn = rng.permutation(jobs)[: len(jobs) // size * size].reshape(-1, size)
                groups = pad_members(np.sort(drawn, axis=1))
                some = Columns(groups, column_values(packing, groups))
                parts.append(some.take(some.value != NOT_ALLOWED))
    return concatenate(*parts)


def solve_master(
    packing: PackingProblem, columns: Columns, session: Session
) -> MasterSolution | None:
    """Solve the restricted master, with a premium for classes that must be covered."""
    premium = parameters.PARAMETERS.cover_premium * int(columns.value.max(initial=0))
    covers = (packing.must_cover[columns.members] & (columns.members != ALONE)).sum(axis=1)
    easier = replace(packing, must_cover=np.zeros_like(packing.must_cover))
    program = SetPackingProgram.of(
        easier, Columns(columns.members, columns.value + premium * covers)
    )
    outcome = session.optimise(program.relaxation())
    if outcome is None or outcome.values is None or outcome.row_duals is None:
        return None
    job, row = np.split(outcome.row_duals * program.unit, [packing.classes])
    return MasterSolution(columns, outcome.values, job - premium * packing.must_cover, row)


def retained_columns(packing: PackingProblem, solution: MasterSolution, prices: Prices) -> Columns:
    """Return columns in use, single jobs, and those of best reduced cost."""
    columns = solution.columns
    loss = -prices.reduced_cost(packing, columns.members, columns.value)
    loss[(solution.values > 0) | (columns.members[:, 1] == ALONE)] = -1
    most = max(
        parameters.PARAMETERS.max_retained_per_class * packing.classes,
        parameters.PARAMETERS.min_retained_columns,
    )
    return columns.take(np.sort(np.argsort(loss, kind="stable")[:most]))


def select_entering(columns: Columns, gain: Ints, classes: int) -> Ints:
    """Return the entering columns: those of largest gain, a few per class."""
    taken = np.zeros(classes, dtype=np.int64)
    chosen, seen = [], set()
    for index in np.argsort(-gain, kind="stable").tolist():
        members = columns.members[index]
        present = members[members != ALONE]
        if (
            taken[present].min() < parameters.PARAMETERS.max_entering_per_class
            and members.tobytes() not in seen
        ):
            seen.add(members.tobytes())
            taken[present] += 1
            chosen.append(index)
    return np.array(chosen, dtype=np.int64)


# Stabilised column generation: the LP relaxation over all columns, few of which are generated.
#
# The restricted master's duals price jobs and rows. Columns of positive reduced cost (here: value
# less prices) enter, first from the exchange neighbourhoods of the columns in use
# (`heuristic_pricing`), then from exact pricing (`pricing`), which bounds the full master at any
# prices. Duals of a master over few columns oscillate: so exact pricing uses a convex combination
# of them and the best duals so far (Wentges smoothing), repaired until hardly a group has
# positive reduced cost (`dual_repair`).
#
# References
# ----------
# Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer programming",
# International Transactions in Operational Research 4, 1997; du Merle, Villeneuve, Desrosiers and
# Hansen, "Stabilized column generation", Discrete Mathematics 194, 1999.


@dataclass(frozen=True, slots=True, eq=False)
class _PricingRound:
    """Exact pricing of all buckets at some duals."""

    # job, row: The prices, raised until hardly a group pays, as in `Relaxation`.
    job: Floats
    row: Floats
    bound: int  # What they prove
    columns: Columns  # Groups that paid before


def generate(
    packing: PackingProblem, start: Columns, session: Session, reserve: float
) -> Iterator[GroupingBound | MasterSolution]:
    """Yield ever tighter bounds, and finally the solution of the last restricted master.

    `start`: columns to begin with, each class on its own among them. `reserve`: seconds to leave
    before the deadline.
    """
    tuning = parameters.PARAMETERS
    rng = np.random.default_rng(session.seed)
    columns, last = start, 0.0
    solution: MasterSolution | None = None
    best: _PricingRound | None = None
    smoothing, rounds_without_gain = tuning.dual_smoothing_share, 0
    group_limit = max(int(max_groups(packing).sum()), 1)
    zero_prices = rounded_prices(packing, np.zeros(packing.classes), np.zeros(len(packing.limit)))
    if zero_prices is not None:
        # However little time there is, there is a bound: each job as if it were on its own.
        yield GroupingBound(
            _price_all_buckets(
                packing,
                zero_prices,
                0,
                tuning.max_first_pricing_nodes,
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
        tolerance = int(tuning.pricing_tolerance_rel * solution.value / group_limit * prices.scale)
        used = columns.take(solution.values > 0)
        entering = price_neighbours(packing, prices, used, tolerance, rng)
        stalled = solution.value <= last * (1 + tuning.stall_gain_rel)
        last = solution.value
        if stalled or (best is None and session.expired(2 * reserve)):
            repaired = _repair_prices(packing, prices, entering, tolerance)
            if repaired is None:
                break
            pricing_round = _price_all_buckets(
                packing,
                repaired,
                tolerance,
                tuning.max_pricing_nodes,
                session,
                reserve,
            )
            entering = concatenate(entering, pricing_round.columns)
            rounds_without_gain += 1
            if best is None or pricing_round.bound < best.bound:
                if best is None or pricing_round.bound < best.bound * (
                    1 - tuning.pricing_tolerance_rel
                ):
                    rounds_without_gain = 0
                best = pricing_round
                yield GroupingBound(best.bound, certified=True)
            if (
                best.bound <= solution.value * (1 + tuning.close_gap_rel)
                or rounds_without_gain > tuning.max_iterations_without_gain
            ):
                break
        gain = master_prices.reduced_cost(packing, entering.members, entering.value)
        # Where nothing pays at the relaxation's own prices, the next look is nearer to them.
        smoothing = tuning.dual_smoothing_share if (gain > tolerance).any() else smoothing / 2
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


# Diving: fix columns of an LP solution, solve the LP of what is left, and repeat.
#
# Columns that the LP uses integrally are fixed, and of the fractional ones those of largest value.
# The LP over the columns that still fit then completes them.


INTEGRAL = 1 - 1e-6
"""LP value from which a column counts as used once."""


def dive(packing: PackingProblem, solution: MasterSolution, session: Session) -> Grouping | None:
    """Return a grouping by diving from a master LP; None without time, or if one must wait.

    The relaxation is that of the packing problem.
    """
    chosen = [np.zeros((0, 4), dtype=np.int64)]
    value, left = 0, packing
    while len(solution.columns):
        fixed, left = _fix_columns(left, solution)
        if not len(fixed):
            break
        chosen.append(solution.columns.members[fixed])
        value += int(solution.columns.value[fixed].sum())
        columns = solution.columns.take(_columns_that_fit(left, solution.columns.members))
        solved = solve_master(left, columns, session) if len(columns) else None
        if solved is None:
            break
        solution = solved
    if left.count[packing.must_cover].any() or (left.limit < 0).any():
        return None
    return Grouping(np.concatenate(chosen), value, "diving")


def _fix_columns(packing: PackingProblem, solution: MasterSolution) -> tuple[Ints, PackingProblem]:
    """Return the columns to fix, repeated as often as used, and the residual problem."""
    members, values = solution.columns.members, solution.values
    use = packing.usage(members)
    count, limit = packing.count.copy(), packing.limit.copy()
    enough = parameters.PARAMETERS.min_dive_share * values.sum()
    fixed: list[int] = []
    order = np.argsort(-values, kind="stable")
    for column in order[values[order] > 0].tolist():
        if values[column] < parameters.PARAMETERS.min_dive_value and len(fixed) >= enough:
            break
        present = members[column][members[column] != ALONE]
        for _ in range(max(int(values[column] + 1 - INTEGRAL), 1)):
            after = count.copy()
            np.subtract.at(after, present, 1)
            if (after < 0).any() or (use[column] > limit).any():
                break
            count, limit = after, limit - use[column]
            fixed.append(column)
    return np.array(fixed, dtype=np.int64), replace(packing, count=count, limit=limit)


def _columns_that_fit(packing: PackingProblem, members: Ints) -> Bools:
    """Return which columns the remaining jobs and rows still allow."""
    often = (members[:, :, None] == members[:, None, :]).sum(axis=2)
    enough = (members == ALONE) | (often <= packing.count[members])
    fits: Bools = enough.all(axis=1) & (packing.usage(members) <= packing.limit).all(axis=1)
    return fits


def solve_by_column_generation(
    packing: PackingProblem, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, mostly of more value later, and certified bounds, each tighter."""
    start = initial_columns(packing, session.seed)
    program = SetPackingProgram.of(packing, start)
    yield from greedy(program)
    solution = None
    for found in generate(
        packing, start, session, parameters.PARAMETERS.plan_share * max(session.remaining(), 0.0)
    ):
        if isinstance(found, MasterSolution):
            solution = found
        else:
            yield found
    if solution is None:
        return
    program = SetPackingProgram.of(packing, solution.columns)
    duals = np.concatenate([solution.job, solution.row]) / program.unit
    # Rounding takes no time, so that there is something if diving has too little.
    rounding = list(round_relaxation(program, solution.values, duals))
    yield from rounding
    dived = dive(packing, solution, session)
    if dived is not None:
        yield _improve(packing, dived, session)
    if dived is None or len(solution.columns) <= parameters.PARAMETERS.max_master_mip_columns:
        for grouping in rounding:
            yield _improve(packing, grouping, session)
    if len(solution.columns) <= parameters.PARAMETERS.max_master_mip_columns:
        outcome = session.optimise(
            program.arrays,
            share=parameters.PARAMETERS.master_mip_share,
            most=parameters.PARAMETERS.master_mip_seconds,
            gap=parameters.PARAMETERS.master_mip_gap_rel,
        )
        if outcome is not None and outcome.values is not None:
            times = np.rint(outcome.values).astype(np.int64)
            yield _improve(packing, program.grouping(times, "program"), session)


def _improve(packing: PackingProblem, grouping: Grouping, session: Session) -> Grouping:
    """Return a grouping improved by pairwise exchange."""
    better = improve_by_exchange(packing, with_values(packing, grouping.members), session)
    return Grouping(better.members, int(better.value.sum()), grouping.source)
