"""Best fit in file order, for running jobs of traces that record no hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints
from placewright.topology.units import WHOLE_GPU


@dataclass(slots=True)
class Hosts:
    """Residual capacity of each host, which `place` reduces.

    `gpu_free` is (hosts, most GPUs of a host) in milli-GPU, 0 where a host has fewer GPUs;
    `cpu` is in millicores, `memory` in MiB; `rank` orders hosts that are equally good otherwise.
    """

    gpu_free: Ints
    cpu: Ints
    memory: Ints
    rank: Ints

    def place(
        self, gpus: int, milli: int, cpu: int, memory: int, allowed: npt.NDArray[np.bool_]
    ) -> tuple[int, tuple[int, ...]] | None:
        """Place one task on the fitting host with the least GPU left, then the least CPU left.

        A share (`milli` below 1000 of one GPU) goes to the fitting GPU with the least left, whole
        GPUs to the lowest free indices. Returns host and GPU indices, None if it fits nowhere.
        """
        fits = (
            allowed
            & (self.cpu >= cpu)
            & (self.memory >= memory)
            & ((self.gpu_free >= milli).sum(axis=1) >= gpus)
        )
        hosts = np.flatnonzero(fits)
        if not hosts.size:
            return None
        left = self.gpu_free[hosts].sum(axis=1)
        host = int(hosts[np.lexsort((self.rank[hosts], self.cpu[hosts], left))[0]])
        free = self.gpu_free[host]
        fitting = np.flatnonzero(free >= milli)
        chosen = fitting[np.argsort(free[fitting], kind="stable")[:gpus]]
        free[chosen] -= milli
        self.cpu[host] -= cpu
        self.memory[host] -= memory
        return host, tuple(sorted(chosen.tolist()))


def tie_rank(hosts: int, seed: int) -> Ints:
    """Return the order in which hosts that tie are taken: the file's for seed 0, else random."""
    if seed == 0:
        return np.arange(hosts)
    return np.argsort(np.random.Generator(np.random.PCG64(seed)).random(hosts), kind="stable")


def whole_gpus(count: Ints) -> Ints:
    """Return the free milli-GPUs (hosts, most GPUs of a host) of empty hosts."""
    return np.where(np.arange(count.max(initial=0)) < count[:, None], WHOLE_GPU, 0)
