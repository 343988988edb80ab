"""MIG layouts: which slices a GPU holds and can still take, as a finite automaton.

A **layout** is a pair: the slices of running tasks that keep their place, as a mask (bit i is
memory slice i, bit 8 the media extensions), and the number of arriving slices of each kind.
Arriving slices get their place when the plan is written, so their order does not matter: they fit
as long as places for all of them exist together. States are numbered as they are met.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.topology.mig import MEMORY_SLICES, SLICES

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

    Attributes
    ----------
    num_fitting : int64 (layouts, kinds)
        How many more slices of one kind alone a GPU with the layout can take.
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

    def of_masks(self, masks: NDArray[np.int16]) -> NDArray[np.int64]:
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
