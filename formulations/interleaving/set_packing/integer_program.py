"""The grouping problem over given columns: an integer program, its relaxation, and a rounding.

    max  sum_q worth(q) x_q
    s.t. sum_q n(q, c) x_q <= count(c)     for each class, = where it must be covered
         sum_q use(r, q) x_q <= limit(r)   for each row
         x_q >= 0 and whole

The relaxation's duals prove a bound in whole numbers, whatever they are (docs/bounds.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.core_search import search_core
from placewright.formulations.interleaving.set_packing.columns import Columns
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    Grouping,
    GroupingBound,
    Ints,
    Pool,
)
from placewright.formulations.session import Session
from placewright.solver import (
    Arrays,
    Core,
    Model,
    Outcome,
    certified_bound,
    multipliers,
    reduced_costs_of,
)

Floats = NDArray[np.float64]

FEW_COLUMNS = 2_000
"""Of so many columns the best choice is proven in hardly more time than it takes to come near."""

SLACK = 1e-9
"""Of a value: a solver's bound this near to it is no other number."""

LARGEST_COST = 22
"""Binary digits of a column's worth beyond which solvers lose their way."""

LARGEST_SHIFT = 19
"""Binary digits that the objective of an integer program may have behind the point."""

ROUNDING = 1e-6
"""How little below a whole number a solver's value may be and still count as that number."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Columns of a pool as an integer program.

    Attributes
    ----------
    repeats : int64 (columns, 4)
        How often the class of each member is in its column; 0 where there is no member.
    use : int64 (columns, rows)
        What each column takes of each row of the pool.
    arrays
        Variables are the columns; rows are the classes, then the rows of the pool. The objective
        counts in units.
    unit
        What one of the objective is worth, a power of two.
    """

    pool: Pool
    columns: Columns
    repeats: Ints
    use: Ints
    arrays: Arrays
    unit: int

    @classmethod
    def of(cls, pool: Pool, columns: Columns) -> Program:
        """State the program."""
        members, use = columns.members, pool.use(columns.members)
        present = members != ALONE
        repeats = (members[:, :, None] == members[:, None, :]).sum(axis=2) * present
        most = np.where(present, pool.count[members] // repeats.clip(min=1), pool.count.sum())
        model = Model()
        x = model.variables("column", len(columns), upper=most.min(axis=1))
        least = np.where(pool.must, pool.count, -np.inf)
        jobs = model.rows("class", pool.classes, lower=least, upper=pool.count)
        model.add(jobs[members[present]], x[np.nonzero(present)[0]], 1.0)
        taken = model.rows("row", len(pool.limit), upper=pool.limit)
        column, row = np.nonzero(use)
        model.add(taken[row], x[column], use[column, row])
        digits = int(columns.worth.max(initial=0)).bit_length() - LARGEST_COST
        unit = 1 << min(max(digits, 0), LARGEST_SHIFT)
        model.term("worth", x, columns.worth / unit, sense="max")
        return cls(pool, columns, repeats, use, model.arrays("worth"), unit)

    def relaxed(self) -> Arrays:
        """Return the program without whole numbers."""
        return replace(self.arrays, integer=np.zeros(len(self.columns), dtype=np.bool_))

    def certified(self, duals: Floats) -> GroupingBound | None:
        """Return what the duals of the relaxation prove."""
        whole = replace(self.relaxed(), cost=self.columns.worth.astype(np.float64))
        bound = certified_bound(whole, multipliers(whole, duals * self.unit))
        return None if bound is None else GroupingBound(floor(bound), certified=True)

    def grouping(self, times: Ints, source: str) -> Grouping:
        """Return the grouping that uses each column so many times."""
        members = np.repeat(self.columns.members, times, axis=0)
        return Grouping(members, int(times @ self.columns.worth), source)


def pack(pool: Pool, columns: Columns, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield choices of all columns of a pool, mostly better ones later, and bounds."""
    tuning = parameters.PARAMETERS.models
    program = Program.of(pool, columns)
    yield from greedy(program)
    if not len(columns):
        yield GroupingBound(0, certified=True)
        return
    relaxed = relax(program.relaxed(), session)
    if relaxed is None or relaxed.row_duals is None or relaxed.values is None:
        return
    bound = program.certified(relaxed.row_duals)
    if bound is not None:
        yield bound
    yield from near(program, relaxed.values, relaxed.row_duals)
    doubt = None
    if len(columns) > tuning.max_core_columns:
        doubt = reduced_costs_of(program.arrays, relaxed.row_duals, relaxed.values)
    gap = 0.0 if len(columns) <= FEW_COLUMNS else session.gap / 2
    outcome = search_core(session, program.arrays, doubt, gap)
    if outcome is None:
        return
    least = 0
    if outcome.values is not None:
        best = program.grouping(np.rint(outcome.values).astype(np.int64), "program")
        yield best
        least = best.value
    if outcome.bound is not None:
        most = floor(outcome.bound * program.unit + ROUNDING)
        yield GroupingBound(least if abs(most - least) <= SLACK * least else most, certified=False)


def pack_some(
    pool: Pool, columns: Columns, session: Session, *, gap: float, seconds: float
) -> Iterator[Grouping]:
    """Yield choices of columns that are not all of a pool, so that no bound is worth its time.

    Branch and bound ends at the gap or after the seconds, and asks only about the columns that the
    relaxation leaves most in doubt.
    """
    tuning = parameters.PARAMETERS.models
    program = Program.of(pool, columns)
    yield from greedy(program)
    relaxed = relax(program.relaxed(), session)
    if relaxed is None or relaxed.row_duals is None or relaxed.values is None:
        return
    scores = program.arrays.reduced_costs(relaxed.row_duals)
    times = rounded(program, relaxed.values, scores)
    if times is not None:
        yield program.grouping(times, "rounding")
    doubt = reduced_costs_of(program.arrays, relaxed.row_duals, relaxed.values)
    if doubt is None:
        return
    kept = np.ones(len(columns), dtype=np.bool_)
    if len(columns) > tuning.max_core_columns:
        kept = doubt.within(
            float(np.partition(doubt.loss, tuning.max_core_columns)[tuning.max_core_columns])
        )
    if times is not None:
        kept |= times != doubt.point
    core = Core.of(program.arrays, kept, doubt.point)
    start = None if times is None else core.inside(times.astype(np.float64))
    outcome = session.optimise(core.arrays, gap=gap, most=seconds, start=start)
    if outcome is not None and outcome.values is not None:
        values = core.whole(outcome.values)
        yield program.grouping(np.rint(values).astype(np.int64), "program")


def relax(arrays: Arrays, session: Session) -> Outcome | None:
    """Solve a relaxation; values and duals are those of the arrays, the rest is scaled."""
    digits = int(arrays.cost.max(initial=0.0)).bit_length() - LARGEST_COST
    scale = float(1 << max(digits, 0))
    outcome = session.optimise(replace(arrays, cost=arrays.cost / scale))
    if outcome is None or outcome.row_duals is None:
        return outcome
    return replace(outcome, row_duals=outcome.row_duals * scale)


def greedy(program: Program) -> Iterator[Grouping]:
    """Yield the choice of the columns that are worth most, if there is one."""
    worth = program.columns.worth.astype(np.float64)
    times = rounded(program, np.zeros(len(worth)), worth)
    if times is not None:
        yield program.grouping(times, "greedy")


def near(program: Program, values: Floats, duals: Floats) -> Iterator[Grouping]:
    """Yield a choice near the optimum of the relaxation, if there is one."""
    times = rounded(program, values, program.arrays.reduced_costs(duals))
    if times is not None:
        yield program.grouping(times, "rounding")


def rounded(program: Program, values: Floats, score: Floats) -> Ints | None:
    """Return how often to use each column: values rounded down, then the best score that fits.

    Classes that must be covered come first. None where one is not, or a row is exceeded.
    """
    pool, members, use = program.pool, program.columns.members, program.use
    times = np.floor(values + ROUNDING).astype(np.int64)
    present = members != ALONE
    taken = np.repeat(members, times, axis=0)
    left = pool.count - np.bincount(taken[taken != ALONE], minlength=pool.classes)
    room = pool.limit - times @ use
    urgent = (present & pool.must[members]).any(axis=1)
    order = np.lexsort((-score, ~urgent))
    order = order[urgent[order] | (program.columns.worth[order] > 0)]
    while True:
        fits = (left[members[order]] >= program.repeats[order]).all(axis=1)
        order = order[fits & (use[order] <= room).all(axis=1)]
        if not len(order):
            break
        best, order = order[0], order[1:]
        who, needs = members[best][present[best]], use[best] > 0
        ways = np.concatenate(
            [
                left[who] // program.repeats[best][present[best]],
                room[needs] // use[best][needs],
            ]
        )
        often = int(ways.min())
        times[best] += often
        np.subtract.at(left, who, often)
        room -= often * use[best]
    if (room < 0).any() or (left < 0).any() or left[pool.must].any():
        return None
    return times
