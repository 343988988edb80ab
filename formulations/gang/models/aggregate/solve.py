"""Lexicographic optimisation of the aggregate model: column generation, core search, bounds."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import floor
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.accounts import AccountCuts, without_budget
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_classes import (
    ResourceGrid,
    host_classes,
    only_powers_of_two,
)
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    grid_host_classes,
    host_patterns_apply,
)
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.running_hosts import bound_in_place
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.tenant_share_rows import with_actual_shares
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS
from placewright.formulations.gang.problem.limits import BOTTLENECK, OPTION_SUMS, SENSE, SHARE_TERMS
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import HOLD_SLACK, Bound, near, tighter
from placewright.formulations.session import Session
from placewright.solver import (
    Arrays,
    Core,
    Model,
    Outcome,
    ReducedCosts,
    certified_bound,
    multipliers,
    reduced_costs_of,
)
from placewright.solver.arrays import ALWAYS
from placewright.solver.certify import SCALE

# Sifting: a relaxation with many more options than rows, solved over the few that pay.
#
# Most options of a job lose against its others at any prices near the right ones. A sample of the
# classes, with the same fraction of everything else, gives first prices. A program of each class's
# best options at those gives better ones. While an option left out would improve the optimum, it is
# added. The final duals price every column, so the optimum is that of the whole (Bixby, Gregory,
# Lustig, Marsten and Shanno, Very Large-Scale Linear Programming, Operations Research 40, 1992).


def solve_by_sifting(
    session: Session, arrays: Arrays, options: Ints, row: Ints, *, share: float
) -> Outcome | None:
    """Solve a relaxation; columns that are no options take part from the start.

    `row` has for each of the columns `options` the row that counts the options of its class, in
    ascending order; `share` is that of the time left, for each of the programs.
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
        arrays, upper=upper, row_lower=arrays.row_lower * scale, row_upper=arrays.row_upper * scale
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


# Column generation for the aggregate model: its relaxations, and bounds from them.


PLACE_TERMS = ("disruption", "spread", "opened", BOTTLENECK, GPU_LINKS)
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
    yield PricedModel(sums, GpuPatterns(sums) if len(sums.parts) else None)
    if tightest is not None:
        yield PricedModel(*tightest)


def tasks_per_host(empty: Placement) -> Ints:
    """Return how many tasks of each shape fit each host of a cleared placement, (shapes, hosts)."""
    return np.stack([empty.fits(s) for s in range(len(empty.problem.shape_gpu))])


def host_pattern_model(
    problem: Problem, empty: Placement, capacity: Ints
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

    The bound is conditional on `holds`, terms with their values: all terms that rows of the model
    hold must be among them. Row blocks named in `without` are left out; they must be the last rows,
    since patterns read duals by row. Else `ValueError`.
    """
    tuning = parameters.PARAMETERS.models
    _check_rows(aggregate.model, holds, without)
    claimed: float | None = None
    last: Outcome | None = None
    mean: Floats | None = None
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


# Core search: branch and bound over the columns of least reduced-cost loss.
#
# The core problem of Balas and Zemel (An Algorithm for Large Zero-One Knapsack Problems, Operations
# Research 28, 1980), with reduced-cost fixing of all other columns; solver/certify.py has the
# theory.


def option_reduced_costs(
    arrays: Arrays, relaxed: Outcome | None, options: Ints, row: Ints
) -> ReducedCosts | None:
    """Return the reduced costs of a model's relaxation, if it is worth searching a core.

    `row` has for each of the columns `options` the row that counts the jobs of its class. None if
    the model is small, or the relaxation has no duals.
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


# Lexicographic optimisation of the aggregate model: its relaxation, its search, its bounds.


def search_term_by_term(
    session: Session,
    aggregate: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    relaxed: Outcome | None = None,
    *,
    gap: float | None = None,
    share: float | None = None,
) -> Generator[Bound, None, Floats | None]:
    """Branch and bound lexicographically, each term held before the next; return the last point.

    With `relaxed`, the outcome of the first term's relaxation over the same columns, only its core
    is searched (core search). `gap` is that of the first term, by default half the session's,
    `share` its part of the time left.
    """
    problem, model = aggregate.problem, aggregate.model
    values: Floats | None = None
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
    values: Floats,
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

    With pools of levels jobs are placed by what domains have left (disaggregation.py): counts that
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
                outcome = yield from bound_by_relaxation(
                    session, aggregate, patterns, term, tuple(holds), without
                )
                duals = None if outcome is None else outcome.row_duals
                if duals is not None and isinstance(patterns, HostPatterns):
                    arrays = aggregate.model.arrays(term, relax=True, without=without)
                    yield from bound_in_place(session, patterns, term, tuple(holds), arrays, duals)
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


# Bounds by whole jobs: branch and bound over y, with patterns projected out (Benders 1962).
#
# Where a relaxation starts parts of gangs within quotas, a bound needs whole jobs. Branch and
# bound over the patterns generated so far proves nothing: others may be missing. But multipliers
# mu of the rows with patterns give a row without them that holds whatever the patterns are:
#
#     sum_j (mu A)[j] x[j]  <=  mu b  +  the most that all patterns can add at mu
#
# Such rows take the place of those with patterns, the first at the duals of the relaxation, and
# whole y are optimised. If the relaxation cannot start all of these, its duals give the next row.


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
