"""The set-packing integer program over given columns, LP rounding, and pairwise exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import floor

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters as gang_parameters
from placewright.formulations.gang.models.aggregate.solve import search_core
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    MAX_MEMBERS,
    Grouping,
    GroupingBound,
    PackingProblem,
    sort_members,
)
from placewright.formulations.interleaving.set_packing.columns import (
    NOT_ALLOWED,
    Columns,
    ValueBound,
    column_values,
)
from placewright.formulations.plan_messages import HOLD_SLACK
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

# The set-packing integer program over given columns, its LP relaxation, and LP rounding.
#
#     max  sum_q value(q) x_q
#     s.t. sum_q n(q, c) x_q <= count(c)     for each class, = where it must be covered
#          sum_q use(r, q) x_q <= limit(r)   for each row
#          x_q >= 0 and integral
#
# The relaxation's duals prove a bound in integers, whatever they are (docs/bounds.md).


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A value of the columns (columns,) of which a choice has at least `least`."""

    value: Ints
    least: int


@dataclass(frozen=True, slots=True, eq=False)
class SetPackingProgram:
    """Columns of a packing problem, as an integer program."""

    packing: PackingProblem
    columns: Columns
    # (columns, 4): How often the class of each member is in its column; 0 where there is no member.
    repeats: Ints
    use: Ints  # (columns, rows): What each column takes of each row of the packing problem
    # Variables are the columns; rows are the classes, then the rows of the packing problem. The
    # objective counts in units.
    arrays: Arrays
    unit: int  # The value of one unit of the objective, a power of two

    @classmethod
    def of(
        cls, packing: PackingProblem, columns: Columns, held: Sequence[Held] = ()
    ) -> SetPackingProgram:
        """Return the program of these columns; rows keep what is `held`."""
        members, use = columns.members, packing.usage(columns.members)
        present = members != ALONE
        repeats = (members[:, :, None] == members[:, None, :]).sum(axis=2) * present
        most = np.where(present, packing.count[members] // repeats.clip(min=1), packing.count.sum())
        model = Model()
        x = model.variables("column", len(columns), upper=most.min(axis=1))
        least = np.where(packing.must_cover, packing.count, -np.inf)
        jobs = model.rows("class", packing.classes, lower=least, upper=packing.count)
        model.add(jobs[members[present]], x[np.nonzero(present)[0]], 1.0)
        taken = model.rows("row", len(packing.limit), upper=packing.limit)
        column, row = np.nonzero(use)
        model.add(taken[row], x[column], use[column, row])
        for number, one in enumerate(held):
            scale = _unit(one.value)
            kept = model.rows(f"held {number}", 1, lower=(one.least - HOLD_SLACK) / scale)
            some = np.flatnonzero(one.value)
            model.add(kept[0], x[some], one.value[some] / scale)
        unit = _unit(columns.value)
        model.term("value", x, columns.value / unit, sense="max")
        return cls(packing, columns, repeats, use, model.arrays("value"), unit)

    def relaxation(self) -> Arrays:
        """Return the LP relaxation."""
        return replace(self.arrays, integer=np.zeros(len(self.columns), dtype=np.bool_))

    def certify(self, duals: Floats) -> GroupingBound | None:
        """Return the bound that duals of the relaxation prove."""
        whole = replace(self.relaxation(), cost=self.columns.value.astype(np.float64))
        bound = certified_bound(whole, multipliers(whole, duals * self.unit))
        return None if bound is None else GroupingBound(floor(bound), certified=True)

    def grouping(self, times: Ints, source: str) -> Grouping:
        """Return the grouping that uses each column `times` often."""
        members = np.repeat(self.columns.members, times, axis=0)
        return Grouping(members, int(times @ self.columns.value), source)


def solve_program(
    packing: PackingProblem, columns: Columns, session: Session, held: Sequence[Held] = ()
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings of all columns of a problem, and bounds.

    Only the groupings of branch and bound keep what is `held`.
    """
    tuning = gang_parameters.PARAMETERS.models
    program = SetPackingProgram.of(packing, columns, held)
    yield from greedy(program)
    if not len(columns):
        yield GroupingBound(0, certified=True)
        return
    relaxed = solve_relaxation(program.relaxation(), session)
    if relaxed is None or relaxed.row_duals is None or relaxed.values is None:
        return
    bound = program.certify(relaxed.row_duals)
    if bound is not None:
        yield bound
    yield from round_relaxation(program, relaxed.values, relaxed.row_duals)
    doubt = None
    if len(columns) > tuning.max_core_columns:
        doubt = reduced_costs_of(program.arrays, relaxed.row_duals, relaxed.values)
    gap = 0.0 if len(columns) <= parameters.PARAMETERS.max_columns_zero_gap else session.gap / 2
    outcome = search_core(session, program.arrays, doubt, gap)
    if outcome is None:
        return
    least = 0
    if outcome.values is not None:
        best = program.grouping(np.rint(outcome.values).astype(np.int64), "program")
        yield best
        least = best.value
    if outcome.bound is not None:
        most = floor(outcome.bound * program.unit + parameters.PARAMETERS.integrality_tolerance)
        yield GroupingBound(
            least
            if abs(most - least) <= parameters.PARAMETERS.bound_agreement_rel * least
            else most,
            certified=False,
        )


def _unit(value: Ints) -> int:
    """Return the unit in which a row or an objective counts, a power of two."""
    digits = int(value.max(initial=0)).bit_length() - parameters.PARAMETERS.max_cost_bits
    return 1 << min(max(digits, 0), parameters.PARAMETERS.max_fraction_bits)


def solve_restricted(
    packing: PackingProblem, columns: Columns, session: Session, *, gap: float, seconds: float
) -> Iterator[Grouping]:
    """Yield groupings of some columns (restricted master heuristic), without bounds.

    Branch and bound ends at the gap or after the seconds, and asks only about the columns that the
    relaxation leaves most in doubt.
    """
    tuning = gang_parameters.PARAMETERS.models
    program = SetPackingProgram.of(packing, columns)
    yield from greedy(program)
    relaxed = solve_relaxation(program.relaxation(), session)
    if relaxed is None or relaxed.row_duals is None or relaxed.values is None:
        return
    scores = program.arrays.reduced_costs(relaxed.row_duals)
    times = round_and_fill(program, relaxed.values, scores)
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


def solve_relaxation(arrays: Arrays, session: Session) -> Outcome | None:
    """Solve a relaxation with its costs scaled; values and duals are unscaled."""
    digits = int(arrays.cost.max(initial=0.0)).bit_length() - parameters.PARAMETERS.max_cost_bits
    scale = float(1 << max(digits, 0))
    outcome = session.optimise(replace(arrays, cost=arrays.cost / scale))
    if outcome is None or outcome.row_duals is None:
        return outcome
    return replace(outcome, row_duals=outcome.row_duals * scale)


def greedy(program: SetPackingProgram) -> Iterator[Grouping]:
    """Yield the greedy grouping by value, if it is feasible."""
    value = program.columns.value.astype(np.float64)
    times = round_and_fill(program, np.zeros(len(value)), value)
    if times is not None:
        yield program.grouping(times, "greedy")


def round_relaxation(
    program: SetPackingProgram, values: Floats, duals: Floats
) -> Iterator[Grouping]:
    """Yield the LP solution rounded down and filled greedily, if feasible."""
    times = round_and_fill(program, values, program.arrays.reduced_costs(duals))
    if times is not None:
        yield program.grouping(times, "rounding")


def round_and_fill(program: SetPackingProgram, values: Floats, score: Floats) -> Ints | None:
    """Return the use of each column: values rounded down, then the best scores that fit.

    Classes that must be covered come first. None where one is not, or a row is exceeded.
    """
    packing, members, use = program.packing, program.columns.members, program.use
    times = np.floor(values + parameters.PARAMETERS.integrality_tolerance).astype(np.int64)
    present = members != ALONE
    taken = np.repeat(members, times, axis=0)
    left = packing.count - np.bincount(taken[taken != ALONE], minlength=packing.classes)
    residual = packing.limit - times @ use
    urgent = (present & packing.must_cover[members]).any(axis=1)
    order = np.lexsort((-score, ~urgent))
    order = order[urgent[order] | (program.columns.value[order] > 0)]
    while True:
        fits = (left[members[order]] >= program.repeats[order]).all(axis=1)
        order = order[fits & (use[order] <= residual).all(axis=1)]
        if not len(order):
            break
        best, order = order[0], order[1:]
        who, needs = members[best][present[best]], use[best] > 0
        multiples = np.concatenate(
            [
                left[who] // program.repeats[best][present[best]],
                residual[needs] // use[best][needs],
            ]
        )
        times_used = int(multiples.min())
        times[best] += times_used
        np.subtract.at(left, who, times_used)
        residual -= times_used * use[best]
    if (residual < 0).any() or (left < 0).any() or left[packing.must_cover].any():
        return None
    return times


# Pairwise exchange: local search that regroups two groups at a time, and inserts idle jobs.
#
# Two groups of a bucket have at most eight members, which split into two groups in at most 35 ways.
# All splits of all pairs are tried; most are refused by an upper bound of their value, the rest are
# evaluated exactly. Likewise each idle job is tried in the place of each member. The best changes
# that touch different groups are made at once, until none gains.


SPLITS = np.array([[0, *rest] for rest in combinations(range(1, 2 * MAX_MEMBERS), MAX_MEMBERS - 1)])
"""Which of eight places make the first group: all ways in which the first place is among them."""

OTHERS = np.array(
    [[p for p in range(2 * MAX_MEMBERS) if p not in split] for split in SPLITS.tolist()]
)


def improve_by_exchange(packing: PackingProblem, columns: Columns, session: Session) -> Columns:
    """Return columns of at least as much value, which respect all rows."""
    state = _ColumnState(packing, columns)
    changed = np.ones(len(columns), dtype=np.bool_)
    while changed.any() and not session.expired():
        before = state.members.copy()
        for bucket in range(packing.buckets):
            state.exchange_members(bucket, changed)
            state.insert_idle(bucket)
        changed = (state.members != before).any(axis=1)
    used = state.members[:, 0] != ALONE
    return Columns(state.members[used], state.value[used])


class _ColumnState:
    """Columns under exchange, residual rows, and idle jobs."""

    def __init__(self, packing: PackingProblem, columns: Columns) -> None:
        self.packing, self.value_bound = packing, ValueBound(packing)
        self.members, self.value = columns.members.copy(), columns.value.copy()
        self.bucket = packing.bucket[self.members[:, 0]]
        used = self.members[self.members != ALONE]
        self.idle = packing.count - np.bincount(used, minlength=packing.classes)
        self.residual = packing.limit - self._use(self.members)

    def exchange_members(self, bucket: int, changed: Bools) -> None:
        """Regroup pairs of columns of a bucket, of which at least one has changed."""
        used = np.flatnonzero((self.bucket == bucket) & (self.members[:, 0] != ALONE))
        pairs = used[np.column_stack(np.triu_indices(len(used), 1))]
        pairs = pairs[changed[pairs].any(axis=1)]
        parts = [
            self._best_splits(pairs[at : at + parameters.PARAMETERS.exchange_chunk_pairs])
            for at in range(0, len(pairs), parameters.PARAMETERS.exchange_chunk_pairs)
        ]
        if not parts:
            return
        places, new, gain = (np.concatenate(part) for part in zip(*parts, strict=True))
        touched = np.zeros(len(self.members), dtype=np.bool_)
        for best in np.argsort(-gain, kind="stable"):
            if not touched[places[best]].any() and self._replace(places[best], new[best]):
                touched[places[best]] = True

    def _best_splits(self, pairs: Ints) -> tuple[Ints, Ints, Ints]:
        """Return pairs that gain by another split, its groups, and the gain."""
        members = self.members[pairs].reshape(len(pairs), -1)
        now = self.value[pairs].sum(axis=1)
        optimistic = self.value_bound.of(members[:, SPLITS].reshape(-1, MAX_MEMBERS))
        optimistic += self.value_bound.of(members[:, OTHERS].reshape(-1, MAX_MEMBERS))
        pair, split = np.nonzero(optimistic.reshape(len(pairs), -1) > now[:, None])
        new = np.stack([members[pair[:, None], of[split]] for of in (SPLITS, OTHERS)], axis=1)
        new = sort_members(new.reshape(-1, MAX_MEMBERS))
        value = column_values(self.packing, new).reshape(-1, 2)
        gain = np.where(
            (value == NOT_ALLOWED).any(axis=1), NOT_ALLOWED, value.sum(axis=1) - now[pair]
        )
        good = np.flatnonzero(gain > 0)
        good = good[np.lexsort((-gain[good], pair[good]))]
        _, first = np.unique(pair[good], return_index=True)
        best = good[first]
        return pairs[pair[best]], new.reshape(-1, 2, MAX_MEMBERS)[best], gain[best]

    def insert_idle(self, bucket: int) -> None:
        """Insert idle jobs of a bucket in place of members, or in free places."""
        packing = self.packing
        used = np.flatnonzero((self.bucket == bucket) & (self.members[:, 0] != ALONE))
        idle = np.flatnonzero((packing.bucket == bucket) & (self.idle > 0))
        grid = np.meshgrid(used, idle, np.arange(packing.max_members), indexing="ij")
        where, who, place = (axis.ravel() for axis in grid)
        new = self.members[where]
        left = new[np.arange(len(new)), place]
        new[np.arange(len(new)), place] = who
        better = self.value_bound.of(new) > self.value[where]
        better &= (left == ALONE) | ~packing.must_cover[left]
        where, who, left, new = where[better], who[better], left[better], sort_members(new[better])
        gain = column_values(packing, new) - self.value[where]
        touched = np.zeros(len(self.members), dtype=np.bool_)
        order = np.argsort(-gain, kind="stable")
        for best in order[gain[order] > 0].tolist():
            group, job = where[best], who[best]
            if touched[group] or not self.idle[job]:
                continue
            if self._replace(where[best : best + 1], new[best : best + 1]):
                touched[group] = True
                self.idle[job] -= 1
                if left[best] != ALONE:
                    self.idle[left[best]] += 1

    def _replace(self, places: Ints, new: Ints) -> bool:
        """Replace columns, if the rows allow; return whether they do."""
        residual = self.residual + self._use(self.members[places]) - self._use(new)
        if (residual < 0).any():
            return False
        self.members[places], self.value[places] = new, column_values(self.packing, new)
        self.residual = residual
        return True

    def _use(self, members: Ints) -> Ints:
        """Return what columns take of each row together."""
        used: Ints = self.packing.usage(members[members[:, 0] != ALONE]).sum(axis=0)
        return used
