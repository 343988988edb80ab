r"""Patterns that cut GPUs into shares with memory, or into MIG slices.

    v[g,p]  GPUs of kind g (host class, free milli-GPU and memory, or layout) cut by pattern p

A GPU holds slices or shares. The sets of slices that it can take together are few, since of those
that are part of another only the largest matter: all of them are columns from the start, so the
model is exact for the slices of a GPU. Patterns of shares are found by column generation as in
patterns.py; the knapsack has two dimensions, milli-GPU and memory. Where the table would be too
large, memory is counted in coarser units, what is asked rounded down: a relaxation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.countparts import A_SHARE
from placewright.formulations.gang.counts import Counts
from placewright.formulations.gang.layouts import FREE, fullest
from placewright.formulations.gang.patterns import GpuKinds, Patterns
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.sharing import Parts
from placewright.instances.documents import WHOLE_GPU
from placewright.topology.mig import NO_MIG

Ints = NDArray[np.int64]

MAX_CELLS = 4_000
"""Most entries of the table of a knapsack."""


class PartPatterns(Patterns):
    """The pattern columns of a count model whose shares have memory, or are slices."""

    def __init__(self, counts: Counts) -> None:
        placement = Placement(counts.problem, cleared=True)
        if placement.parts is None:
            raise ValueError("no task asks for a slice or GPU memory; expected one")
        self._parts, self._placement = placement.parts, placement
        self._memory: list[int] = []
        self._layout: list[int] = []
        self._is_share = counts.parts.kind == A_SHARE
        super().__init__(counts)

    def _kinds(self) -> GpuKinds:
        """Tell GPUs apart by class, free milli-GPU and memory, or layout."""
        counts, cluster = self.counts, self.counts.problem.cluster
        table: list[tuple[int, int, int, int]] = []
        for a in np.flatnonzero((counts.share_row >= 0).any(axis=0)).tolist():
            hosts = np.flatnonzero(counts.classes.of_host == a)
            if counts.gpu_row[a] >= 0:
                total = int(counts.classes.whole[a] * counts.classes.size[a])
                table.append((a, WHOLE_GPU, total, int(counts.gpu_row[a])))
                self._memory.append(int(cluster.gpu_memory[hosts[0]]))
                self._layout.append(FREE)
            for (free, memory, layout), number in sorted(self._used(self._parts, hosts).items()):
                row = counts.model.rows("residual", 1, upper=number)
                table.append((a, free, number, int(row[0])))
                self._memory.append(memory)
                self._layout.append(layout)
        return GpuKinds(*np.array(table, dtype=np.int64).reshape(-1, 4).T)

    def _used(self, parts: Parts, hosts: Ints) -> Counter[tuple[int, int, int]]:
        """Count the partly used GPUs of some hosts by free milli-GPU, memory and layout."""
        partial, layout = self._placement.partial[hosts], parts.layout[hosts]
        some = np.nonzero((partial > 0) | (layout != FREE))
        return Counter(
            zip(
                self._placement.gpu[hosts][some].tolist(),
                np.where(layout[some] == FREE, parts.memory[hosts][some], 0).tolist(),
                layout[some].tolist(),
                strict=True,
            )
        )

    def _first(self) -> None:
        """Add all sets of slices, and each share as often as it fits."""
        self._measure()
        counts, parts = self.counts, self.counts.parts
        kinds, cuts = [], []
        for g, (a, layout) in enumerate(zip(self.kind_class.tolist(), self._layout, strict=True)):
            wanted = counts.share_row[:, a] >= 0
            slices = np.flatnonzero(wanted & ~self._is_share)
            product = self.counts.problem.cluster.product[np.argmax(counts.classes.of_host == a)]
            if len(slices) and product != NO_MIG and (layout != FREE or self._is_free(g)):
                taken = self._parts.sharing.layouts.taken(layout)
                for came in fullest(taken, tuple(parts.kind[slices].tolist())):
                    cut = np.zeros(len(parts), dtype=np.int64)
                    cut[slices] = np.array(came)[parts.kind[slices]]
                    kinds.append(g)
                    cuts.append(cut)
            for f in np.flatnonzero(wanted & self._is_share) if layout == FREE else ():
                most = int(self.kind_free[g] // parts.milli[f])
                if parts.memory[f]:
                    most = min(most, self._memory[g] // int(parts.memory[f]))
                cut = np.zeros(len(parts), dtype=np.int64)
                cut[f] = most
                kinds.append(g)
                cuts.append(cut)
        self._append(np.array(kinds, dtype=np.int64), np.array(cuts, dtype=np.int64))

    def _is_free(self, g: int) -> bool:
        return bool(self.kind_free[g] == WHOLE_GPU)

    def _measure(self) -> None:
        """Choose the units of the knapsack, and express shares and GPUs in them."""
        parts, mine = self.counts.parts, np.flatnonzero(self._is_share)
        milli, memory = parts.milli[mine], parts.memory[mine]
        unit = gcd(*milli.tolist(), WHOLE_GPU)
        self._size = milli // unit
        room = self.kind_free // unit
        least = max(int(memory.max(initial=0)), 1)
        step = gcd(*memory.tolist()) or least
        # More than the hungriest shares can use together is as good as that.
        used = int(max((memory * (WHOLE_GPU // np.maximum(milli, 1))).max(initial=0), 1))
        most = min(max(self._memory, default=0), used)
        steps = max(MAX_CELLS // (WHOLE_GPU // unit + 1) - 1, 1)
        step = max(step, -(-most // steps))
        self._size_memory = memory // step
        self._top = (WHOLE_GPU // unit, most // step)
        self._room = np.column_stack(
            [room, np.minimum(np.array(self._memory, dtype=np.int64) // step, self._top[1])]
        )
        self._room[np.array(self._layout, dtype=np.int64) != FREE] = 0

    def _packed(self, price: NDArray[Any]) -> tuple[NDArray[Any], Callable[[int], Ints]]:
        """Return what the best pattern of shares of each kind of GPU is worth, and which it is."""
        classes, position = np.unique(self.kind_class, return_inverse=True)
        mine = np.flatnonzero(self._is_share)
        best, choice = fill_both(
            self._size, self._size_memory, self._top, price[:, classes].T[:, mine]
        )

        def cut(g: int) -> Ints:
            number = np.zeros(len(self.counts.parts), dtype=np.int64)
            milli, memory = self._room[g].tolist()
            while (f := int(choice[position[g], milli, memory])) >= 0:
                number[mine[f]] += 1
                milli, memory = milli - int(self._size[f]), memory - int(self._size_memory[f])
            return number

        return best[position, self._room[:, 0], self._room[:, 1]], cut


def fill_both(
    size: Ints, memory: Ints, top: tuple[int, int], price: NDArray[Any]
) -> tuple[NDArray[Any], Ints]:
    """Best total price within each pair of capacities up to `top`, and which part comes first.

    An unbounded knapsack in two dimensions, per row of prices; -1 ends a pattern.
    """
    if price.dtype == object and int(price.max(initial=0)) * (top[0] + 1) < 1 << 62:
        price = price.astype(np.int64)  # as exact, and faster
    shape = (len(price), top[0] + 1, top[1] + 1)
    best = np.zeros(shape, dtype=price.dtype)
    choice = np.full(shape, -1, dtype=np.int64)
    rows = np.arange(len(price))
    for milli in range(1, top[0] + 1) if len(size) else ():
        for free in range(top[1] + 1):
            usable = np.flatnonzero((size <= milli) & (memory <= free))
            if not len(usable):
                continue
            offers = best[:, milli - size[usable], free - memory[usable]] + price[:, usable]
            winner = offers.argmax(axis=1)
            offered = offers[rows, winner]
            worth = offered > 0
            best[worth, milli, free] = offered[worth]
            choice[worth, milli, free] = usable[winner[worth]]
    return best, choice
