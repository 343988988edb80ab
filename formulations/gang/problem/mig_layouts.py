"""What MIG slices do to a GPU: a finite machine whose states are numbered as they are met.

A **layout** is what stays where it is (a mask: bit i is memory slice i, bit 8 the media extensions)
and how many slices of each kind have come. Where those lie is left open until the plan is written,
so that their order costs nothing: they fit as long as some places for all of them exist together.
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
    """Return what a slice takes of a GPU."""
    one = SLICES[kind]
    return ((1 << one.size) - 1) << start | one.media << MEMORY_SLICES


@cache
def slice_starts(taken: int, came: SliceCounts) -> tuple[tuple[int, int], ...] | None:
    """Return a (kind, start) for each slice that came, beside what is taken; None if impossible."""
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
    """Return how many more slices of a kind a GPU can take."""
    room = 0
    while slice_starts(taken, _with(came, kind, room + 1)) is not None:
        room += 1
    return room


@cache
def maximal_slice_sets(taken: int, kinds: tuple[int, ...]) -> tuple[SliceCounts, ...]:
    """Return the sets of slices of some kinds that a GPU can take, but for parts of others."""
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
    return (*came[:kind], came[kind] + more, *came[kind + 1 :])


class Layouts:
    """Numbers the layouts as they are met.

    Attributes
    ----------
    num_fitting : int64 (layouts, kinds)
        How many more slices of a kind alone a GPU can take.
    """

    def __init__(self) -> None:
        self._layouts: list[tuple[int, SliceCounts]] = []
        self._index: dict[tuple[int, SliceCounts], int] = {}
        self.num_fitting = np.zeros((0, len(SLICES)), dtype=np.int64)
        self.index_of(0)

    def index_of(self, stays: int, came: SliceCounts = _NONE) -> int:
        """Return the number of a layout."""
        known = self._index.get((stays, came))
        if known is None:
            known = self._index[stays, came] = len(self._layouts)
            self._layouts.append((stays, came))
            room = [[num_fitting_slices(stays, came, kind) for kind in range(len(SLICES))]]
            self.num_fitting = np.concatenate([self.num_fitting, np.array(room, dtype=np.int64)])
        return known

    def of_masks(self, masks: NDArray[np.int16]) -> NDArray[np.int64]:
        """Return the layouts of GPUs on which something stays and nothing came."""
        distinct, position = np.unique(masks, return_inverse=True)
        numbers = np.array([self.index_of(int(mask)) for mask in distinct], dtype=np.int64)
        return numbers[position.reshape(masks.shape)]

    def after(self, layout: int, kind: int, start: int | None, times: int) -> int:
        """Return the layout once a slice has come (1) or gone (-1); `start` if it stays there."""
        stays, came = self._layouts[layout]
        if start is None:
            return self.index_of(stays, _with(came, kind, times))
        mask = mask_of(kind, start)
        return self.index_of(stays | mask if times > 0 else stays & ~mask, came)

    def fits(self, layout: int, kind: int, start: int | None) -> bool:
        """Whether a GPU can take one more slice, at this start if one is given."""
        stays, came = self._layouts[layout]
        if start is None:
            return bool(self.num_fitting[layout, kind])
        mask = mask_of(kind, start)
        return not stays & mask and slice_starts(stays | mask, came) is not None

    def starts(self, layout: int) -> tuple[tuple[int, int], ...]:
        """Return a place, as (kind, start), for each slice that came."""
        stays, came = self._layouts[layout]
        found = slice_starts(stays, came)
        if found is None:
            raise ValueError(f"layout {stays, came} is impossible; expected slices that fit")
        return found

    def mask(self, layout: int) -> int:
        """Return what is taken, as a mask, with the places that `starts` names."""
        stays, _ = self._layouts[layout]
        for kind, start in self.starts(layout):
            stays |= mask_of(kind, start)
        return stays
