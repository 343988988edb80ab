"""Patterns of one GPU cut into shares, with memory, or into MIG slices: cutting-stock columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.host_columns import PatternPool
from placewright.formulations.gang.models.aggregate.variables import A_SHARE, AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_parts import FREE, maximal_slice_sets
from placewright.topology.mig import NO_MIG
from placewright.topology.units import WHOLE_GPU

# Patterns of one GPU cut into shares or MIG slices: cutting-stock columns of the aggregate model.
#
#     v[g,p]  GPUs of kind g (host class, free milli-GPU and memory, or layout) cut by pattern p
#
# A sum of milli-GPU per host is wrong: three tasks of 600 do not fit two GPUs. Patterns are
# right, but too many to list, so they are generated when they improve the relaxation (Gilmore and
# Gomory, A linear programming approach to the cutting-stock problem, 1961). With the price
# pi[a,f] of a place for fraction f on class a and mu[g] of a GPU, the best pattern of kind g is
# an unbounded knapsack over its free milli-GPU and memory, one table for all kinds of all classes.
# Where that table would be too large, memory is counted in coarser units, demands rounded down: a
# relaxation. A GPU holds slices or shares. Sets of slices that fit together are few, since only
# maximal sets matter: they are listed for each layout, and pricing looks at all.


class GpuKinds(NamedTuple):
    """Kinds of GPUs, int64 (kinds,): host class, free milli-GPU, number of GPUs, row."""

    host_class: Ints
    free: Ints
    size: Ints
    row: Ints


class GpuPatterns:
    """The patterns of GPUs of an aggregate model.

    The kinds of `pool` are kinds of GPUs, its parts are fractions. `kind_class`, `kind_free` and
    `kind_size`, int64 (kinds,), are host class, free milli-GPU of one GPU, and number of GPUs.
    """

    def __init__(self, aggregate: AggregateModel) -> None:
        self.aggregate = aggregate
        self._placement = Placement(aggregate.problem, cleared=True)
        self._parts = self._placement.part_state
        self._memory: list[int] = []
        self._layout: list[int] = []
        self._is_share = aggregate.parts.kind == A_SHARE
        self.kind_class, self.kind_free, self.kind_size, self._kind_row = self._kinds()
        self.pool = PatternPool(
            aggregate.model, self._kind_row, self.kind_size, len(aggregate.parts)
        )
        self._measure()
        self._sets = [self._sets_of(g) for g in range(len(self.kind_class))]
        self._first()

    def add_improving(self, duals: Floats, sense: str) -> tuple[bool, float]:
        """Price: add the best pattern of each kind that improves the relaxation.

        Returns whether one was added, and the most that missing patterns can still improve the
        optimum (Lagrangian bound: reduced costs times the GPUs of each kind).
        """
        tuning = parameters.PARAMETERS.models
        aggregate = self.aggregate
        sign = 1.0 if sense == "max" else -1.0
        rows = aggregate.share_row
        price = np.where(rows >= 0, sign * duals[rows], 0.0).clip(min=0.0)
        worth, pattern = self._best_patterns(price)
        gain = worth - sign * duals[self._kind_row]
        threshold = tuning.min_pattern_gain_rel * max(float(price.max(initial=0.0)), 1e-12)
        better = np.flatnonzero(gain > threshold)
        cuts = np.zeros((len(better), len(aggregate.parts)), dtype=np.int64)
        for i, g in enumerate(better.tolist()):
            cuts[i] = pattern(g)
        added = self._append(better, cuts)
        return added, float((gain.clip(min=0.0) * self.kind_size).sum())

    def max_missing_gain(self, y: NDArray[Any]) -> int:
        """Return, exactly, the most that all patterns together can add at whole-number multipliers.

        `y` is as `solver.multipliers` returns it. Patterns of the pool are counted again, which
        only weakens the bound.
        """
        rows = self.aggregate.share_row
        price = np.where(rows >= 0, y[rows], 0).clip(min=0)
        worth, _ = self._best_patterns(price)
        gain = worth - y[self._kind_row]
        return int((gain.clip(min=0) * self.kind_size).sum())

    def _append(self, kinds: Ints, cuts: Ints) -> bool:
        columns, kinds, cuts = self.pool.append(kinds, cuts)
        at, f = np.nonzero(cuts)
        rows = self.aggregate.share_row[f, self.kind_class[kinds[at]]]
        wanted = rows >= 0
        self.aggregate.model.add(rows[wanted], columns[at[wanted]], -cuts[at, f][wanted])
        return bool(len(columns))

    def _kinds(self) -> GpuKinds:
        """Return the kinds of GPUs, by host class, free milli-GPU and memory, or layout."""
        aggregate, cluster = self.aggregate, self.aggregate.problem.cluster
        table: list[tuple[int, int, int, int]] = []
        for a in np.flatnonzero((aggregate.share_row >= 0).any(axis=0)).tolist():
            hosts = np.flatnonzero(aggregate.host_classes.of_host == a)
            if aggregate.gpu_row[a] >= 0:
                total = int(aggregate.host_classes.whole[a] * aggregate.host_classes.size[a])
                table.append((a, WHOLE_GPU, total, int(aggregate.gpu_row[a])))
                has = 0 if self._parts is None else int(cluster.gpu_memory[hosts[0]])
                self._memory.append(has)
                self._layout.append(FREE)
            for (free, memory, layout), number in sorted(self._used(hosts).items()):
                row = aggregate.model.rows("residual", 1, upper=number)
                table.append((a, free, number, int(row[0])))
                self._memory.append(memory)
                self._layout.append(layout)
        return GpuKinds(*np.array(table, dtype=np.int64).reshape(-1, 4).T)

    def _used(self, hosts: Ints) -> Counter[tuple[int, int, int]]:
        """Count the partly used GPUs of some hosts by free milli-GPU, memory and layout."""
        parts, partial = self._parts, self._placement.partial_free[hosts]
        if parts is None:
            useful = partial[partial >= self.aggregate.parts.milli[0]].tolist()
            return Counter((free, 0, FREE) for free in useful)
        layout = parts.layout[hosts]
        some = np.nonzero((partial > 0) | (layout != FREE))
        return Counter(
            zip(
                self._placement.gpu_free[hosts][some].tolist(),
                np.where(layout[some] == FREE, parts.memory[hosts][some], 0).tolist(),
                layout[some].tolist(),
                strict=True,
            )
        )

    def _first(self) -> None:
        """Add the patterns of one part, as often as it fits."""
        parts = self.aggregate.parts
        part, kinds = np.nonzero(self.aggregate.share_row[:, self.kind_class] >= 0)
        cuts = np.zeros((len(part), len(parts)), dtype=np.int64)
        for i, (f, g) in enumerate(zip(part.tolist(), kinds.tolist(), strict=True)):
            if not self._is_share[f]:
                cuts[i, f] = self._sets[g][:, f].max(initial=0)
            elif self._layout[g] == FREE:
                cuts[i, f] = self.kind_free[g] // parts.milli[f]
                if parts.memory[f]:
                    cuts[i, f] = min(int(cuts[i, f]), self._memory[g] // int(parts.memory[f]))
        self._append(kinds, cuts)

    def _sets_of(self, g: int) -> Ints:
        """Return the maximal sets of slices of a kind of GPU, (sets, parts)."""
        aggregate, parts, layout = self.aggregate, self.aggregate.parts, self._layout[g]
        slices = np.flatnonzero((aggregate.share_row[:, self.kind_class[g]] >= 0) & ~self._is_share)
        product = aggregate.problem.cluster.product[
            np.argmax(aggregate.host_classes.of_host == self.kind_class[g])
        ]
        cut = layout != FREE or self.kind_free[g] == WHOLE_GPU
        if self._parts is None or not len(slices) or product == NO_MIG or not cut:
            return np.zeros((0, len(parts)), dtype=np.int64)
        taken = self._parts.demands.layouts.mask(layout)
        came = np.array(
            maximal_slice_sets(taken, tuple(parts.kind[slices].tolist())), dtype=np.int64
        )
        sets = np.zeros((len(came), len(parts)), dtype=np.int64)
        if len(came):
            sets[:, slices] = came[:, parts.kind[slices]]
        return sets

    def _measure(self) -> None:
        """Choose the units of the knapsack, and express shares and GPUs in them."""
        tuning = parameters.PARAMETERS.models
        parts, mine = self.aggregate.parts, np.flatnonzero(self._is_share)
        milli, memory = parts.milli[mine], parts.memory[mine]
        unit = gcd(*milli.tolist(), WHOLE_GPU)
        self._size = milli // unit
        capacity = self.kind_free // unit
        least = max(int(memory.max(initial=0)), 1)
        step = gcd(*memory.tolist()) or least
        # More than shares of the hungriest kind would use, fractions too, is as good as that.
        used = int(max((-(-memory * WHOLE_GPU // np.maximum(milli, 1))).max(initial=0), 1))
        most = min(max(self._memory, default=0), used)
        steps = max(tuning.max_gpu_table_entries // (WHOLE_GPU // unit + 1) - 1, 1)
        step = max(step, -(-most // steps))
        self._size_memory = memory // step
        self._top = (WHOLE_GPU // unit, most // step)
        self._room = np.column_stack(
            [capacity, np.minimum(np.array(self._memory, dtype=np.int64) // step, self._top[1])]
        )
        self._room[np.array(self._layout, dtype=np.int64) != FREE] = 0

    def _best_patterns(self, price: NDArray[Any]) -> tuple[NDArray[Any], Callable[[int], Ints]]:
        """Return the worth of the best pattern of each kind of GPU, and a function giving it."""
        classes, position = np.unique(self.kind_class, return_inverse=True)
        mine = np.flatnonzero(self._is_share)
        best, choice = unbounded_knapsack_2d(
            self._size, self._size_memory, self._top, price[:, classes].T[:, mine]
        )

        # Exact prices may exceed 64 bits, while a table without shares holds zeros.
        worth = best[position, self._room[:, 0], self._room[:, 1]].astype(price.dtype)
        sets = np.full(len(worth), -1, dtype=np.int64)
        for g in [g for g, some in enumerate(self._sets) if len(some)]:
            each = self._sets[g] @ price[:, self.kind_class[g]]
            if each.max() > worth[g]:
                sets[g] = each.argmax()
                worth[g] = each.max()

        def cut(g: int) -> Ints:
            if sets[g] >= 0:
                chosen: Ints = self._sets[g][sets[g]]
                return chosen
            number = np.zeros(len(self.aggregate.parts), dtype=np.int64)
            milli, memory = self._room[g].tolist()
            while (f := int(choice[position[g], milli, memory])) >= 0:
                number[mine[f]] += 1
                milli, memory = milli - int(self._size[f]), memory - int(self._size_memory[f])
            return number

        return worth, cut


def unbounded_knapsack(steps: Ints, top: int, price: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Unbounded knapsack for each row of prices, at every capacity from 0 to `top`.

    `steps`, int64 (parts,), are the sizes of the parts, ascending from 1 on, else `ValueError`;
    `price` is (rows, parts). Returns, (rows, top + 1) each, the largest total price within each
    capacity, and the part to take first, -1 to stop. Following the choices never exceeds the
    capacity.
    """
    if (np.diff(steps, prepend=1) < 0).any():
        raise ValueError(f"parts of {steps.tolist()} steps are not in ascending order from 1 on")
    best, choice = unbounded_knapsack_2d(steps, np.zeros_like(steps), (top, 0), price)
    return best[:, :, 0], choice[:, :, 0]


def pattern_of(steps: Ints, choice: Ints, capacity: int) -> Ints:
    """Return how many of each part the choices of one row take at a capacity, int64 (parts,)."""
    number = np.zeros(len(steps), dtype=np.int64)
    while (f := int(choice[capacity])) >= 0:
        number[f] += 1
        capacity -= int(steps[f])
    return number


def unbounded_knapsack_2d(
    size: Ints, memory: Ints, top: tuple[int, int], price: NDArray[Any]
) -> tuple[NDArray[Any], Ints]:
    """Unbounded knapsack in two dimensions for each row of prices, at all capacities up to `top`.

    Returns the largest total price, (rows, top[0] + 1, top[1] + 1), and the part to take first
    there, -1 to stop. Where no part takes memory, a capacity of which nothing is gained has the
    choice of the one below.
    """
    if price.dtype == object and int(price.max(initial=0)) * (top[0] + 1) < 1 << 62:
        price = price.astype(np.int64)  # as exact, and faster
    shape = (len(price), top[0] + 1, top[1] + 1)
    best = np.zeros(shape, dtype=price.dtype)
    choice = np.full(shape, -1, dtype=np.int64)
    rows, carries = np.arange(len(price)), not memory.any()
    for milli in range(1, top[0] + 1) if len(size) else ():
        if carries:
            best[:, milli], choice[:, milli] = best[:, milli - 1], choice[:, milli - 1]
        for free in range(top[1] + 1):
            usable = np.flatnonzero((size <= milli) & (memory <= free))
            if not len(usable):
                continue
            totals = best[:, milli - size[usable], free - memory[usable]] + price[:, usable]
            winner = totals.argmax(axis=1)
            total = totals[rows, winner]
            worth = total > best[:, milli, free]
            best[worth, milli, free] = total[worth]
            choice[worth, milli, free] = usable[winner[worth]]
    return best, choice
