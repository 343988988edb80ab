"""What pools have left in the states that reasons to wait speak of (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.pools import PoolDomains, pools_of, running_places


@dataclass(frozen=True, eq=False, slots=True)
class PoolsLeft:
    """Pools in one state.

    Attributes
    ----------
    pools : tuple of PoolDomains
        All pools, those of the whole cluster among them.
    limit, left : tuple of int64 (domains,)
        By pool what jobs may hold of each domain, and what they may still take.
    """

    pools: tuple[PoolDomains, ...]
    limit: tuple[Ints, ...]
    left: tuple[Ints, ...]

    def of_problem(self, problem: Problem) -> tuple[Pool, ...]:
        """Return the pools of levels of a problem with what is left of them."""
        left = (left for pool, left in zip(self.pools, self.left, strict=True) if pool.pool.level)
        return tuple(replace(p, limit=mine) for p, mine in zip(problem.pools, left, strict=True))


class PoolStates:
    """What a plan's jobs leave of pools, beside some of them.

    A domain may go on holding what running jobs held of it before the round.
    """

    def __init__(self, problem: Problem, candidate: Candidate) -> None:
        self._cluster, self._jobs = problem.cluster, problem.round.jobs
        self._starts = candidate.starts
        pools = pools_of(problem.round, problem.cluster)
        capacity = tuple(pool.capacity for pool in pools)
        self.empty = PoolsLeft(pools, capacity, capacity)
        if not pools:
            return
        running = [j for j, job in enumerate(self._jobs) if job.running is not None]
        before = self._held_before(running)
        self._limit = tuple(map(np.maximum, capacity, before))
        leave = {*(j for j in candidate.starts if j in problem.running), *candidate.preempted}
        self._kept = self._held_before(j for j in running if j not in leave)
        self._moved = leave.difference(candidate.preempted)

    def beside(self, started: Iterable[int], victims: Iterable[int]) -> PoolsLeft:
        """Return what is left beside kept, migrated and some started jobs.

        That is also left beside the kept jobs and preempted ones that are back in their places.
        """
        pools = self.empty.pools
        if not pools:
            return self.empty
        after = self._held_after([*self._moved, *started])
        back = self._held_before(victims)
        each = zip(self._limit, self._kept, after, back, strict=True)
        left = tuple(limit - kept - np.maximum(a, b) for limit, kept, a, b in each)
        return PoolsLeft(pools, self._limit, left)

    def _held_before(self, jobs: Iterable[int]) -> tuple[Ints, ...]:
        """Return what running jobs hold of each pool before the round."""
        held = running_places((self._jobs[j] for j in jobs), self._cluster)
        return tuple(pool.held(held) for pool in self.empty.pools)

    def _held_after(self, jobs: Iterable[int]) -> tuple[Ints, ...]:
        """Return what jobs that start or migrate hold of each pool after the round."""
        held = []
        for j in jobs:
            option, places = self._starts[j]
            running = self._jobs[j].running
            chosen = self._jobs[j].options[option if running is None else running.option]
            held.append((chosen, [(group, host) for group, _, host, _ in places]))
        return tuple(pool.held(held) for pool in self.empty.pools)
