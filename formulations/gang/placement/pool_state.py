"""Residual capacity of pools: what is left of each domain, and how many tasks it has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.pools import PER_TASK
from placewright.formulations.gang.problem.problem import Problem


class PoolState:
    """The pools of levels of a problem, and what they have left.

    Attributes
    ----------
    left : list of int64 (domains,)
        Per pool what may still be taken of each domain; below 0 where too much is taken.
    counts_jobs : bool
        Whether a pool is counted per job.
    """

    def __init__(self, problem: Problem) -> None:
        self.pools = problem.pools
        self.counts_jobs = any(pool.use != PER_TASK for pool in problem.pools)
        self.left = [pool.limit.copy() for pool in problem.pools]
        takers = np.array([pool.demand for pool in problem.pools], dtype=np.int64)
        self._of_shape: list[list[int]] = [
            np.flatnonzero(column).tolist() for column in (takers.T if self.pools else ())
        ]

    def charge(self, shape: int, host: int, count: int) -> None:
        """Charge tasks on a host to the pools around it; a negative count releases them."""
        for k in self._of_shape[shape] if self._of_shape else ():
            pool = self.pools[k]
            self.left[k][pool.domain[host]] -= count * pool.demand[shape]

    def charge_tasks(self, shapes: Ints, hosts: Ints) -> None:
        """Charge tasks of these shapes, one on each of the hosts."""
        for pool, left in zip(self.pools, self.left, strict=True):
            np.subtract.at(left, pool.domain[hosts], pool.demand[shapes])

    def charge_job(self, choice: Choice, puts: Iterable[TaskPlacement], times: int = 1) -> None:
        """Charge what a job of several tasks uses of each domain; -1 releases it."""
        for k, amount in self._uses(choice):
            hosts = np.array([put.host for put in puts], dtype=np.int64)
            self.left[k][np.unique(self.pools[k].domain[hosts])] -= times * amount

    def _uses(self, choice: Choice) -> Iterator[tuple[int, int]]:
        """Yield (pool, amount) of what an option of several tasks uses in each domain."""
        if choice.uses and self.pools and choice.num_tasks > 1:
            for k, pool in enumerate(self.pools):
                if amount := pool.used_by(choice.uses):
                    yield k, amount

    def limit_fits(self, shape: int, number: Ints) -> None:
        """Lower numbers of tasks per host, int64 (hosts,), to what the pools have room for."""
        for k in self._of_shape[shape] if self._of_shape else ():
            pool = self.pools[k]
            room = np.maximum(self.left[k], 0) // pool.demand[shape]
            np.minimum(number, room[pool.domain], out=number)

    def fits_host(self, shape: int, host: int, count: int = 1) -> bool:
        """Whether the pools around a host have room for so many more tasks of a shape."""
        return all(
            self.left[k][self.pools[k].domain[host]] >= count * self.pools[k].demand[shape]
            for k in (self._of_shape[shape] if self._of_shape else ())
        )

    def allow(self, changes: Iterable[tuple[int, int, int]]) -> bool:
        """Whether tasks may come, and leave, at once: (shape, host, number), which is then below 0.

        Domains of which no more is taken than before are not asked.
        """
        more: Counter[tuple[int, int]] = Counter()
        for shape, host, number in changes if self._of_shape else ():
            for k in self._of_shape[shape]:
                pool = self.pools[k]
                more[k, int(pool.domain[host])] += number * int(pool.demand[shape])
        return all(n <= 0 or self.left[k][d] >= n for (k, d), n in more.items())

    def is_within(self, hosts: Sequence[int]) -> bool:
        """Whether no domain around some hosts has too much taken of it."""
        each = zip(self.pools, self.left, strict=True)
        return all(bool((left[pool.domain[hosts]] >= 0).all()) for pool, left in each)

    def room_by_level(self, shape: int) -> dict[int, Ints]:
        """Return, by level, how many tasks of a shape each domain has room for, (domains,)."""
        found: dict[int, Ints] = {}
        for k in self._of_shape[shape] if self._of_shape else ():
            level, room = self.pools[k].level, np.maximum(self.left[k], 0)
            room = room // self.pools[k].demand[shape]
            found[level] = np.minimum(found[level], room) if level in found else room
        return found

    def open_to(self, choice: Choice, hosts: int) -> NDArray[np.bool_]:
        """Return the hosts in domains that have what a job uses in each, bool (hosts,)."""
        open_ = np.ones(hosts, dtype=np.bool_)
        for k, amount in self._uses(choice):
            open_ &= (self.left[k] >= amount)[self.pools[k].domain]
        return open_

    def fits_job(self, choice: Choice, puts: Sequence[TaskPlacement]) -> bool:
        """Whether each domain of a job of several tasks has what the job uses there."""
        hosts = [put.host for put in puts]
        return all(
            bool((self.left[k][self.pools[k].domain[hosts]] >= amount).all())
            for k, amount in self._uses(choice)
        )

    @contextmanager
    def no_more_than(self, most: Iterable[Ints]) -> Iterator[None]:
        """Context: no more than some amounts is left of each domain, int64 (domains,) by pool."""
        kept = [left - np.minimum(left, few) for left, few in zip(self.left, most, strict=True)]
        for left, amount in zip(self.left, kept, strict=True):
            left -= amount
        yield
        for left, amount in zip(self.left, kept, strict=True):
            left += amount
