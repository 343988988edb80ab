"""Increase of fragmentation: by how much `stranded` grows per task shape and host.

GPUs of a host are anonymous slots: its free GPUs when the table is made. A task changes one host,
so one column is recomputed after each; hosts in equal states share a cached column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.task_mix import TaskMix
from placewright.topology.units import WHOLE_GPU

NO_FIT = 1 << 60
"""Increase where a task of the shape does not fit."""


class TaskSlots(NamedTuple):
    """Where a task is: its host, and its slots there."""

    host: int
    slots: tuple[int, ...]


class _Column(NamedTuple):
    """Of one host: increase and sorted position of the GPU per shape, and `stranded` as it is."""

    least: Ints
    position: Ints
    now: int


class FragmentationIncreases:
    """What is free on the hosts, and the least increase of `stranded` per shape and host.

    Parameters
    ----------
    placement
        What is taken already.
    shapes : int64 (wanted,)
        Distinct shapes of the tasks that are to be placed.

    Attributes
    ----------
    least : int64 (wanted, hosts)
        Least increase, `NO_FIT` where it does not fit.
    now : int64 (hosts,)
        What is stranded, 0 on hosts where nothing may arrive.
    """

    def __init__(self, placement: Placement, mix: TaskMix, shapes: Ints) -> None:
        problem = placement.problem
        self._mix, self._gpu = mix, problem.shape_gpu[shapes]
        self._demand = problem.shape_demand[shapes]
        self._demands, demand_of = np.unique(self._demand, axis=0, return_inverse=True)
        self._demand_of = demand_of.ravel()
        self._share = np.flatnonzero((self._gpu > 0) & (self._gpu < WHOLE_GPU))
        self._fractions, self._fraction_of = np.unique(self._gpu[self._share], return_inverse=True)
        self._whole = np.setdiff1d(np.arange(len(shapes)), self._share)
        self._counts, self._count_of = np.unique(
            self._gpu[self._whole] // WHOLE_GPU, return_inverse=True
        )
        self._may = problem.shape_hosts[shapes] & (
            placement.least_rank <= problem.shape_rank[shapes][:, None]
        )
        self._model = problem.cluster.gpu_model.astype(np.int64)
        self.free, self.gpus = placement.free.copy(), placement.arrivable_milli_gpu()
        self.least = np.full(self._may.shape, NO_FIT, dtype=np.int64)
        self._slot = np.zeros(self._may.shape, dtype=np.int64)
        self.now = np.zeros(self._may.shape[1], dtype=np.int64)
        self._columns: dict[tuple[int, bytes, bytes], _Column] = {}
        for host in np.flatnonzero(problem.open).tolist():
            self._refresh(host)

    def best(self, shape: int) -> TaskSlots | None:
        """Return where a task strands least; None if it fits nowhere."""
        host = int(self.least[shape].argmin())
        if self.least[shape, host] == NO_FIT:
            return None
        if shape in self._share:
            return TaskSlots(host, (int(self._slot[shape, host]),))
        free = np.flatnonzero(self.gpus[host] == WHOLE_GPU)
        return TaskSlots(host, tuple(free[: int(self._gpu[shape]) // WHOLE_GPU].tolist()))

    def put(self, shape: int, slots: TaskSlots) -> None:
        """Take what a task needs."""
        self._take(shape, slots, 1)

    def lift(self, shape: int, slots: TaskSlots) -> None:
        """Remove a task from its slots."""
        self._take(shape, slots, -1)

    def _take(self, shape: int, slots: TaskSlots, times: int) -> None:
        milli = min(int(self._gpu[shape]), WHOLE_GPU)
        for slot in slots.slots:
            self.gpus[slots.host, slot] -= times * milli
        self.free[slots.host] -= times * self._demand[shape]
        self._refresh(slots.host)

    def _refresh(self, host: int) -> None:
        order = np.argsort(self.gpus[host], kind="stable")
        free, gpus, model = self.free[host], self.gpus[host][order], int(self._model[host])
        key = (model, free.tobytes(), gpus.tobytes())
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= parameters.PARAMETERS.neighbourhood.max_cached_columns:
                self._columns.clear()
            column = self._columns[key] = self._column(free, gpus, model)
        self.least[:, host] = np.where(self._may[:, host], column.least, NO_FIT)
        self._slot[:, host] = order[column.position]
        self.now[host] = column.now

    def _column(self, free: Ints, gpus: Ints, model: int) -> _Column:
        """Compute the column of a host; `gpus` ascend."""
        mix, sizes = self._mix, self._mix.sizes
        large = gpus >= sizes[:, None]
        counts, sums = large.sum(axis=1), large @ gpus
        # What is of no use to a kind now never will be.
        live = mix.allowed[model] & (counts[mix.size_of] >= mix.gpus)
        for r, left in enumerate(free.tolist()):
            live &= mix.demand[:, r] <= left
        kinds = np.flatnonzero(live)
        size_of, weight = mix.size_of[kinds], mix.weight[kinds]
        worth = int(sums[size_of] @ weight)
        counted, cut, changed_counts, changed_sums = self._patterns(gpus)
        each = (sums + changed_sums)[:, size_of]
        each[(counts + changed_counts)[:, size_of] < mix.gpus[kinds]] = 0
        after_free = free - self._demands
        fits = np.ones((len(after_free), len(kinds)), dtype=np.bool_)
        for r in range(len(free)):
            fits &= after_free[:, r, None] >= mix.demand[kinds, r]
        # Whole numbers far below 2 ** 53.
        after = np.full((len(after_free), len(each) + 1), -1.0)
        after[:, :-1] = (fits * weight.astype(np.float64)) @ each.T.astype(np.float64)
        after[(after_free < 0).any(axis=1)] = -1.0
        most, position = np.zeros(len(self._gpu)), np.zeros(len(self._gpu), dtype=np.int64)
        most[self._whole] = after[self._demand_of[self._whole], counted[self._count_of]]
        if len(self._share):
            choices = after[self._demand_of[self._share][:, None], cut[self._fraction_of]]
            position[self._share] = choices.argmax(axis=1)
            most[self._share] = choices.max(axis=1)
        least = worth - most.astype(np.int64) - mix.total * self._gpu
        least[most < 0] = NO_FIT
        return _Column(least, position, mix.total * int(gpus.sum()) - worth)

    def _patterns(self, gpus: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return which pattern the GPUs are left in by which task, and what patterns change.

        Returns
        -------
        counted : int64 (counts,)
            The pattern that each count of whole GPUs leaves; -1 for none.
        cut : int64 (fractions, GPUs)
            The pattern in which a GPU gives a fraction, at the first of equal GPUs; -1 for none.
        counts, sums : int64 (patterns, sizes)
            How many GPUs more have at least that size free, and how much more these have in all.
        """
        sizes = self._mix.sizes
        whole = int((gpus == WHOLE_GPU).sum())
        taken = self._counts[self._counts <= whole]
        first = np.ones(len(gpus), dtype=np.bool_)
        first[1:] = gpus[1:] > gpus[:-1]
        fraction, gpu = np.nonzero((gpus >= self._fractions[:, None]) & first)
        before = gpus[gpu][:, None]
        after = before - self._fractions[fraction][:, None]
        was, is_ = before >= sizes, after >= sizes
        lost = np.repeat(-taken[:, None], len(sizes), axis=1)
        counted = np.full(len(self._counts), -1, dtype=np.int64)
        counted[: len(taken)] = np.arange(len(taken))
        cut = np.full((len(self._fractions), len(gpus)), -1, dtype=np.int64)
        cut[fraction, gpu] = len(taken) + np.arange(len(gpu))
        return (
            counted,
            cut,
            np.concatenate([lost, is_.astype(np.int64) - was]),
            np.concatenate([lost * WHOLE_GPU, is_ * after - was * before]),
        )
