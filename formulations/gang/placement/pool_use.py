"""What placed jobs take of pools, and the repair of placements that take too much."""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement
from placewright.formulations.gang.problem.pools import Pool
from placewright.formulations.gang.problem.problem import Problem


def use_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> dict[int, int]:
    """Return what a placed job takes of each domain of a pool where it takes something."""
    choice = problem.classes[start.job_class].choices[start.choice]
    return pool.taken(choice, ((put.group, put.host, put.count) for put in start.tasks))


def taken_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> Ints:
    """Return what a placed job takes of each domain of a pool, int64 (domains,)."""
    taken = np.zeros(len(pool.limit), dtype=np.int64)
    for d, amount in use_of_pool(problem, pool, start).items():
        taken[d] = amount
    return taken


def more_of_pool(problem: Problem, pool: Pool, start: JobPlacement) -> set[int]:
    """Return the domains of a pool of which a job takes more than before the round."""
    taken = use_of_pool(problem, pool, start)
    before: dict[int, int] = {}
    if start.job != ANY_JOB:
        before = use_of_pool(problem, pool, problem.running_placement_of[start.job])
    return {d for d, amount in taken.items() if amount > before.get(d, 0)}


def stop_beyond_pools(placement: Placement) -> None:
    """Stop what starts or migrates, the last first, where too much is taken of a pool.

    What has migrated stops only where no start is in the way.
    """
    problem, pools = placement.problem, placement.pools
    if not any((left < 0).any() for left in pools.left):
        return
    changed = sorted(placement.changed(), key=lambda s: (s[1].job == ANY_JOB, s[0]))
    for number, start in reversed(changed):
        if any(
            left[d] < 0
            for pool, left in zip(pools.pools, pools.left, strict=True)
            for d in use_of_pool(problem, pool, start)
        ):
            placement.stop(number)
