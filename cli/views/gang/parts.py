"""Parts of GPUs: which rectangle of each GPU each job holds.

Shares are stacked from below in proportion to their milli-GPU, a MIG slice lies where its memory
slices are, and jobs that take turns on a GPU stand side by side on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.topology.mig import MEMORY_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

ALONE = -1
NO_SLOT = -1


class SharingKind(StrEnum):
    """How jobs share a GPU: by shares of it, by its MIG slices, or by taking turns."""

    SHARES = "shares"
    SLICES = "slices"
    TURNS = "turns"


class Held(NamedTuple):
    """What one task holds of one GPU; sorts by the order in which parts of a GPU are drawn.

    Parameters
    ----------
    gpu
        Index in the order of `Cluster.gpu_start`.
    slot, slices
        First memory slice of a MIG slice, and how many it takes; else `NO_SLOT` and 0.
    turns
        Number of the group that takes turns on the GPU, or `ALONE`.
    arrives
        Whether the job starts or migrates: what was there before is drawn below it.
    job, milli
        Index of the job, and milli-GPU.
    """

    gpu: int
    slot: int
    turns: int
    arrives: bool
    job: int
    milli: int
    slices: int


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """Rectangles of GPUs that jobs hold, by GPU, from below and from the left.

    Parameters
    ----------
    gpu, job : int64 arrays (parts,)
        Index of the GPU in the order of `Cluster.gpu_start`, and of the job in `Occupancy.jobs`.
    milli : int64 array (parts,)
        Milli-GPU that the part adds to what is used of the GPU. A group that takes turns holds its
        GPUs once: its first member has all of it.
    left, right, low, high : float64 arrays (parts,)
        Sides of the rectangle as fractions of the GPU, `low` and `high` from below.
    """

    gpu: Ints
    job: Ints
    milli: Ints
    left: Floats
    right: Floats
    low: Floats
    high: Floats

    def used(self, gpus: int) -> Ints:
        """Return the milli-GPU in use of each of so many GPUs (gpus,)."""
        return np.bincount(self.gpu, weights=self.milli, minlength=gpus).astype(np.int64)

    @property
    def sharing(self) -> tuple[SharingKind, ...]:
        """The ways in which GPUs are shared."""
        height = self.high - self.low
        turns = self.right - self.left < 1
        slices = ~turns & (np.abs(WHOLE_GPU * height - self.milli) > 1)
        shares = ~turns & ~slices & (height < 1)
        found = {SharingKind.SHARES: shares, SharingKind.SLICES: slices, SharingKind.TURNS: turns}
        return tuple(way for way in SharingKind if found[way].any())


def parts_of(held: Iterable[Held]) -> Parts:
    """Return the rectangles of what tasks hold."""
    rows: list[tuple[float, ...]] = []
    for gpu, tasks in groupby(sorted(held), key=lambda task: task.gpu):
        bottom = 0
        for turns, members in groupby(tasks, key=lambda task: task.turns):
            sharing = list(members)
            if turns != ALONE:
                milli, size = sharing[0].milli, len(sharing)
                low, high = bottom / WHOLE_GPU, min((bottom + milli) / WHOLE_GPU, 1.0)
                rows += [
                    (gpu, task.job, 0 if i else milli, i / size, (i + 1) / size, low, high)
                    for i, task in enumerate(sharing)
                ]
                bottom += milli
                continue
            for task in sharing:
                if task.slot == NO_SLOT:
                    low, high = bottom / WHOLE_GPU, min((bottom + task.milli) / WHOLE_GPU, 1.0)
                    bottom += task.milli
                else:
                    low = task.slot / MEMORY_SLICES
                    high = (task.slot + task.slices) / MEMORY_SLICES
                rows.append((gpu, task.job, task.milli, 0.0, 1.0, low, high))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 7).T
    gpus, jobs, milli = columns[:3].astype(np.int64)
    return Parts(gpus, jobs, milli, *columns[3:])


def memory_slices(product: int, profile: str | None) -> int:
    """Return how many memory slices a MIG profile takes of such a GPU; 0 for what is none."""
    if profile is None or product == NO_MIG:
        return 0
    return SLICES[PRODUCTS[product].profiles[profile]].size
