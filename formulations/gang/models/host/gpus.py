"""GPUs in the host-indexed model: counted per host for whole GPUs, slots of their own for shares.

    gpus    sum_t gpus(t) x[t,h]  <= whole free GPUs of h                 (hosts without shares)
    gpus    sum_t gpus(t) x[t,h]  <= sum_i w[i]                           (hosts with shares)
    gpu     1000 w[i] + sum_f f b[i,f] <= free milli-GPU of slot i
    share   sum_{t: share f} x[t,h] <= sum_{i on h} b[i,f]

A slot i is one GPU of a host with something free; b[i,f] is how many shares f it takes, w[i]
whether it is used whole. Running tasks that stay count on the left of `gpus` (without shares) or of
their slots' `gpu`. Shares with memory and MIG slices have more rows (gpu_parts.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.gpu_parts import (
    PartVariables,
    ShareTypes,
    SlotLimits,
    add_part_rows,
    add_part_variables,
)
from placewright.formulations.gang.models.host.model import HostModel, milli_each
from placewright.topology.units import WHOLE_GPU

ANY_FREE = -1
"""Instead of a GPU's index: any of the host's wholly free GPUs."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuSlots:
    """The slots and the variables b.

    Attributes
    ----------
    host, gpu, free : per slot the host (position in the model), GPU or `ANY_FREE`, milli-GPU
    parts : the distinct shares
    b, b_slot, b_key : columns of b, and the slot and key (see `ShareTypes.key`) of each
    use_slot, use, use_milli : slot, column and milli-GPU of all that uses a slot
    """

    host: Ints
    gpu: Ints
    free: Ints
    parts: ShareTypes
    b: Ints
    b_slot: Ints
    b_key: Ints
    use_slot: Ints
    use: Ints
    use_milli: Ints


def add_gpus(m: HostModel) -> GpuSlots:
    """Append the rows of all GPUs."""
    gpu, stay_gpu = m.problem.shape_gpu[m.x_shape], milli_each(m)
    shared, stay_shared = _is_share(gpu), _is_share(stay_gpu)
    sharing = np.union1d(m.x_host[shared], m.stays.host[stay_shared])
    named = np.flatnonzero((stay_gpu > 0) & np.isin(m.stays.host, sharing))
    host, gpu_of, free = _slots(m, sharing, named)
    parts = ShareTypes.of(m, m.x_shape)
    limits = SlotLimits.of(m, host, gpu_of, free)
    key = np.where(shared, parts.keys(m), 0)
    cuts = add_part_variables(m, parts, key, host, free, limits)
    w = m.model.variables("w", int((free == WHOLE_GPU).sum()), upper=1)
    *uses, staying = _uses(m, (host, gpu_of, free), cuts, w, named)
    slots = GpuSlots(host, gpu_of, free, parts, cuts.b, cuts.slot, cuts.key, *uses)
    add_part_rows(m, limits, parts, cuts, (slots.use_slot, slots.use, slots.use_milli), staying)
    m.model.add(
        m.model.rows("gpu", len(free), upper=free)[slots.use_slot], slots.use, slots.use_milli
    )
    whole = np.flatnonzero(gpu >= WHOLE_GPU)
    held = np.flatnonzero((stay_gpu >= WHOLE_GPU) & ~np.isin(m.stays.host, sharing))
    plain = np.setdiff1d(np.union1d(m.x_host[whole], m.stays.host[held]), sharing)
    row = np.full(len(m.hosts), -1, dtype=np.int64)
    row[plain] = m.model.rows("gpus", len(plain), upper=m.placement.whole[m.hosts[plain]])
    row[sharing] = m.model.rows("gpus", len(sharing), upper=0.0)
    m.model.add(row[m.x_host[whole]], m.x[whole], gpu[whole] // WHOLE_GPU)
    m.model.add(row[m.stays.host[held]], m.stays.s[held], m.stays.usable[held])
    m.model.add(row[host[free == WHOLE_GPU]], w, -1.0)
    for one in np.unique(key[shared]):
        row[sharing] = m.model.rows("share", len(sharing), upper=0.0)
        asked, given = np.flatnonzero(shared & (key == one)), np.flatnonzero(slots.b_key == one)
        m.model.add(row[m.x_host[asked]], m.x[asked], 1.0)
        m.model.add(row[slots.host[slots.b_slot[given]]], slots.b[given], -1.0)
    return slots


def _is_share(gpu: Ints) -> NDArray[np.bool_]:
    return (gpu > 0) & (gpu < WHOLE_GPU)


def _usable_gpus(m: HostModel, place: int) -> list[int]:
    """Return the GPUs of a place that are not reserved."""
    start = int(m.problem.cluster.gpu_start[m.hosts[m.stays.host[place]]])
    return [g for g in m.stays.gpus[place] if m.problem.usable[start + g]]


def _slots(m: HostModel, sharing: Ints, held: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the host, the GPU and the free milli-GPU of each slot.

    Slots are the GPUs in part use, those of the running tasks in the places `held`, and as many
    free ones as the host has, which are not named.
    """
    named: dict[int, set[int]] = {at: set() for at in sharing.tolist()}
    for p in held.tolist():
        named[int(m.stays.host[p])].update(_usable_gpus(m, p))
    slots: list[tuple[int, int, int]] = []
    for at in sharing.tolist():
        host = m.hosts[at]
        partial = m.placement.partial_free[host]
        known = named[at] | set(np.flatnonzero(partial).tolist())
        if m.placement.part_state is not None:
            known.update(np.flatnonzero(m.placement.part_state.layout[host]).tolist())
        # A GPU that all may leave is wholly free in the placement.
        free = {i: int(m.placement.gpu_free[host, i]) for i in sorted(known)}
        unnamed = int(m.placement.whole[host]) - sum(milli == WHOLE_GPU for milli in free.values())
        slots += [(at, i, milli) for i, milli in free.items()]
        slots += [(at, ANY_FREE, WHOLE_GPU)] * unnamed
    host_of, gpu, free_milli = np.array(slots, dtype=np.int64).reshape(-1, 3).T
    return host_of, gpu, free_milli


def _uses(
    m: HostModel,
    slots: tuple[Ints, Ints, Ints],
    cuts: PartVariables,
    w: Ints,
    held: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return slot, column and milli-GPU of all that uses a slot: b, w and what stays.

    The last array has the places of running tasks that stay.
    """
    host, gpu_of, free = slots
    whole = np.flatnonzero(free == WHOLE_GPU)
    slot_of = {(h, g): i for i, (h, g) in enumerate(zip(host, gpu_of, strict=True))}
    milli = np.minimum(milli_each(m), WHOLE_GPU)
    staying = [
        (slot_of[m.stays.host[p], gpu], m.stays.s[p], milli[p], p)
        for p in held.tolist()
        for gpu in _usable_gpus(m, p)
    ]
    stay_slot, stay, stay_milli, place = np.array(staying, dtype=np.int64).reshape(-1, 4).T
    return (
        np.concatenate([cuts.slot, whole, stay_slot]),
        np.concatenate([cuts.b, w, stay]),
        np.concatenate([cuts.milli, np.full(len(whole), WHOLE_GPU), stay_milli]),
        place,
    )
