r"""The term `stranded` in the host-indexed model.

    fits[k,h]     host h fits one more task of kind k          0 or 1
    useful[k,h]   milli-GPU that are useful to kind k there
    large[m,i]    GPU slot i has m milli-GPU left                      0 or 1
    left[m,i]     what slot i has left, if that is m or more

    fits          demand[k,r] fits[k,h]   <=  free[h,r] - what arrives or stays on h
    GPUs          n[k] fits[k,h]          <=  sum_i large[m(k),i]
    useful        useful[k,h]             <=  sum_i left[m(k),i],   <=  most of h * fits[k,h]
    large         m large[m,i]            <=  free[i] - uses of i
    left          left[m,i]               <=  free[i] - uses of i,  <=  free[i] large[m,i]
    slices        large[m,i]              <=  1 - s                 s: a MIG slice lies on i

    stranded      total weight * (free milli-GPU - what arrives or stays)
                  -  sum weight[k] useful[k,h]

Only what is useful is to be large, so upper bounds are enough, and the optimum is exact. On hosts
without shares GPUs in part use stay as they are, and the others are counted per host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.gpus import ANY_FREE, GpuSlots
from placewright.formulations.gang.models.host.model import HostModel, milli_each
from placewright.formulations.gang.problem.mig_layouts import FREE
from placewright.formulations.gang.problem.task_mix import STRANDED, TaskMix
from placewright.topology.units import WHOLE_GPU

Sum: TypeAlias = tuple[float, list[tuple[int, float]]]
"""A constant, and columns with coefficients."""


def add_stranded(m: HostModel, slots: GpuSlots) -> None:
    """Append the term, its variables and rows."""
    mix = TaskMix.of(m.problem)
    gpus = m.placement.arrivable_milli_gpu()[m.hosts]
    open_ = m.problem.open[m.hosts]
    every = int(m.placement.free_milli_gpu[m.hosts[open_]].sum())
    m.model.term(STRANDED, m.y[:0], np.zeros(0), sense="min", constant=float(mix.total * every))
    stays = milli_each(m)
    stays = np.where(stays < WHOLE_GPU, stays, WHOLE_GPU) * m.stays.usable
    for at, columns, milli in (
        (m.x_host, m.x, m.problem.shape_gpu[m.x_shape]),
        (m.stays.host, m.stays.s, stays),
    ):
        counts = open_[at]
        taken = -float(mix.total) * milli[counts]
        m.model.term(STRANDED, columns[counts], taken, sense="min")
    uses = _uses(m, slots)
    model = m.problem.cluster.gpu_model[m.hosts].astype(np.int64)
    most = mix.useful(m.placement.free[m.hosts], gpus, model)
    for h in np.flatnonzero(open_).tolist():
        host = _Host(m, slots, uses, h, gpus[h])
        for k in np.flatnonzero(most[h]).tolist():
            host.add(mix, k, int(most[h, k]))


@dataclass(frozen=True, slots=True)
class _Uses:
    """Per host the columns of what arrives or stays there, with demands and whole GPUs.

    `slices` are the columns of MIG slices, `cut` the slots that hold slices of pinned jobs.
    """

    demands: dict[int, list[tuple[int, Ints]]]
    gpus: dict[int, list[tuple[int, int]]]
    slices: frozenset[int]
    cut: frozenset[int]


def _uses(m: HostModel, slots: GpuSlots) -> _Uses:
    """Collect what arrives or stays on each host."""
    uses = _Uses({}, {}, *_sliced(m, slots))
    sharing = set(slots.host.tolist())
    stay_gpus = np.where(milli_each(m) >= WHOLE_GPU, m.stays.usable, 0)
    for at, columns, shapes, gpus in (
        (m.x_host, m.x, m.x_shape, m.problem.shape_gpu[m.x_shape] // WHOLE_GPU),
        (m.stays.host, m.stays.s, m.stay_shape, stay_gpus),
    ):
        for h, column, shape, n in zip(
            at.tolist(), columns.tolist(), shapes.tolist(), gpus.tolist(), strict=True
        ):
            uses.demands.setdefault(h, []).append((column, m.problem.shape_demand[shape]))
            if n and h not in sharing:
                uses.gpus.setdefault(h, []).append((column, n))
    return uses


def _sliced(m: HostModel, slots: GpuSlots) -> tuple[frozenset[int], frozenset[int]]:
    """Return the columns of MIG slices, and the slots that hold slices of pinned jobs."""
    parts = m.placement.part_state
    if parts is None:
        return frozenset(), frozenset()
    staying = m.stays.s[parts.demands.is_slice[m.stay_shape]]
    named = slots.gpu != ANY_FREE
    layout = parts.layout[m.hosts[slots.host], np.where(named, slots.gpu, 0)]
    return (
        frozenset([*slots.b[slots.b_key < 0].tolist(), *staying.tolist()]),
        frozenset(np.flatnonzero(named & (layout != FREE)).tolist()),
    )


@dataclass(slots=True)
class _Host:
    """One host of the model; what several kinds of tasks need of it is added once."""

    m: HostModel
    slots: GpuSlots
    uses: _Uses
    at: int
    gpus: Ints
    sums: dict[int, tuple[Sum, Sum]] = field(default_factory=dict)

    def add(self, mix: TaskMix, kind: int, most: int) -> None:
        """Append `fits` and `useful` of a kind, to which at most `most` milli-GPU are useful."""
        m = self.m
        milli = int(mix.milli[kind])
        if milli not in self.sums:
            has_slots = bool((self.slots.host == self.at).any())
            self.sums[milli] = self._slots(milli) if has_slots else self._counted(milli)
        large, left = self.sums[milli]
        fits, useful = (
            m.model.variables("fits", 1, upper=1),
            m.model.variables("useful", 1, upper=most),
        )
        m.model.term(STRANDED, useful, -float(mix.weight[kind]), sense="min")
        self._at_most("useful", [(int(useful[0]), 1.0), (int(fits[0]), -float(most))], (0.0, []))
        self._at_most("useful", [(int(useful[0]), 1.0)], left)
        self._at_most("GPUs", [(int(fits[0]), float(mix.gpus[kind]))], large)
        for r in np.flatnonzero(mix.demand[kind]).tolist():
            taken = [
                (column, -float(demand[r]))
                for column, demand in self.uses.demands.get(self.at, ())
                if demand[r]
            ]
            free = float(m.placement.free[m.hosts[self.at], r])
            self._at_most("fits", [(int(fits[0]), float(mix.demand[kind, r]))], (free, taken))

    def _at_most(self, name: str, terms: list[tuple[int, float]], limit: Sum) -> None:
        """Append a row: these terms are no more than the limit."""
        constant, columns = limit
        row = self.m.model.rows(name, 1, upper=constant)
        both = [*terms, *((column, -factor) for column, factor in columns)]
        self.m.model.add(
            row[[0] * len(both)],
            np.array([column for column, _ in both], dtype=np.int64),
            np.array([factor for _, factor in both]),
        )

    def _counted(self, milli: int) -> tuple[Sum, Sum]:
        """Return how many GPUs are large enough, and what they have left, counted per host."""
        fixed = self.gpus[(self.gpus >= milli) & (self.gpus < WHOLE_GPU)]
        whole = int((self.gpus == WHOLE_GPU).sum())
        taken = self.uses.gpus.get(self.at, ())
        return (
            (float(len(fixed) + whole), [(column, -float(n)) for column, n in taken]),
            (
                float(fixed.sum() + whole * WHOLE_GPU),
                [(column, -float(n * WHOLE_GPU)) for column, n in taken],
            ),
        )

    def _slots(self, milli: int) -> tuple[Sum, Sum]:
        """Return the same for GPUs that have slots of their own."""
        m, slots = self.m, self.slots
        mine = np.flatnonzero((slots.host == self.at) & (slots.free >= milli))
        mine = np.array([i for i in mine.tolist() if i not in self.uses.cut], dtype=np.int64)
        large = m.model.variables("large", len(mine), upper=1)
        left = m.model.variables("left large", len(mine), upper=slots.free[mine])
        for i, is_large, has in zip(mine.tolist(), large.tolist(), left.tolist(), strict=True):
            use = np.flatnonzero(slots.use_slot == i)
            free: Sum = (
                float(slots.free[i]),
                [
                    (column, -float(taken))
                    for column, taken in zip(
                        slots.use[use].tolist(), slots.use_milli[use].tolist(), strict=True
                    )
                ],
            )
            for column in self.uses.slices.intersection(slots.use[use].tolist()):
                self._at_most("large", [(is_large, 1.0), (column, 1.0)], (1.0, []))
            self._at_most("large", [(is_large, float(milli))], free)
            self._at_most("left large", [(has, 1.0)], free)
            self._at_most("left large", [(has, 1.0), (is_large, -float(slots.free[i]))], (0.0, []))
        return (
            (0.0, [(column, 1.0) for column in large.tolist()]),
            (0.0, [(column, 1.0) for column in left.tolist()]),
        )
