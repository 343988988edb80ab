"""A lower bound on `stranded` (fragmentation) without a solver.

Arrivals never increase what is useful to a kind, so on a host where a milli-GPU arrive what is
stranded for kind k falls by no more than a, nor below zero:

    fall of h   <=   sum_k weight[k] min(a, stranded(k, h))          concave in a
    stranded    >=   stranded before  -  max { sum_h fall of h : sum_h a[h] <= all that may arrive }

The maximum takes the steepest pieces first (fractional knapsack). Where running jobs may move,
"before" is without them, and all of them arrive.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import TaskMix

LARGEST = 1 << 62
"""Fragmentation of all kinds together is summed in 64 bits; beyond that the bound is 0."""


def stranded_lower_bound(problem: Problem) -> int:
    """Return a lower bound on `stranded` over all plans."""
    tuning = parameters.PARAMETERS.bounds
    mix = TaskMix.of(problem)
    before = Placement(problem, cleared=True)
    gpus = before.arrivable_milli_gpu()
    model = problem.cluster.gpu_model.astype(np.int64)
    free_milli = before.free_milli_gpu
    if mix.total * max(int(free_milli.sum()), 1 << 9) > LARGEST:
        return 0
    hosts = np.flatnonzero(problem.open & (free_milli > 0))
    entered = np.zeros(problem.cluster.num_hosts, dtype=np.bool_)
    entered |= problem.shape_hosts[problem.shape_gpu > 0].any(axis=0)
    entered[problem.running_tasks[:, 2]] = True
    total, slopes, lengths = 0, [np.zeros(0)], [np.zeros(0)]
    weight = np.append(mix.weight, mix.total - mix.weight.sum())
    for first in range(0, len(hosts), tuning.hosts_per_chunk):
        some = hosts[first : first + tuning.hosts_per_chunk]
        free = free_milli[some]
        useful = mix.useful(before.free[some], gpus[some], model[some])
        stranded = np.column_stack([free[:, None] - useful, free])
        total += int((stranded @ weight).sum())
        stranded = stranded[entered[some]]
        order = np.argsort(stranded, axis=1)
        ascending = np.take_along_axis(stranded, order, axis=1)
        # Beyond what is stranded for a kind, it falls no further.
        behind = np.cumsum(weight[order][:, ::-1], axis=1)[:, ::-1]
        slopes.append(behind.ravel().astype(np.float64))
        lengths.append(np.diff(ascending, axis=1, prepend=0).ravel().astype(np.float64))
    return max(total - _steepest(np.concatenate(slopes), np.concatenate(lengths), problem), 0)


def _steepest(slopes: np.ndarray, lengths: np.ndarray, problem: Problem) -> int:
    """Return the largest fall within the milli-GPU that may arrive."""
    arriving = sum(
        len(c.jobs) * max(problem.demand_of(choice, -1) for choice in c.choices)
        for c in problem.classes
    )
    order = np.argsort(-slopes, kind="stable")
    taken = np.diff(np.minimum(np.cumsum(lengths[order]), arriving), prepend=0.0)
    # Whole numbers up to 2 ** 53, exact as floats: their products are summed as integers.
    return int(taken.astype(np.int64) @ slopes[order].astype(np.int64))
