"""Column generation for many classes of few profiles: which classes fill the places of templates.

The program of `integer_program.py` has a column for each multiset of classes. Here it begins with
few, and its duals, y of classes and p of rows, say what is missing: a template of bucket b filled
by classes c in places i pays if

    worth + sum_i worth(i, c_i)  >  sum_r p_r per_group[r, b]
                                    + sum_i ( y[c_i] + sum_r p_r per_member[r, c_i] )

so each place may choose for itself. Where nothing pays, the relaxation is solved over all columns.

The bound is proven apart from that, in whole numbers, for any prices p >= 0 (weak duality). Let the
places of each template ask for prices that add up to what its columns cost less their fixed worth;
then any y that leaves no class a gain in any place, nor on its own, is a point of the dual:

    bound  =  sum_c y[c] count(c) + sum_r p_r limit(r)

It lets classes be those of all weights, where the program had but a few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.interleaving.set_packing.columns import (
    Columns,
    alone,
    enumerated,
    joined,
    padded,
    valued,
)
from placewright.formulations.interleaving.set_packing.integer_program import (
    Program,
    pack_some,
    relax,
)
from placewright.formulations.interleaving.set_packing.job_classes import Merged, coarser
from placewright.formulations.interleaving.set_packing.pairwise_exchange import repacked
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    Grouping,
    GroupingBound,
    Ints,
    Pool,
)
from placewright.formulations.interleaving.set_packing.templates import Profiles, Templates
from placewright.formulations.session import Session
from placewright.solver import Status
from placewright.solver.certify import SCALE

Floats = NDArray[np.float64]

CLASSES = 240
"""About how many classes a program has: jobs of close weights share one."""

ROUNDS = 60
"""Most programs of a generation."""

EACH = 8
"""Columns that are generated at a time for a class that needs them."""

TOLERANCE = 1e-9
"""Of the largest worth: what a column must gain to be generated."""

STALLED, LAST = 1e-4, 3
"""Generation ends if programs gain no more of their value in so many rounds."""

NEAR = 2e-3
"""Gap of the integer program where jobs of several weights share a class."""

NEARER = 2e-4
"""Gap of the integer program elsewhere; its columns are not all there are."""

BONUS = 8.0
"""What covering a job that must be covered is worth, in columns of the most worth."""

SECONDS = 3.0
"""Most time of the integer program."""

LARGEST = 2.0**60
"""Beyond this a price of a row is not used."""

PASSES = 12
"""How often the prices of places are shared out anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Duals:
    """What a job of each class is worth, and a unit of each row, float64."""

    classes: Floats
    rows: Floats

    def divided(self, unit: int) -> Duals:
        """Return them in a larger unit."""
        return Duals(self.classes / unit, self.rows / unit)


def fill(fine: Merged, profiles: Profiles, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings of the original jobs, and a bound over all columns of a merged pool.

    `profiles` are those of its pool.
    """
    coarse = coarser(fine, CLASSES)
    columns, found_duals = generated(coarse.pool, session)
    if found_duals is not None:
        duals = found_duals.divided(coarse.unit)
        bound = certified(fine, coarse, Templates.of_pool(fine.pool, profiles), duals)
        yield GroupingBound(bound, certified=True)
    gap = NEARER if coarse is fine else NEAR
    # Where most jobs have a class of their own, the best columns are hardly among those generated.
    different = 2 * fine.pool.classes > int(fine.pool.count.sum())
    for found in pack_some(coarse.pool, columns, session, gap=gap, seconds=SECONDS):
        grouping = coarse.expanded(found)
        if different and found.source != "greedy":
            better = repacked(fine.original, valued(fine.original, grouping.members), session)
            grouping = Grouping(better.members, int(better.worth.sum()), found.source)
        yield grouping


def generated(pool: Pool, session: Session) -> tuple[Columns, Duals | None]:
    """Return the columns on which the relaxation stands, and the duals of the last program."""
    profiles = Profiles.of_pool(pool)
    templates = Templates.of_pool(pool, profiles)
    singles = np.arange(pool.classes, dtype=np.int64)[:, None]
    columns = valued(pool, padded(singles))
    most = float(columns.worth.max(initial=1))
    duals = _first_duals(pool, profiles, session)
    known: set[bytes] = set()
    values: list[float] = []
    for _ in range(ROUNDS):
        if duals is None or _stalled(values):
            break
        earned, chosen = templates.filled(duals.classes + duals.rows @ pool.per_member)
        price = (duals.rows @ pool.per_group)[templates.bucket]
        gain = earned.sum(axis=1) + templates.worth - price
        # The first prices are a guess: then templates are filled whether they pay or not.
        pays = gain > (TOLERANCE * most if known else -np.inf)
        best = spread(chosen[pays], gain[pays])
        fresh = [m for m in chosen[pays][best] if m.tobytes() not in known]
        if known and not fresh:
            break
        known.update(m.tobytes() for m in (*columns.members, *fresh))
        if fresh:
            columns = joined(columns, valued(pool, np.array(fresh)))
        duals = _duals(Program.of(pool, columns), session) or duals
        values.append(float(duals.classes @ pool.count + duals.rows @ pool.limit))
    return columns, duals


def _stalled(values: Sequence[float]) -> bool:
    """Tell whether the last programs, of these values, hardly differ."""
    return len(values) > LAST and values[-1] - values[-1 - LAST] < STALLED * abs(values[-1])


def spread(members: Ints, gain: Floats) -> Ints:
    """Return the columns that are among the best of some class in them, by index."""
    order = np.argsort(-gain, kind="stable")
    column, place = np.nonzero(members[order] != ALONE)
    classes = members[order][column, place]
    by_class = np.argsort(classes, kind="stable")
    rank = np.arange(len(classes)) - np.searchsorted(classes[by_class], classes[by_class])
    return order[np.unique(column[by_class][rank < EACH])]


def certified(fine: Merged, coarse: Merged, templates: Templates, duals: Duals) -> int:
    """Return a bound of the merged pool, given duals of one with fewer weights.

    Parameters
    ----------
    templates
        Of the fine pool.
    duals
        Of the coarse pool; anything at all gives a bound, good ones a good one.
    """
    pool = fine.pool
    prices = _prices(pool, duals.rows)
    cost = _whole(prices, pool.per_member)
    price = _whole(prices, pool.per_group)
    rows = sum(p * n for p, n in zip(prices, pool.limit.tolist(), strict=True))
    own = alone(pool)
    own[pool.bucket != ALONE] -= price[pool.bucket[pool.bucket != ALONE]]
    asked = price[templates.bucket] - templates.worth
    worth = _between_weights(fine, coarse, duals.classes) + cost
    at = np.arange(4) < templates.size[:, None]
    bounds = []
    for _ in range(PASSES):
        # What a place earns is what it may ask for, less a share of what is not asked of all.
        earned = templates.most_earned(worth)
        over, rest = np.divmod(earned.sum(axis=1) - asked, templates.size)
        share = over[:, None] + (np.arange(4) < rest[:, None])
        worth = templates.fair_costs(np.where(at, earned - share, 0), own)
        worth = np.where(pool.must, worth, worth.clip(min=cost))
        jobs = sum(y * n for y, n in zip((worth - cost).tolist(), pool.count.tolist(), strict=True))
        bounds.append(jobs + -(-rows // SCALE))
    return int(min(bounds))


def _first_duals(pool: Pool, profiles: Profiles, session: Session) -> Duals | None:
    """Return the duals if all jobs of a profile were alike, scaled to what each is worth."""
    own = alone(pool).astype(np.float64)
    jobs, total, heavy = np.zeros((3, profiles.pool.classes))
    np.add.at(jobs, profiles.of, pool.count)
    np.add.at(total, profiles.of, pool.count * own)
    np.add.at(heavy, profiles.of, pool.count * pool.weight)
    weight = np.rint(heavy / jobs.clip(min=1)).astype(np.int64)
    alike = replace(
        profiles.pool,
        weight=weight,
        must=np.zeros(len(jobs), dtype=np.bool_),
    )
    duals = _duals(Program.of(alike, enumerated(alike)), session)
    if duals is None:
        return None
    mean = (total / jobs.clip(min=1)).clip(min=1.0)
    return Duals(duals.classes[profiles.of] * own / mean[profiles.of], duals.rows)


def _duals(program: Program, session: Session) -> Duals | None:
    """Return the duals of the relaxation.

    Where these columns cannot cover all who must be covered, to cover them is worth more than
    anything else instead, so that there is a point; the price of such a job is then less by as
    much.
    """
    pool, arrays = program.pool, program.relaxed()
    # At a bound of its own a column's price would be missing from those of its classes.
    arrays = replace(arrays, upper=arrays.upper + 1)
    bonus: Floats = np.zeros(pool.classes)
    outcome = relax(arrays, session)
    if outcome is not None and outcome.status is Status.INFEASIBLE:
        bonus[pool.must] = BONUS * float(program.columns.worth.max(initial=1))
        members = program.columns.members
        extra = np.where(members != ALONE, bonus[members], 0.0).sum(axis=1)
        cost = arrays.cost + extra / program.unit
        anyone = np.full(arrays.rows, -np.inf)
        outcome = relax(replace(arrays, cost=cost, row_lower=anyone), session)
    if outcome is None or outcome.row_duals is None:
        return None
    duals = outcome.row_duals * program.unit
    return Duals(duals[: pool.classes] - bonus, duals[pool.classes :])


def _prices(pool: Pool, rows: Floats) -> list[int]:
    """Return the prices of rows times `SCALE`; 0 where a column might pay beyond 64 bits."""
    taken = np.abs(np.hstack([pool.per_group, pool.per_member])).max(axis=1, initial=0)
    usable = (rows > 0) & (rows * taken < LARGEST)
    return [round(price * SCALE) for price in np.where(usable, rows, 0.0).tolist()]


def _whole(prices: list[int], amounts: Ints) -> Ints:
    """Return what amounts of the rows cost, rounded down: int64 (columns of `amounts`,)."""
    total = np.array(prices, dtype=object) @ amounts.astype(object)
    return np.array([cost // SCALE for cost in total.tolist()], dtype=np.int64)


def _between_weights(fine: Merged, coarse: Merged, worth: Floats) -> Ints:
    """Return what jobs of each weight are worth, given that of the few weights of their kind."""
    result = np.zeros(fine.pool.classes)
    for kind in np.unique(fine.kind).tolist():
        few, many = coarse.kind == kind, fine.kind == kind
        # Beyond the heaviest of the few, what a job is worth grows as if it ran alone.
        weight = np.append(coarse.pool.weight[few] / coarse.unit, np.inf)
        weight[-1] = max(fine.pool.weight[many].max(), weight[-2] + 1.0)
        grown = (weight[-1] - weight[-2]) * fine.pool.best[many].max()
        worths = np.append(worth[few], worth[few][-1] + grown)
        result[many] = np.interp(fine.pool.weight[many], weight, worths)
    return np.rint(result).astype(np.int64)
