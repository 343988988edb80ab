"""State of a cluster: free capacity, health, and hosts in use, which change with each round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placewright.topology.cluster import Cluster
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """The mutable state of a cluster; its owner may write the arrays.

    Parameters
    ----------
    free : int64 array (hosts, resources)
        Free capacity per host, in the units of `Cluster.capacity`.
    gpu_free : int32 array (gpus,)
        Free milli-GPU of each GPU, 0 to 1000; the order is that of `Cluster.gpu_start`.
    healthy : bool array (hosts,)
        False where nothing may be placed.
    busy : bool array (hosts,)
        True where some task runs.
    gpu_memory : int64 array (gpus,) or None
        Free MiB of each GPU. None: nobody asks, all are as the cluster has them.
    slices : int16 array (gpus,) or None
        What MIG slices take of each GPU: bit i is memory slice i, bit 8 the media extensions. None:
        there are no slices.
    """

    free: NDArray[np.int64]
    gpu_free: NDArray[np.int32]
    healthy: NDArray[np.bool_]
    busy: NDArray[np.bool_]
    gpu_memory: NDArray[np.int64] | None = None
    slices: NDArray[np.int16] | None = None

    @classmethod
    def empty(cls, cluster: Cluster) -> State:
        """Return the state in which every host is healthy and nothing runs."""
        return cls(
            free=cluster.capacity.copy(),
            gpu_free=np.full(cluster.num_gpus, WHOLE_GPU, dtype=np.int32),
            healthy=np.ones(cluster.num_hosts, dtype=np.bool_),
            busy=np.zeros(cluster.num_hosts, dtype=np.bool_),
        )

    @classmethod
    def shared(cls, cluster: Cluster) -> State:
        """Return the empty state of a cluster with the memory and the slices of its GPUs."""
        return replace(
            cls.empty(cluster),
            gpu_memory=np.repeat(cluster.gpu_memory, cluster.gpu_count),
            slices=np.zeros(cluster.num_gpus, dtype=np.int16),
        )

    def copy(self) -> State:
        """Return a state that shares no array with this one."""
        return State(
            self.free.copy(),
            self.gpu_free.copy(),
            self.healthy.copy(),
            self.busy.copy(),
            None if self.gpu_memory is None else self.gpu_memory.copy(),
            None if self.slices is None else self.slices.copy(),
        )

    def whole_free(self, cluster: Cluster) -> NDArray[np.int32]:
        """Return per host how many of its GPUs are wholly free, whether it is healthy or not."""
        free_before = np.zeros(cluster.num_gpus + 1, dtype=np.int32)
        np.cumsum(self.gpu_free == WHOLE_GPU, out=free_before[1:])
        return np.diff(free_before[cluster.gpu_start])
