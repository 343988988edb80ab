"""Patterns of one GPU cut into shares: cutting-stock columns of the aggregate model.

    v[g,p]  GPUs of kind g (host class, free milli-GPU) cut by pattern p, a multiset of fractions

A sum of milli-GPU per host is wrong: three tasks of 600 do not fit two GPUs. Patterns are right,
but too many to list, so they are generated when they improve the relaxation (Gilmore and Gomory, A
linear programming approach to the cutting-stock problem, 1961). With the price pi[a,f] of a place
for fraction f on class a and mu[g] of a GPU, the best pattern of kind g is an unbounded knapsack
over its free milli-GPU, one table for all kinds of all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.column_pool import PatternPool
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.topology.units import WHOLE_GPU


class GpuKinds(NamedTuple):
    """Kinds of GPUs, int64 (kinds,): host class, free milli-GPU, number of GPUs, row."""

    host_class: Ints
    free: Ints
    size: Ints
    row: Ints


class GpuPatterns:
    """The patterns of GPUs of an aggregate model.

    Attributes
    ----------
    pool : PatternPool
        The patterns so far; its kinds are kinds of GPUs, its parts are fractions.
    kind_class, kind_free, kind_size : int64 (kinds,)
        Host class, free milli-GPU of one GPU, and number of GPUs of each kind.
    """

    def __init__(self, aggregate: AggregateModel) -> None:
        self.aggregate = aggregate
        self.kind_class, self.kind_free, self.kind_size, self._kind_row = self._kinds()
        self.pool = PatternPool(
            aggregate.model, self._kind_row, self.kind_size, len(aggregate.parts)
        )
        self._first()

    def _kinds(self) -> GpuKinds:
        """Return the kinds of GPUs, by host class and free milli-GPU, and add a row for each."""
        aggregate, least = self.aggregate, int(self.aggregate.parts.milli[0])
        kinds: list[tuple[int, int, int, int]] = []
        for a in np.flatnonzero((aggregate.share_row >= 0).any(axis=0)).tolist():
            if aggregate.gpu_row[a] >= 0:
                total = int(aggregate.host_classes.whole[a] * aggregate.host_classes.size[a])
                kinds.append((a, WHOLE_GPU, total, int(aggregate.gpu_row[a])))
            useful = [(r, n) for r, n in aggregate.host_classes.residual[a] if r >= least]
            rows = aggregate.model.rows("residual", len(useful), upper=[n for _, n in useful])
            kinds += [(a, r, n, int(row)) for (r, n), row in zip(useful, rows, strict=True)]
        return GpuKinds(*np.array(kinds, dtype=np.int64).reshape(-1, 4).T)

    def _first(self) -> None:
        """Add the patterns of one fraction, as often as it fits."""
        aggregate, fractions = self.aggregate, self.aggregate.parts.milli
        most = self.kind_free[:, None] // fractions
        for f in range(len(fractions)):
            usable = np.flatnonzero(
                (most[:, f] > 0) & (aggregate.share_row[f, self.kind_class] >= 0)
            )
            cuts = np.zeros((len(usable), len(fractions)), dtype=np.int64)
            cuts[:, f] = most[usable, f]
            self._append(usable, cuts)

    def add_improving(self, duals: NDArray[np.float64], sense: str) -> tuple[bool, float]:
        """Price: add the best pattern of each kind that improves the relaxation.

        Returns
        -------
        bool
            Whether one was added.
        float
            The most that missing patterns can still improve the optimum (Lagrangian bound: reduced
            costs times the GPUs of each kind).
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

    def _best_patterns(self, price: NDArray[Any]) -> tuple[NDArray[Any], Callable[[int], Ints]]:
        """Return the worth of the best pattern of each kind of GPU, and a function that returns it.

        `price` is that of a place for a part on a host class, (parts, classes).
        """
        fractions = self.aggregate.parts.milli
        unit = gcd(*fractions.tolist(), WHOLE_GPU)
        classes, position = np.unique(self.kind_class, return_inverse=True)
        steps = fractions // unit
        best, choice = unbounded_knapsack(steps, WHOLE_GPU // unit, price[:, classes].T)
        capacity = self.kind_free // unit
        return best[position, capacity], lambda g: pattern_of(
            steps, choice[position[g]], int(capacity[g])
        )

    def _append(self, kinds: Ints, cuts: Ints) -> bool:
        columns, kinds, cuts = self.pool.append(kinds, cuts)
        at, f = np.nonzero(cuts)
        rows = self.aggregate.share_row[f, self.kind_class[kinds[at]]]
        wanted = rows >= 0
        self.aggregate.model.add(rows[wanted], columns[at[wanted]], -cuts[at, f][wanted])
        return bool(len(columns))


def unbounded_knapsack(steps: Ints, top: int, price: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """Unbounded knapsack for each row of prices, at every capacity from 0 to `top`.

    Parameters
    ----------
    steps : int64 (parts,)
        Size of each part, at least 1, in ascending order.
    price : (rows, parts)

    Returns
    -------
    best : (rows, top + 1)
        Largest total price within each capacity.
    choice : int64 (rows, top + 1)
        The part to take first, -1 to stop. Following the choices never exceeds the capacity.

    Raises
    ------
    ValueError
        If the parts are not in ascending order, or smaller than 1.
    """
    if (np.diff(steps, prepend=1) < 0).any():
        raise ValueError(f"parts of {steps.tolist()} steps are not in ascending order from 1 on")
    best = np.zeros((len(price), top + 1), dtype=price.dtype)
    choice = np.full((len(price), top + 1), -1, dtype=np.int64)
    for capacity in range(1, top + 1):
        usable = int(np.searchsorted(steps, capacity, side="right"))
        best[:, capacity] = best[:, capacity - 1]
        choice[:, capacity] = choice[:, capacity - 1]
        if usable:
            totals = best[:, capacity - steps[:usable]] + price[:, :usable]
            winner = totals.argmax(axis=1)
            total = totals[np.arange(len(price)), winner]
            better = total > best[:, capacity]
            best[better, capacity] = total[better]
            choice[better, capacity] = winner[better]
    return best, choice


def pattern_of(steps: Ints, choice: Ints, capacity: int) -> Ints:
    """Return how many of each part the choices of one row take at a capacity, int64 (parts,)."""
    number = np.zeros(len(steps), dtype=np.int64)
    while (f := int(choice[capacity])) >= 0:
        number[f] += 1
        capacity -= int(steps[f])
    return number
