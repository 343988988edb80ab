"""GPU parts in the host-indexed model: shares with memory, and MIG slices.

Shares of equal milli-GPU and memory are one **part**, counted by b[i,part]; a MIG slice of kind k
has a 0/1 variable b[i,k,start] for each start that is free on slot i.

    memory   sum_part memory b[i,part] + sum of what stays   <=  free memory of slot i
    slice    sum over slices on memory slice m of 1000 b[i,k,start]
             + 1000 w[i] + sum milli b[i,part] + what stays  <=  1000         m = 0 ... 7
    media    slices with media extensions on slot i          <=  1

A share takes its milli-GPU of every memory slice, so that none fits beside a MIG slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.mig_layouts import mask_of
from placewright.topology.mig import COMPUTE_SLICES, MEMORY_SLICES, SLICES
from placewright.topology.units import WHOLE_GPU

UNCUT = -1
"""Instead of a mask: a GPU that holds shares, or cannot be cut."""


@dataclass(frozen=True, eq=False, slots=True)
class ShareTypes:
    """The distinct shares, by milli-GPU and memory, that shapes of the model ask for.

    Where jobs run, who may have whose GPU depends on the rank of a task: shares differ by it, too.

    Attributes
    ----------
    milli, memory, rank : milli-GPU, MiB and rank of each; where no job runs, all ranks are 0
    of_shape : share of each shape, -1 for whole GPUs and slices
    """

    milli: Ints
    memory: Ints
    rank: Ints
    of_shape: Ints

    @classmethod
    def of(cls, m: HostModel, shapes: Ints) -> ShareTypes:
        """Return the distinct shares among some shapes."""
        problem, sharing = m.problem, m.problem.part_demands
        shapes = np.unique(shapes[problem.is_share[shapes]])
        memory = np.zeros(len(problem.shape_gpu), dtype=np.int64)
        if sharing is not None:
            shapes, memory = shapes[~sharing.is_slice[shapes]], sharing.memory
        rank = problem.shape_rank * bool(len(m.stays.s))
        asked = np.column_stack([problem.shape_gpu[shapes], memory[shapes], rank[shapes]])
        distinct, part = np.unique(asked, axis=0, return_inverse=True)
        of_shape = np.full(len(problem.shape_gpu), -1, dtype=np.int64)
        of_shape[shapes] = part.reshape(-1)
        return cls(distinct[:, 0], distinct[:, 1], distinct[:, 2], of_shape)

    def keys(self, m: HostModel) -> Ints:
        """Return the key of each x; meaningless for tasks of whole GPUs."""
        keys: Ints = self.of_shape[m.x_shape]
        sharing = m.problem.part_demands
        if sharing is not None:
            sliced = np.flatnonzero(sharing.is_slice[m.x_shape])
            hosts = m.hosts[m.x_host[sliced]]
            keys[sliced] = ~sharing.slice_kind[m.x_shape[sliced], sharing.product[hosts]]
        return keys

    def key(self, m: HostModel, shape: int, host: int) -> int:
        """Return the key of a shape on a host: its share, or ~ its kind of slice."""
        if m.problem.part_demands is not None and m.problem.part_demands.is_slice[shape]:
            return ~m.problem.part_demands.slice_kind_on(shape, host)
        return int(self.of_shape[shape])


@dataclass(frozen=True, eq=False, slots=True)
class SlotLimits:
    """What GPU slots have besides milli-GPU: free MiB, and the mask of their slices."""

    memory: Ints
    taken: Ints

    @classmethod
    def of(cls, m: HostModel, host: Ints, gpu: Ints, free: Ints) -> SlotLimits:
        """Look up slots by host (position in the model) and GPU (negative: any free one)."""
        parts, hosts = m.placement.part_state, m.hosts[host]
        if parts is None:
            zeros = np.zeros(len(host), dtype=np.int64)
            return cls(zeros, zeros + UNCUT)
        memory = np.where(
            gpu >= 0, parts.memory[hosts, gpu], m.problem.cluster.gpu_memory[hosts]
        ).astype(np.int64)
        layout = np.where(gpu >= 0, parts.layout[hosts, gpu], 0)
        taken = np.array([parts.demands.layouts.mask(i) for i in layout.tolist()], dtype=np.int64)
        return cls(memory, np.where((taken > 0) | (free == WHOLE_GPU), taken, UNCUT))


@dataclass(frozen=True, eq=False, slots=True)
class PartVariables:
    """The variables b: columns, slot, key, milli-GPU, and the start of slices (-1: a share)."""

    b: Ints
    slot: Ints
    key: Ints
    milli: Ints
    start: Ints


def add_part_variables(
    m: HostModel, parts: ShareTypes, x_key: Ints, host: Ints, free: Ints, limits: SlotLimits
) -> PartVariables:
    """Append b for all shares on slots where they fit, and for all slices that a task may be."""
    fits = (free[:, None] >= parts.milli) & (limits.memory[:, None] >= parts.memory)
    slot, part = np.nonzero(fits & (limits.taken <= 0)[:, None])
    most = free[slot] // parts.milli[part] if len(part) else np.zeros(0, dtype=np.int64)
    asks = parts.memory[part] > 0
    most[asks] = np.minimum(most, limits.memory[slot] // np.maximum(parts.memory[part], 1))[asks]
    wanted = set(zip(m.x_host[x_key < 0].tolist(), (~x_key[x_key < 0]).tolist(), strict=True))
    kinds: dict[int, list[int]] = {}
    for at, kind in sorted(wanted):
        kinds.setdefault(at, []).append(kind)
    slices = [
        (i, kind, start)
        for i, (at, taken) in enumerate(zip(host.tolist(), limits.taken.tolist(), strict=True))
        if taken != UNCUT
        for kind in kinds.get(at, ())
        for start in SLICES[kind].starts
        if not taken & mask_of(kind, start)
    ]
    cut_slot, kind, start = np.array(slices, dtype=np.int64).reshape(-1, 3).T
    compute = np.array([one.compute for one in SLICES], dtype=np.int64)
    b = m.model.variables("b", len(slot) + len(kind), upper=np.append(most, np.ones(len(kind))))
    return PartVariables(
        b,
        np.append(slot, cut_slot),
        np.append(part, ~kind),
        np.append(parts.milli[part], WHOLE_GPU * compute[kind] // COMPUTE_SLICES),
        np.append(np.full(len(slot), -1), start),
    )


def add_part_rows(
    m: HostModel,
    limits: SlotLimits,
    parts: ShareTypes,
    cuts: PartVariables,
    uses: tuple[Ints, Ints, Ints],
    stays: NDArray[np.int64],
) -> None:
    """Append the rows on memory and on memory slices.

    `uses` are slot, column and milli-GPU of all that uses a slot; the last of them belong to the
    running tasks in the places `stays`.
    """
    sharing = m.problem.part_demands
    if sharing is None:
        return
    use_slot, use, _ = uses
    first_stay = len(use) - len(stays)
    share = np.flatnonzero(cuts.start < 0)
    memory = np.zeros(len(use), dtype=np.int64)
    memory[share] = parts.memory[cuts.key[share]]
    memory[first_stay:] = sharing.memory[m.stay_shape[stays]]
    asks = np.flatnonzero(memory)
    mine, row_of = np.unique(use_slot[asks], return_inverse=True)
    rows = m.model.rows("memory", len(mine), upper=limits.memory[mine])
    m.model.add(rows[row_of], use[asks], memory[asks])
    _slices(m, cuts, uses, stays)


def _slices(m: HostModel, cuts: PartVariables, uses: tuple[Ints, Ints, Ints], stays: Ints) -> None:
    """Append the rows on memory slices and media extensions."""
    use_slot, use, use_milli = uses
    first_stay = len(use) - len(stays)
    masks = np.zeros(len(use), dtype=np.int64)
    cut = np.flatnonzero(cuts.start >= 0)
    masks[cut] = [mask_of(~k, s) for k, s in zip(cuts.key[cut], cuts.start[cut], strict=True)]
    for i, p in enumerate(stays.tolist()):
        masks[first_stay + i] = stay_mask(m, p)
    for mine in [np.flatnonzero(use_slot == i) for i in np.unique(use_slot[masks > 0]).tolist()]:
        for bit in range(MEMORY_SLICES):
            on = masks[mine] >> bit & 1 > 0
            if not on.any():
                continue
            takes = np.where(masks[mine] > 0, WHOLE_GPU * on, use_milli[mine])
            row = m.model.rows("slice", 1, upper=WHOLE_GPU)
            m.model.add(row[[0] * len(mine)], use[mine], takes)
        media = mine[masks[mine] >> MEMORY_SLICES > 0]
        row = m.model.rows("media", 1, upper=1.0)
        m.model.add(row[[0] * len(media)], use[media], 1.0)


def stay_mask(m: HostModel, place: int) -> int:
    """Return the mask of the slice in a place of a running job; 0 if it is none."""
    sharing, slot = m.problem.part_demands, m.stays.slot[place]
    shape = int(m.stay_shape[place])
    if sharing is None or slot is None or not sharing.is_slice[shape]:
        return 0
    return mask_of(sharing.slice_kind_on(shape, int(m.hosts[m.stays.host[place]])), slot)
