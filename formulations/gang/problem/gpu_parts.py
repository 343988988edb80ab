"""Parts of GPUs beside milli-GPU: GPU memory and MIG slices, as demands and as what is left.

`GpuPartDemands` has what the shapes of a round ask for, `GpuPartState` what the GPUs of a placement
have left. Both exist only in rounds where a task asks for GPU memory or a slice. A slice as large
as a GPU needs neither: it is a task of a whole GPU, on hosts whose GPUs support MIG.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.mig_layouts import FREE, Layouts, mask_of
from placewright.topology import Cluster, State
from placewright.topology.mig import NO_MIG, PRODUCTS
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, eq=False, slots=True)
class GpuPartDemands:
    """What tasks of each shape ask of GPUs beside milli-GPU.

    Attributes
    ----------
    memory : int64 (shapes,)
        MiB of each GPU.
    slice_kind : int64 (shapes, products + 1)
        Kind of slice (an index into `topology.mig.SLICES`) that a task is on GPUs of each product,
        -1 if none; the last column, all -1, is for GPUs without MIG.
    is_slice : bool (shapes,)
        Whether a task is a slice smaller than a GPU.
    product : int32 (hosts,)
        Product of each host's GPUs.
    layouts : Layouts
    """

    memory: Ints
    slice_kind: Ints
    is_slice: NDArray[np.bool_]
    product: NDArray[np.int32]
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

    Attributes
    ----------
    memory : int64
        Free MiB.
    layout : int64
        Layout of MIG slices (an index of `Layouts`); `FREE` without slices.
    """

    def __init__(
        self, sharing: GpuPartDemands, cluster: Cluster, state: State, exists: NDArray[np.bool_]
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
