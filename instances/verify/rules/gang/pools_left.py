"""What pools have left in one state, and how many tasks may take from them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy

import numpy as np

from placewright.array_types import Ints
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.pools import Pool
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.rules.gang.pools import PoolDomain, Pools, Taken

_ANY = np.iinfo(np.int64).max
"""Room for more tasks than there are."""


class PoolsLeft:
    """What each domain of each pool has left, first all that it has.

    Parameters
    ----------
    hosts
        All hosts, in the order of arrays by host.

    Attributes
    ----------
    pools : sequence of Pool
    of_host : sequence of int64 (hosts,)
        By pool the domain of each host, as an index in `names`.
    names : sequence of mapping of str to int
        By pool its domains; the whole cluster is None.
    left : sequence of int64 (domains,)
        By pool what each domain has left.
    limit : sequence of int64 (domains,)
        By pool what may be held of each domain.
    """

    def __init__(self, reading: Reading, hosts: Sequence[HostFacts]) -> None:
        self.pools: Sequence[Pool] = reading.round.cluster.pools
        self.of_host: list[Ints] = []
        self.names: list[dict[str | None, int]] = []
        self._facts = Pools(reading)
        for pool in self.pools:
            position = None if pool.level is None else reading.cluster.levels[pool.level]
            known: dict[str | None, int] = {}
            of_host = [
                known.setdefault(None if position is None else host.domains[position], len(known))
                for host in hosts
            ]
            self.of_host.append(np.array(of_host, dtype=np.int64))
            self.names.append(known)
        self.limit: list[Ints] = self._of_each(self._facts.capacity)
        self.left = [limit.copy() for limit in self.limit]

    def __bool__(self) -> bool:
        """Whether there are pools."""
        return bool(self.pools)

    def copy(self) -> PoolsLeft:
        """Return as much left, of its own."""
        other = copy(self)
        other.left = [left.copy() for left in self.left]
        return other

    def beside(self, held: Taken) -> None:
        """Leave of each domain what jobs that hold so much of it may still take."""
        self.limit = self._of_each(self._facts.limit)
        self.left = [limit.copy() for limit in self.limit]
        self.less(held)

    def less(self, taken: Taken) -> None:
        """Leave so much less of each domain."""
        for left, amounts in zip(self.left, self._of_each(lambda where: taken[where]), strict=True):
            left -= amounts

    def keep_least(self, other: PoolsLeft) -> None:
        """Leave only what another state has left, too."""
        self.left = [np.minimum(*pair) for pair in zip(self.left, other.left, strict=True)]

    def room(self, number: int, group: TaskGroup, option: Option) -> Ints:
        """Return how many tasks of a group may take from each domain of a pool, (domains,)."""
        pool, left = self.pools[number], self.left[number]
        if pool.per == "job":
            return np.where(left >= option.uses.get(pool.resource, 0), _ANY, 0)
        each = group.resources.get(pool.resource, 0)
        return left.clip(min=0) // each if each else np.full_like(left, _ANY)

    def clip(self, tasks: Ints, group: TaskGroup, option: Option) -> Ints:
        """Return numbers of tasks by host, (hosts,), lessened until no pool has too little.

        Hosts that come first keep more.
        """
        for number in self.asked(option):
            room, of_host = self.room(number, group, option), self.of_host[number]
            order = np.argsort(of_host, kind="stable")
            sums = np.cumsum(tasks[order])
            first = np.searchsorted(of_host[order], np.arange(len(room)))
            before_domain = np.concatenate(([0], sums))[first]
            before = np.empty_like(tasks)
            before[order] = sums - tasks[order] - before_domain[of_host[order]]
            tasks = np.clip(room[of_host] - before, 0, tasks)
        return tasks

    def take(self, number_on: Ints, group: TaskGroup) -> None:
        """Take what tasks of a group ask, of which there are so many on each host, (hosts,)."""
        for number, pool in enumerate(self.pools):
            if pool.per == "task" and (each := group.resources.get(pool.resource, 0)):
                np.subtract.at(self.left[number], self.of_host[number], number_on * each)

    def asked(self, option: Option) -> Iterator[int]:
        """Yield the pools of which an option takes something."""
        for number, pool in enumerate(self.pools):
            if asked(pool, option):
                yield number

    def _of_each(self, amount: Callable[[PoolDomain], int]) -> list[Ints]:
        """Return an amount of each domain, by pool."""
        return [
            np.array([amount((number, name)) for name in known], dtype=np.int64)
            for number, known in enumerate(self.names)
        ]


def asked(pool: Pool, option: Option) -> int:
    """Return what an option takes of a pool if it is all in one domain."""
    if pool.per == "job":
        return option.uses.get(pool.resource, 0)
    return sum(group.count * group.resources.get(pool.resource, 0) for group in option.groups)
