"""Rounds where only whole GPUs in powers of two are scarce: the model by sums is exact for hosts.

Tasks of such sizes, placed largest first, fit a host whenever its `floor` rows allow them. So
patterns of hosts would add nothing, and even a small round needs no variable per host.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU


def only_powers_of_two(problem: Problem) -> bool:
    """Whether nothing runs that may move, and only powers of two of whole GPUs are scarce."""
    gpu = problem.shape_gpu
    whole = gpu // WHOLE_GPU
    if problem.running or not len(gpu) or (gpu % WHOLE_GPU).any() or (whole & (whole - 1)).any():
        return False
    if not whole.all() or problem.part_demands is not None:
        return False
    most = problem.cleared.whole_free(problem.cluster).astype(np.int64)
    for r, free in enumerate(problem.cleared.free.T):
        # Of all shapes the one that asks for most beside each GPU, on all GPUs of a host.
        hungriest = int((problem.shape_demand[:, r] / whole).argmax())
        if (problem.shape_demand[hungriest, r] * most > free * whole[hungriest]).any():
            return False
    return True
