"""Parts of GPUs beside milli-GPU: GPU memory and MIG slices, as demands and as what is left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.topology import Cluster, State
from placewright.topology.mig import MEMORY_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

# MIG layouts: which slices a GPU holds and can still take, as a finite automaton.
#
# A **layout** is a pair: the slices of running tasks that keep their place, as a mask (bit i is
# memory slice i, bit 8 the media extensions), and the number of arriving slices of each kind.
# Arriving slices get their place when the plan is written, so their order does not matter: they fit
# as long as places for all of them exist together. States are numbered as they are met.


SliceCounts: TypeAlias = tuple[int, ...]
"""Slices of each kind."""

FREE = 0
"""The layout of a GPU without slices."""
_NONE: SliceCounts = (0,) * len(SLICES)
_LARGEST_FIRST = sorted(range(len(SLICES)), key=lambda k: (-SLICES[k].size, len(SLICES[k].starts)))


def mask_of(kind: int, start: int) -> int:
    """Return the mask of what a slice takes of a GPU, by its kind and its first memory slice."""
    one = SLICES[kind]
    return ((1 << one.size) - 1) << start | one.media << MEMORY_SLICES


@cache
def slice_starts(taken: int, came: SliceCounts) -> tuple[tuple[int, int], ...] | None:
    """Return (kind, start) of each arriving slice beside the mask `taken`; None if impossible."""
    kind = next((k for k in _LARGEST_FIRST if came[k]), None)
    if kind is None:
        return ()
    fewer = _with(came, kind, -1)
    for start in reversed(SLICES[kind].starts):
        mask = mask_of(kind, start)
        rest = None if taken & mask else slice_starts(taken | mask, fewer)
        if rest is not None:
            return ((kind, start), *rest)
    return None


@cache
def num_fitting_slices(taken: int, came: SliceCounts, kind: int) -> int:
    """Return how many more slices of one kind a GPU can take."""
    number = 0
    while slice_starts(taken, _with(came, kind, number + 1)) is not None:
        number += 1
    return number


@cache
def maximal_slice_sets(taken: int, kinds: tuple[int, ...]) -> tuple[SliceCounts, ...]:
    """Return the maximal sets of slices, of some kinds, that a GPU can take."""
    found: set[SliceCounts] = set()
    waiting = [_NONE]
    maximal = []
    while waiting:
        came = waiting.pop()
        larger = [more for k in kinds if slice_starts(taken, more := _with(came, k, 1)) is not None]
        waiting += [more for more in larger if more not in found]
        found.update(larger)
        if not larger and any(came):
            maximal.append(came)
    return tuple(sorted(maximal))


def _with(came: SliceCounts, kind: int, more: int) -> SliceCounts:
    """Return the counts with `more` slices of a kind."""
    return (*came[:kind], came[kind] + more, *came[kind + 1 :])


class Layouts:
    """The layouts met so far, by number.

    `num_fitting`, int64 (layouts, kinds): how many more slices of one kind alone a GPU can take.
    """

    def __init__(self) -> None:
        self._layouts: list[tuple[int, SliceCounts]] = []
        self._index: dict[tuple[int, SliceCounts], int] = {}
        self.num_fitting = np.zeros((0, len(SLICES)), dtype=np.int64)
        self.index_of(0)

    def index_of(self, stays: int, came: SliceCounts = _NONE) -> int:
        """Return the number of a layout, a new one if it is met for the first time."""
        known = self._index.get((stays, came))
        if known is None:
            known = self._index[stays, came] = len(self._layouts)
            self._layouts.append((stays, came))
            number = [[num_fitting_slices(stays, came, kind) for kind in range(len(SLICES))]]
            self.num_fitting = np.concatenate([self.num_fitting, np.array(number, dtype=np.int64)])
        return known

    def of_masks(self, masks: NDArray[np.int16]) -> Ints:
        """Return the layouts of GPUs with slices of running tasks only, in the shape of `masks`."""
        distinct, position = np.unique(masks, return_inverse=True)
        numbers = np.array([self.index_of(int(mask)) for mask in distinct], dtype=np.int64)
        return numbers[position.reshape(masks.shape)]

    def after(self, layout: int, kind: int, start: int | None, times: int) -> int:
        """Return the layout once a slice is added (`times` 1) or removed (-1).

        `start` is the place of a running task's slice, None for an arriving one.
        """
        stays, came = self._layouts[layout]
        if start is None:
            return self.index_of(stays, _with(came, kind, times))
        mask = mask_of(kind, start)
        return self.index_of(stays | mask if times > 0 else stays & ~mask, came)

    def fits(self, layout: int, kind: int, start: int | None) -> bool:
        """Whether a GPU can take one more slice, at `start` if one is given."""
        stays, came = self._layouts[layout]
        if start is None:
            return bool(self.num_fitting[layout, kind])
        mask = mask_of(kind, start)
        return not stays & mask and slice_starts(stays | mask, came) is not None

    def starts(self, layout: int) -> tuple[tuple[int, int], ...]:
        """Return a place, as (kind, start), for each arriving slice of a layout."""
        stays, came = self._layouts[layout]
        found = slice_starts(stays, came)
        if found is None:
            raise ValueError(f"layout {stays, came} is impossible; expected slices that fit")
        return found

    def mask(self, layout: int) -> int:
        """Return the mask of all slices of a layout, arriving ones in the places of `starts`."""
        stays, _ = self._layouts[layout]
        for kind, start in self.starts(layout):
            stays |= mask_of(kind, start)
        return stays


# `GpuPartDemands` has what the shapes of a round ask for, `GpuPartState` what the GPUs of a
# placement have left. Both exist only in rounds where a task asks for GPU memory or a slice. A
# slice as large as a GPU needs neither: it is a task of a whole GPU, on hosts whose GPUs support
# MIG.


@dataclass(frozen=True, eq=False, slots=True)
class GpuPartDemands:
    """What tasks of each shape ask of GPUs beside milli-GPU."""

    memory: Ints  # (shapes,): MiB of each GPU
    # (shapes, products + 1): Kind of slice (an index into `topology.mig.SLICES`) that a task is on
    # GPUs of each product, -1 if none; the last column, all -1, is for GPUs without MIG
    slice_kind: Ints
    is_slice: Bools  # (shapes,): Whether a task is a slice smaller than a GPU
    product: NDArray[np.int32]  # (hosts,): Product of each host's GPUs
    layouts: Layouts

    def slice_kind_on(self, shape: int, host: int) -> int:
        """Return the kind of slice that a task is on a host, -1 if none."""
        return int(self.slice_kind[shape, self.product[host]])

    def charge(
        self, state: State, shape: int, host: int, gpu: int, start: int | None, times: int
    ) -> None:
        """Charge one task to a GPU of a state (`times` 1), or release it (-1).

        `gpu` is the index in the cluster, `start` the memory slice at which a MIG slice begins.
        """
        if state.gpu_memory is not None:
            state.gpu_memory[gpu] -= times * self.memory[shape]
        if state.slices is not None and self.is_slice[shape] and start is not None:
            mask = mask_of(self.slice_kind_on(shape, host), start)
            state.slices[gpu] = state.slices[gpu] | mask if times > 0 else state.slices[gpu] & ~mask


def slice_kinds(profile: str | None) -> list[int]:
    """Return the kind of slice of a MIG profile by product; -1 where it does not exist."""
    kinds = [product.profiles.get(profile, NO_MIG) if profile else NO_MIG for product in PRODUCTS]
    return [*kinds, NO_MIG]


class GpuPartState:
    """What each GPU has left beside milli-GPU; arrays (hosts, most GPUs of a host).

    `memory` is free MiB, `layout` that of MIG slices (an index of `Layouts`), `FREE` without
    slices.
    """

    def __init__(
        self, sharing: GpuPartDemands, cluster: Cluster, state: State, exists: Bools
    ) -> None:
        self.demands = sharing
        self._host_memory = cluster.gpu_memory
        self.memory = np.where(exists, cluster.gpu_memory[:, None], 0)
        self.layout = np.zeros(exists.shape, dtype=np.int64)
        if state.gpu_memory is not None:
            self.memory[exists] = state.gpu_memory
        if state.slices is not None:
            self.layout[exists] = sharing.layouts.of_masks(state.slices)

    def restricts(self, shape: int) -> bool:
        """Whether memory or slices, besides milli-GPU, limit how many tasks fit a GPU."""
        return bool(self.demands.is_slice[shape] or self.demands.memory[shape])

    def fits_free_gpu(self, shape: int, milli: int) -> Ints:
        """Return how many tasks of a share fit a wholly free GPU of each host, int64 (hosts,)."""
        if self.demands.is_slice[shape]:
            kind = self.demands.slice_kind[shape][self.demands.product]
            return np.where(kind >= 0, self.demands.layouts.num_fitting[FREE][kind], 0)
        memory: Ints = self._host_memory // self.demands.memory[shape]
        return np.minimum(memory, WHOLE_GPU // milli)

    def fits_partial_gpus(
        self, shape: int, milli: int, partial: Ints, hosts: Ints | slice | int
    ) -> Ints:
        """Return how many tasks of a share fit each partly used GPU of some hosts.

        `partial` has the free milli-GPU of the GPUs that may be shared, (hosts, most GPUs of a
        host).
        """
        layout = self.layout[hosts]
        if self.demands.is_slice[shape]:
            kind = np.asarray(self.demands.slice_kind[shape][self.demands.product[hosts]])
            number = self.demands.layouts.num_fitting[layout, kind[..., None]]
            return np.where((kind[..., None] >= 0) & (layout != FREE), number, 0)
        memory: Ints = self.memory[hosts] // self.demands.memory[shape]
        return np.minimum(memory, partial // milli)

    def charge(self, shape: int, host: int, gpu: int, start: int | None, times: int) -> None:
        """Charge one task to a GPU of a host (`times` 1), or release it (-1).

        `start` is where the slice of a running task begins; an arriving slice has none yet.
        """
        self.memory[host, gpu] -= times * self.demands.memory[shape]
        if self.demands.is_slice[shape]:
            kind = self.demands.slice_kind_on(shape, host)
            layout = int(self.layout[host, gpu])
            self.layout[host, gpu] = self.demands.layouts.after(layout, kind, start, times)

    def fits(self, shape: int, host: int, gpu: int, start: int | None, free: int) -> bool:
        """Whether a GPU has the memory, and the memory slices, for one more task.

        `free` is its free milli-GPU: one in part use without slices holds shares.
        """
        if self.memory[host, gpu] < self.demands.memory[shape]:
            return False
        sliced = bool(self.layout[host, gpu] != FREE)
        if not self.demands.is_slice[shape]:
            return not sliced
        if not sliced and free < WHOLE_GPU:
            return False
        kind = self.demands.slice_kind_on(shape, host)
        return self.demands.layouts.fits(int(self.layout[host, gpu]), kind, start)
