"""Drops of replicas without readers that lower `imbalance`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.problem.objective import imbalance_of
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution


def drop_idle_replicas(problem: Problem, solution: Solution) -> Solution:
    """Return a solution without idle replicas whose drop lowers `imbalance`, the largest first.

    A replica is idle if another one is complete or under way, and no job reads it in its region or
    reads its dataset class remotely.
    """
    replicas = solution.replicas.copy()
    jobs = solution.jobs.sum(axis=2)[problem.read_class]
    near = np.where(replicas[problem.read_dataset_class], jobs, 0).sum(axis=1)
    far = np.zeros(problem.dataset_classes, dtype=np.bool_)
    far[problem.read_dataset_class[near < problem.count[problem.read_class]]] = True
    idle = (
        replicas & problem.current & ~problem.fixed & ~solution.local_reads(problem) & ~far[:, None]
    )
    used = replicas.T.astype(np.int64) @ problem.size
    best = imbalance_of(used, problem.storage)
    p, r = np.nonzero(idle)
    order = np.argsort(-problem.size[p], kind="stable")
    for dataset_class, region in zip(p[order].tolist(), r[order].tolist(), strict=True):
        if replicas[dataset_class].sum() < 2:
            continue
        used[region] -= problem.size[dataset_class]
        after = imbalance_of(used, problem.storage)
        if after < best:
            best = after
            replicas[dataset_class, region] = False
        else:
            used[region] += problem.size[dataset_class]
    return replace(solution, replicas=replicas)
