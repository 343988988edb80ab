"""What pools have left for a job that waits, beside some of the running jobs."""

from __future__ import annotations

from dataclasses import replace

from placewright.array_types import Bools, Ints
from placewright.explain.gang.running import RunningJobs
from placewright.formulations.gang.problem.limits import (
    QuotaKey,
    account_numbers,
    of_use,
    use_numbers,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.instances.derived.pools import pools_of
from placewright.instances.documents.round import Round


class PoolsBeside:
    """The pools of a round in which nobody but one job waits, beside running jobs.

    Parameters
    ----------
    alone
        The round, without the running jobs.
    """

    def __init__(self, running: RunningJobs, alone: Round) -> None:
        self._running, cluster = running, running.cluster
        self._pools = pools_of(alone, cluster)
        numbers, accounts = use_numbers(alone), account_numbers(alone)
        self._keys: list[QuotaKey] = [
            (
                accounts["pool", name],
                of_use(numbers[name]) if name in numbers else cluster.resources.index(name),
            )
            for name in (pool.pool.resource for pool in self._pools)
        ]

    def left(self, kept: Bools) -> list[Ints]:
        """Return what jobs that run leave of each domain, (domains,), by pool."""
        return [
            (pool.capacity - self._running.held_of_pool(pool, kept)).clip(min=0)
            for pool in self._pools
        ]

    def of_levels(self, problem: Problem, left: list[Ints]) -> tuple[Pool, ...]:
        """Return the pools of levels of a problem with what is left of them."""
        mine = (one for pool, one in zip(self._pools, left, strict=True) if pool.pool.level)
        return tuple(
            replace(pool, limit=limit) for pool, limit in zip(problem.pools, mine, strict=True)
        )

    def totals(self, left: list[Ints]) -> dict[QuotaKey, int]:
        """Return what is left of each resource in all domains; of several pools the least."""
        totals: dict[QuotaKey, int] = {}
        for key, mine in zip(self._keys, left, strict=True):
            total = int(mine.sum())
            totals[key] = min(total, totals.get(key, total))
        return totals
