"""The kinds of GPU parts in the aggregate model: shares by milli-GPU and memory, MIG slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

A_SHARE = -1
"""Instead of a kind of slice."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuPartTypes:
    """The kinds of GPU parts that shapes ask for: shares first, then slices.

    Attributes
    ----------
    milli, memory : int64 (parts,)
        Milli-GPU, and MiB of GPU memory (0 for slices).
    kind : int64 (parts,)
        Kind of slice (an index into `topology.mig.SLICES`), `A_SHARE` for shares.
    of : int64 (shapes, products + 1)
        Part that a shape asks for on GPUs of a product (last: without MIG), -1 if none.
    """

    milli: Ints
    memory: Ints
    kind: Ints
    of: Ints

    def __len__(self) -> int:
        return len(self.milli)

    @classmethod
    def of_problem(cls, problem: Problem) -> Self:
        """Return the kinds of parts that the shapes of a problem ask for."""
        sharing = problem.part_demands
        of = np.full((len(problem.shape_gpu), len(PRODUCTS) + 1), -1, dtype=np.int64)
        memory = np.zeros_like(problem.shape_gpu) if sharing is None else sharing.memory
        shares = np.flatnonzero(problem.is_share)
        if sharing is not None:
            shares = shares[~sharing.is_slice[shares]]
        asked = np.column_stack([problem.shape_gpu[shares], memory[shares]])
        distinct, part = np.unique(asked, axis=0, return_inverse=True)
        of[shares] = part.reshape(-1, 1)
        kinds = np.zeros(0, dtype=np.int64)
        if sharing is not None:
            sliced = sharing.is_slice[:, None] & (sharing.slice_kind != NO_MIG)
            kinds = np.unique(sharing.slice_kind[sliced])
            of[sliced] = len(distinct) + np.searchsorted(kinds, sharing.slice_kind[sliced])
        compute = np.array([one.compute for one in SLICES], dtype=np.int64)
        return cls(
            np.append(distinct[:, 0], WHOLE_GPU * compute[kinds] // COMPUTE_SLICES),
            np.append(distinct[:, 1], np.zeros_like(kinds)),
            np.append(np.full(len(distinct), A_SHARE), kinds),
            of,
        )
