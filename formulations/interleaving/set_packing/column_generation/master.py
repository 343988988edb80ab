"""Column generation: the linear relaxation over all columns of a pool, most of which nobody writes.

The relaxation over some columns gives prices of jobs and rows. Columns that are worth more than
their members' prices come in, first among those one member away from the columns in use
(`neighbours`), then from a search of all (`pricing`), which proves a bound of the relaxation over
all columns, at any prices. Prices of a relaxation over few columns jump from one round to the next:
what is searched lies between them and the prices, raised until hardly a group pays (`raising`), of
the best bound so far (du Merle et al., *Stabilized column generation*, 1999; Wentges, *Weighted
Dantzig-Wolfe decomposition*, 1997).

A class that must be covered pays a premium instead of a row that could not be kept at first; the
premium leaves the prices afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.column_value import judged
from placewright.formulations.interleaving.set_packing.column_generation.dual_repair import (
    covering,
    raised,
)
from placewright.formulations.interleaving.set_packing.column_generation.duals import (
    Floats,
    Prices,
    groups_that_fit,
    prices_of,
)
from placewright.formulations.interleaving.set_packing.column_generation.heuristic_pricing import (
    neighbours,
)
from placewright.formulations.interleaving.set_packing.column_generation.pricing import (
    Priced,
    priced,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOTHING,
    Columns,
    alone,
    joined,
    padded,
    valued,
)
from placewright.formulations.interleaving.set_packing.integer_program import Program
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    GroupingBound,
    Ints,
    Pool,
)
from placewright.formulations.session import Session

PREMIUM = 8
"""Worth of covering a class that must be covered, in the greatest worth of a column."""

START = 4
"""Random groups per job and size to begin with."""

KEPT = 8
"""Columns per class that stay in the relaxation, those that come nearest to paying."""

EACH = 6
"""New columns per class and round."""

FEW = 4_000
"""Columns that stay in any relaxation."""

CLOSE = 5e-4
"""Of the relaxation's value: a bound as near as that is good enough."""

TOLERANCE = 2e-4
"""Of the relaxation's value: what all groups together may pay unseen."""

STALLED = 5e-3
"""Of the relaxation's value: what neighbours must add in a round to be enough on their own."""

WORK = 1 << 22
"""Groups of clusters that are bounded per bucket and round."""

ROUGH = 1 << 10
"""Groups of clusters that are bounded per bucket before there are any prices."""

PATIENCE = 5
"""Searches in a row without a bound that is better by the tolerance, before generation ends."""

SHARE = 0.5
"""Of the prices of the best bound, in those that are searched."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The linear relaxation over some columns.

    Attributes
    ----------
    values : float64 (columns,)
        How often each column is used.
    job : float64 (classes,)
        The price of a job of each class.
    row : float64 (rows,)
        The price of a unit of each row.
    """

    columns: Columns
    values: Floats
    job: Floats
    row: Floats

    @property
    def value(self) -> float:
        """What the columns in use are worth."""
        return float(self.values @ self.columns.worth)


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """What a search of all buckets at some prices gave.

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
    pool: Pool, start: Columns, session: Session, reserve: float
) -> Iterator[GroupingBound | Relaxation]:
    """Yield ever tighter bounds, and in the end the relaxation over the columns found.

    Parameters
    ----------
    start
        Columns to begin with, each class on its own among them.
    reserve
        Seconds to leave before the deadline.
    """
    rng = np.random.default_rng(session.seed)
    columns, last = start, 0.0
    relaxed: Relaxation | None = None
    best: _Searched | None = None
    share, idle = SHARE, 0
    most_groups = max(int(groups_that_fit(pool).sum()), 1)
    free = prices_of(pool, np.zeros(pool.classes), np.zeros(len(pool.limit)))
    if free is not None:
        # However little time there is, there is a bound: each job as if it were on its own.
        yield GroupingBound(_searched(pool, free, 0, ROUGH, session, reserve).bound, certified=True)
    while not session.expired(reserve):
        solved = relaxed_over(pool, columns, session)
        if solved is None:
            break
        relaxed = solved
        prices = _between(pool, relaxed, best, share)
        own = prices_of(pool, relaxed.job, relaxed.row)
        if prices is None or own is None:
            break
        tolerance = int(TOLERANCE * relaxed.value / most_groups * prices.scale)
        used = columns.take(relaxed.values > 0)
        entering = neighbours(pool, prices, used, tolerance, rng)
        stalled = relaxed.value <= last * (1 + STALLED)
        last = relaxed.value
        if stalled or (best is None and session.expired(2 * reserve)):
            lifted = _lifted(pool, prices, entering, tolerance)
            if lifted is None:
                break
            searched = _searched(pool, lifted, tolerance, WORK, session, reserve)
            entering = joined(entering, searched.columns)
            idle += 1
            if best is None or searched.bound < best.bound:
                if best is None or searched.bound < best.bound * (1 - TOLERANCE):
                    idle = 0
                best = searched
                yield GroupingBound(best.bound, certified=True)
            if best.bound <= relaxed.value * (1 + CLOSE) or idle > PATIENCE:
                break
        gain = own.reduced(pool, entering.members, entering.worth)
        # Where nothing pays at the relaxation's own prices, the next look is nearer to them.
        share = SHARE if (gain > tolerance).any() else share / 2
        gain = prices.reduced(pool, entering.members, entering.worth)
        entering = entering.take(_spread(entering, gain, pool.classes))
        columns = joined(_kept(pool, relaxed, own), entering)
    if relaxed is not None:
        yield relaxed


def starting(pool: Pool, seed: int) -> Columns:
    """Return every class on its own, groups that run, and random groups."""
    rng = np.random.default_rng(seed)
    classes = np.flatnonzero(pool.count > 0)
    parts = [Columns(padded(classes[:, None]), alone(pool)[classes]), valued(pool, pool.standing)]
    for bucket in range(pool.buckets):
        jobs = classes[pool.bucket[classes] == bucket]
        for size in range(2, pool.most + 1):
            for _ in range(START):
                drawn = rng.permutation(jobs)[: len(jobs) // size * size].reshape(-1, size)
                groups = padded(np.sort(drawn, axis=1))
                some = Columns(groups, judged(pool, groups))
                parts.append(some.take(some.worth != NOTHING))
    return joined(*parts)


def relaxed_over(pool: Pool, columns: Columns, session: Session) -> Relaxation | None:
    """Solve the relaxation over some columns, with a premium for classes that must be covered."""
    premium = PREMIUM * int(columns.worth.max(initial=0))
    covers = (pool.must[columns.members] & (columns.members != ALONE)).sum(axis=1)
    easier = replace(pool, must=np.zeros_like(pool.must))
    program = Program.of(easier, Columns(columns.members, columns.worth + premium * covers))
    outcome = session.optimise(program.relaxed())
    if outcome is None or outcome.values is None or outcome.row_duals is None:
        return None
    job, row = np.split(outcome.row_duals * program.unit, [pool.classes])
    return Relaxation(columns, outcome.values, job - premium * pool.must, row)


def _between(
    pool: Pool, relaxed: Relaxation, best: _Searched | None, share: float
) -> Prices | None:
    """Return prices with a share of the best ones so far."""
    if best is None:
        return prices_of(pool, relaxed.job, relaxed.row)
    job = share * best.job + (1 - share) * relaxed.job
    return prices_of(pool, job, share * best.row + (1 - share) * relaxed.row)


def _lifted(pool: Pool, prices: Prices, columns: Columns, tolerance: int) -> Prices | None:
    """Return prices at which none of some columns pays more than the tolerance."""
    reduced = prices.reduced(pool, columns.members, columns.worth)
    lift = covering(pool, Priced(columns, reduced, tolerance), tolerance)
    return prices_of(pool, prices.job + lift / prices.scale, prices.row)


def _searched(
    pool: Pool, prices: Prices, tolerance: int, work: int, session: Session, reserve: float
) -> _Searched:
    """Search all buckets for groups that pay more than the tolerance."""
    fit, bound, job = groups_that_fit(pool), prices.base, prices.job
    parts = [valued(pool, pool.standing)]
    for bucket in range(pool.buckets):
        there = pool.bucket == bucket
        if (pool.count[there] > 0).any():
            found = priced(pool, prices, bucket, tolerance, work, session, reserve)
            rise = raised(pool, found, int(fit[bucket]))
            bound += rise.cost
            # What groups still pay, their members pay in equal parts.
            job = job + (rise.added + there * (rise.threshold / pool.most)) / prices.scale
            parts.append(found.columns)
    return _Searched(job, prices.row, bound // prices.scale, joined(*parts))


def _kept(pool: Pool, relaxed: Relaxation, prices: Prices) -> Columns:
    """Return the columns in use, each class on its own, and those that come nearest to paying."""
    columns = relaxed.columns
    loss = -prices.reduced(pool, columns.members, columns.worth)
    loss[(relaxed.values > 0) | (columns.members[:, 1] == ALONE)] = -1
    most = max(KEPT * pool.classes, FEW)
    return columns.take(np.sort(np.argsort(loss, kind="stable")[:most]))


def _spread(columns: Columns, gain: Ints, classes: int) -> Ints:
    """Return the columns that gain most, at most `EACH` for the class that needs them most."""
    taken = np.zeros(classes, dtype=np.int64)
    chosen, seen = [], set()
    for index in np.argsort(-gain, kind="stable").tolist():
        members = columns.members[index]
        present = members[members != ALONE]
        if taken[present].min() < EACH and members.tobytes() not in seen:
            seen.add(members.tobytes())
            taken[present] += 1
            chosen.append(index)
    return np.array(chosen, dtype=np.int64)
