"""Drops of replicas that nobody needs, where a region holds more than its share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.problem.objective import imbalance_of
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Draft


def balanced(problem: Problem, draft: Draft) -> Draft:
    """Return a draft with as many drops as make `imbalance` fall, the largest first.

    A replica goes only if another one is complete or comes, and nobody reads it in its region or
    reads its group from afar.
    """
    replicas = draft.replicas.copy()
    jobs = draft.jobs.sum(axis=2)[problem.read_workload]
    near = np.where(replicas[problem.read_group], jobs, 0).sum(axis=1)
    far = np.zeros(problem.groups, dtype=np.bool_)
    far[problem.read_group[near < problem.count[problem.read_workload]]] = True
    idle = replicas & problem.now & ~problem.fixed & ~draft.read(problem) & ~far[:, None]
    used = replicas.T.astype(np.int64) @ problem.size
    best = imbalance_of(used, problem.storage)
    p, r = np.nonzero(idle)
    order = np.argsort(-problem.size[p], kind="stable")
    for group, region in zip(p[order].tolist(), r[order].tolist(), strict=True):
        if replicas[group].sum() < 2:
            continue
        used[region] -= problem.size[group]
        after = imbalance_of(used, problem.storage)
        if after < best:
            best = after
            replicas[group, region] = False
        else:
            used[region] += problem.size[group]
    return replace(draft, replicas=replicas)
