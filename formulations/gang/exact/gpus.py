r"""GPUs in the host-indexed model: counted where all tasks take whole ones, told apart for shares.

    gpus    sum_t gpus(t) x[t,h]  <= whole free GPUs of h                 (hosts without shares)
    gpus    sum_t gpus(t) x[t,h]  <= sum_i w[i]                           (hosts with shares)
    gpu     1000 w[i] + sum_f f b[i,f] <= free milli-GPU of slot i
    share   sum_{t: share f} x[t,h] <= sum_{i on h} b[i,f]

A slot i is one GPU of a host with something free; b[i,f] is how many shares of f it takes. Running
tasks that stay count on the left of `gpus`, their shares on the left of their slot's `gpu`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.formulations.gang.exact.entries import Ints
from placewright.formulations.gang.exact.model import Exact, milli_each
from placewright.instances.documents import WHOLE_GPU

ANY_FREE = -1
"""Instead of a GPU's index: any of the host's wholly free GPUs."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuSlots:
    """The slots and the variables b.

    Attributes
    ----------
    host, gpu, free : per slot the host (position in the model), GPU or `ANY_FREE`, milli-GPU
    b, b_slot, b_fraction : columns of b, and the slot and fraction of each
    """

    host: Ints
    gpu: Ints
    free: Ints
    b: Ints
    b_slot: Ints
    b_fraction: Ints


def add_gpus(m: Exact) -> GpuSlots:
    """Append the rows of all GPUs."""
    gpu = m.problem.shape_gpu[m.x_shape]
    shared = (gpu > 0) & (gpu < WHOLE_GPU)
    stay_gpu = milli_each(m)
    stay_shared = (stay_gpu > 0) & (stay_gpu < WHOLE_GPU)
    sharing = np.union1d(m.x_host[shared], m.stays.host[stay_shared])
    slots = _slots(m, sharing, np.unique(gpu[shared]), np.flatnonzero(stay_shared))
    w = _cut(m, slots, np.flatnonzero(stay_shared))
    whole, stay_whole = np.flatnonzero(gpu >= WHOLE_GPU), np.flatnonzero(stay_gpu >= WHOLE_GPU)
    used = np.union1d(m.x_host[whole], m.stays.host[stay_whole])
    plain = np.setdiff1d(used, sharing)
    row = np.full(len(m.hosts), -1, dtype=np.int64)
    row[plain] = m.model.rows("gpus", len(plain), upper=m.placement.whole[m.hosts[plain]])
    row[sharing] = m.model.rows("gpus", len(sharing), upper=0.0)
    m.model.add(row[m.x_host[whole]], m.x[whole], gpu[whole] // WHOLE_GPU)
    held = m.stays.usable[stay_whole]
    m.model.add(row[m.stays.host[stay_whole]], m.stays.s[stay_whole], held)
    m.model.add(row[slots.host[slots.free == WHOLE_GPU]], w, -1.0)
    for fraction in np.unique(gpu[shared]):
        row[sharing] = m.model.rows("share", len(sharing), upper=0.0)
        asked, given = np.flatnonzero(gpu == fraction), np.flatnonzero(slots.b_fraction == fraction)
        m.model.add(row[m.x_host[asked]], m.x[asked], 1.0)
        m.model.add(row[slots.host[slots.b_slot[given]]], slots.b[given], -1.0)
    return slots


def _slots(m: Exact, sharing: Ints, fractions: Ints, held: Ints) -> GpuSlots:
    """`held` are the places in which a running job has a share of a GPU."""
    named: dict[int, set[int]] = {at: set() for at in sharing.tolist()}
    for p in held[m.stays.usable[held] > 0].tolist():
        named[int(m.stays.host[p])].update(m.stays.gpus[p])
    slots: list[tuple[int, int, int]] = []
    for at in sharing.tolist():
        host = m.hosts[at]
        partial = m.placement.partial[host]
        known = named[at] | set(np.flatnonzero(partial).tolist())
        free = {i: int(partial[i]) or WHOLE_GPU for i in sorted(known)}
        # A GPU whose shares may all leave is wholly free in the placement.
        unnamed = int(m.placement.whole[host]) - sum(not partial[i] for i in free)
        slots += [(at, i, milli) for i, milli in free.items()]
        slots += [(at, ANY_FREE, WHOLE_GPU)] * unnamed
    host, gpu, free_milli = np.array(slots, dtype=np.int64).reshape(-1, 3).T
    b_slot, which = np.nonzero(free_milli[:, None] >= fractions)
    most = free_milli[b_slot] // fractions[which] if len(which) else np.zeros(0)
    b = m.model.variables("b", len(b_slot), upper=most)
    return GpuSlots(host, gpu, free_milli, b, b_slot, fractions[which])


def _cut(m: Exact, slots: GpuSlots, held: Ints) -> Ints:
    """Shares and whole use of a GPU within what it has free; returns the columns w."""
    free = np.flatnonzero(slots.free == WHOLE_GPU)
    w = m.model.variables("w", len(free), upper=1)
    rows = m.model.rows("gpu", len(slots.free), upper=slots.free)
    m.model.add(rows[slots.b_slot], slots.b, slots.b_fraction)
    m.model.add(rows[free], w, WHOLE_GPU)
    row_of = {(h, g): r for h, g, r in zip(slots.host, slots.gpu, rows, strict=True)}
    held = held[m.stays.usable[held] > 0]
    mine = [row_of[m.stays.host[p], m.stays.gpus[p][0]] for p in held.tolist()]
    m.model.add(mine, m.stays.s[held], milli_each(m)[held])
    return w
