"""Column generation for many classes of few profiles: which classes fill the places of templates.

The program of `integer_program.py` has a column for each multiset of classes. Here it begins with
few, and its duals, y of classes and p of rows, price what is missing: a template of bucket b filled
by classes c in places i pays if

    value + sum_i value(i, c_i)  >  sum_r p_r per_group[r, b]
                                    + sum_i ( y[c_i] + sum_r p_r per_member[r, c_i] )

so each place may choose for itself. Where nothing pays, the relaxation is solved over all columns.

The bound is proven separately, in integers, for any prices p >= 0 (weak duality). Let the
places of each template ask for prices that add up to what its columns cost less their fixed value;
then any y that leaves no class a gain in any place, nor on its own, is a point of the dual:

    bound  =  sum_c y[c] count(c) + sum_r p_r limit(r)

It lets classes be those of all weights, where the program had but a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    GroupingBound,
    PackingProblem,
    pad_members,
)
from placewright.formulations.interleaving.set_packing.columns import (
    Columns,
    concatenate,
    enumerate_columns,
    single_values,
    weights,
    with_values,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    SetPackingProgram,
    solve_relaxation,
    solve_restricted,
)
from placewright.formulations.interleaving.set_packing.job_classes import (
    AggregatedProblem,
    merge_weights,
)
from placewright.formulations.interleaving.set_packing.pairwise_exchange import improve_by_exchange
from placewright.formulations.interleaving.set_packing.templates import Profiles, Templates
from placewright.formulations.session import Session
from placewright.solver import Status
from placewright.solver.certify import SCALE

MAX_PRICE = 2.0**60
"""Beyond this a price of a row is not used."""


@dataclass(frozen=True, slots=True, eq=False)
class Duals:
    """Duals of a template program: per job of each class, and per unit of each row."""

    classes: Floats
    rows: Floats

    def divided(self, unit: int) -> Duals:
        """Return the duals in a larger unit."""
        return Duals(self.classes / unit, self.rows / unit)


def solve_by_templates(
    fine: AggregatedProblem, profiles: Profiles, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings of the original jobs, and a certified bound over all columns.

    `profiles` are those of its packing problem.
    """
    coarse = merge_weights(fine, parameters.PARAMETERS.num_template_classes)
    columns, found_duals = generate_columns(coarse.packing, session)
    if found_duals is not None:
        duals = found_duals.divided(coarse.unit)
        bound = certified_bound(fine, coarse, Templates.of_problem(fine.packing, profiles), duals)
        yield GroupingBound(bound, certified=True)
    gap = (
        parameters.PARAMETERS.template_mip_gap_rel
        if coarse is fine
        else parameters.PARAMETERS.merged_template_mip_gap_rel
    )
    # Where most jobs have a class of their own, the best columns are hardly among those generated.
    mostly_distinct = 2 * fine.packing.classes > int(fine.packing.count.sum())
    for found in solve_restricted(
        coarse.packing,
        columns,
        session,
        gap=gap,
        seconds=parameters.PARAMETERS.template_mip_seconds,
    ):
        grouping = coarse.disaggregate(found)
        if mostly_distinct and found.source != "greedy":
            better = improve_by_exchange(
                fine.original, with_values(fine.original, grouping.members), session
            )
            grouping = Grouping(better.members, int(better.value.sum()), found.source)
        yield grouping


def generate_columns(packing: PackingProblem, session: Session) -> tuple[Columns, Duals | None]:
    """Column generation: return the columns of the last restricted master, and its duals."""
    profiles = Profiles.of_problem(packing)
    templates = Templates.of_problem(packing, profiles)
    singles = np.arange(packing.classes, dtype=np.int64)[:, None]
    columns = with_values(packing, pad_members(singles))
    most = float(columns.value.max(initial=1))
    duals = _initial_duals(packing, profiles, session)
    known: set[bytes] = set()
    values: list[float] = []
    for _ in range(parameters.PARAMETERS.max_template_iterations):
        if duals is None or _stalled(values):
            break
        earned, chosen = templates.fill(duals.classes + duals.rows @ packing.per_member)
        price = (duals.rows @ packing.per_group)[templates.bucket]
        gain = earned.sum(axis=1) + templates.value - price
        # The first prices are a guess: then templates are filled whether they pay or not.
        pays = gain > (parameters.PARAMETERS.min_template_gain_rel * most if known else -np.inf)
        best = best_per_class(chosen[pays], gain[pays])
        new_columns = [m for m in chosen[pays][best] if m.tobytes() not in known]
        if known and not new_columns:
            break
        known.update(m.tobytes() for m in (*columns.members, *new_columns))
        if new_columns:
            columns = concatenate(columns, with_values(packing, np.array(new_columns)))
        duals = _solve_duals(SetPackingProgram.of(packing, columns), session) or duals
        values.append(float(duals.classes @ packing.count + duals.rows @ packing.limit))
    return columns, duals


def _stalled(values: Sequence[float]) -> bool:
    """Whether the value of the last programs hardly changes."""
    return len(values) > parameters.PARAMETERS.template_stall_iterations and values[-1] - values[
        -1 - parameters.PARAMETERS.template_stall_iterations
    ] < parameters.PARAMETERS.template_stall_rel * abs(values[-1])


def best_per_class(members: Ints, gain: Floats) -> Ints:
    """Return the columns that are among the best of some class in them, by index."""
    order = np.argsort(-gain, kind="stable")
    column, place = np.nonzero(members[order] != ALONE)
    classes = members[order][column, place]
    by_class = np.argsort(classes, kind="stable")
    rank = np.arange(len(classes)) - np.searchsorted(classes[by_class], classes[by_class])
    return order[
        np.unique(column[by_class][rank < parameters.PARAMETERS.max_template_columns_per_class])
    ]


def certified_bound(
    fine: AggregatedProblem, coarse: AggregatedProblem, templates: Templates, duals: Duals
) -> int:
    """Return a bound of the problem, given duals of one with fewer weights.

    Parameters
    ----------
    templates
        Of the fine packing problem.
    duals
        Of the coarse packing problem; anything at all gives a bound, good ones a good one.
    """
    packing = fine.packing
    prices = _prices(packing, duals.rows)
    cost = _row_cost(prices, packing.per_member)
    price = _row_cost(prices, packing.per_group)
    rows = sum(p * n for p, n in zip(prices, packing.limit.tolist(), strict=True))
    own = single_values(packing)
    own[packing.bucket != ALONE] -= price[packing.bucket[packing.bucket != ALONE]]
    asked = price[templates.bucket] - templates.value
    value = _interpolate_weights(fine, coarse, duals.classes) + cost
    at = np.arange(4) < templates.size[:, None]
    bounds = []
    for _ in range(parameters.PARAMETERS.max_place_price_passes):
        # What a place earns is what it may ask for, less a share of what is not asked of all.
        earned = templates.max_earned(value)
        over, rest = np.divmod(earned.sum(axis=1) - asked, templates.size)
        share = over[:, None] + (np.arange(4) < rest[:, None])
        value = templates.least_costs(np.where(at, earned - share, 0), own)
        value = np.where(packing.must_cover, value, value.clip(min=cost))
        jobs = sum(
            y * n for y, n in zip((value - cost).tolist(), packing.count.tolist(), strict=True)
        )
        bounds.append(jobs + -(-rows // SCALE))
    return int(min(bounds))


def _initial_duals(packing: PackingProblem, profiles: Profiles, session: Session) -> Duals | None:
    """Return duals as if all jobs of a profile were alike, scaled to each job's value."""
    own = single_values(packing).astype(np.float64)
    jobs, total, heavy = np.zeros((3, profiles.packing.classes))
    np.add.at(jobs, profiles.of, packing.count)
    np.add.at(total, profiles.of, packing.count * own)
    np.add.at(heavy, profiles.of, packing.count * weights(packing))
    weight = np.rint(heavy / jobs.clip(min=1)).astype(np.int64)
    by_profile = replace(
        profiles.packing,
        rules=replace(packing.rules, class_weights=(1,)),
        weight=weight,
        priority_class=np.zeros_like(weight),
        must_cover=np.zeros(len(jobs), dtype=np.bool_),
    )
    duals = _solve_duals(SetPackingProgram.of(by_profile, enumerate_columns(by_profile)), session)
    if duals is None:
        return None
    mean = (total / jobs.clip(min=1)).clip(min=1.0)
    return Duals(duals.classes[profiles.of] * own / mean[profiles.of], duals.rows)


def _solve_duals(program: SetPackingProgram, session: Session) -> Duals | None:
    """Return the duals of the relaxation.

    Where these columns cannot cover all who must be covered, covering them gains more than
    anything else instead, so that there is a point; the price of such a job is then less by as
    much.
    """
    packing, arrays = program.packing, program.relaxation()
    # At a bound of its own a column's price would be missing from those of its classes.
    arrays = replace(arrays, upper=arrays.upper + 1)
    bonus: Floats = np.zeros(packing.classes)
    outcome = solve_relaxation(arrays, session)
    if outcome is not None and outcome.status is Status.INFEASIBLE:
        bonus[packing.must_cover] = parameters.PARAMETERS.template_cover_bonus * float(
            program.columns.value.max(initial=1)
        )
        members = program.columns.members
        extra = np.where(members != ALONE, bonus[members], 0.0).sum(axis=1)
        cost = arrays.cost + extra / program.unit
        anyone = np.full(arrays.rows, -np.inf)
        outcome = solve_relaxation(replace(arrays, cost=cost, row_lower=anyone), session)
    if outcome is None or outcome.row_duals is None:
        return None
    duals = outcome.row_duals * program.unit
    return Duals(duals[: packing.classes] - bonus, duals[packing.classes :])


def _prices(packing: PackingProblem, rows: Floats) -> list[int]:
    """Return the duals of rows times `SCALE`; 0 where products could exceed 64 bits."""
    taken = np.abs(np.hstack([packing.per_group, packing.per_member])).max(axis=1, initial=0)
    usable = (rows > 0) & (rows * taken < MAX_PRICE)
    return [round(price * SCALE) for price in np.where(usable, rows, 0.0).tolist()]


def _row_cost(prices: list[int], amounts: Ints) -> Ints:
    """Return the cost of amounts of the rows, rounded down: int64 (columns of `amounts`,)."""
    total = np.array(prices, dtype=object) @ amounts.astype(object)
    return np.array([cost // SCALE for cost in total.tolist()], dtype=np.int64)


def _interpolate_weights(fine: AggregatedProblem, coarse: AggregatedProblem, value: Floats) -> Ints:
    """Return duals of all weights, interpolated from the merged weights of their family."""
    result = np.zeros(fine.packing.classes)
    for family in np.unique(fine.family).tolist():
        few, many = coarse.family == family, fine.family == family
        # Beyond the heaviest of the few, the value of a job grows as if it ran alone.
        weight = np.append(coarse.packing.weight[few] / coarse.unit, np.inf)
        weight[-1] = max(fine.packing.weight[many].max(), weight[-2] + 1.0)
        of_class = fine.packing.rules.class_weights[fine.packing.priority_class[many][0]]
        grown = (weight[-1] - weight[-2]) * of_class * fine.packing.best[many].max()
        known_values = np.append(value[few], value[few][-1] + grown)
        result[many] = np.interp(fine.packing.weight[many], weight, known_values)
    return np.rint(result).astype(np.int64)
