"""What moves take of pools: a slot for each domain of a pool, and how much jobs may hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from placewright.array_types import Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.pools import places_of, pools_of
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round


class PoolSlot(NamedTuple):
    """The number of a pool, and of one of its domains."""

    pool: int
    domain: int


class PoolSlots:
    """The domains of a round's pools as slots."""

    def __init__(self, round_: Round) -> None:
        self._jobs = round_.jobs
        self._cluster = build_cluster(round_.cluster) if round_.cluster.pools else None
        self._pools = () if self._cluster is None else pools_of(round_, self._cluster)

    def __call__(self, option: Option, tasks: Iterable[Task]) -> Iterator[tuple[PoolSlot, int]]:
        """Yield what a job with these tasks takes of pools, if anything."""
        if self._cluster is None:
            return
        places = places_of(tasks, self._cluster)
        for number, pool in enumerate(self._pools):
            for domain, amount in pool.taken(option, places).items():
                yield PoolSlot(number, domain), amount

    def limit(self, slot: PoolSlot) -> int:
        """Return what jobs may hold: the capacity, or what they held before if that is more."""
        pool, domain = slot
        return max(int(self._pools[pool].capacity[domain]), int(self._before[pool][domain]))

    @cached_property
    def _before(self) -> list[Ints]:
        """What running jobs hold of each pool before the round, int64 (domains,)."""
        if self._cluster is None:
            return []
        running = [
            (job.options[job.running.option], places_of(job.running.tasks, self._cluster))
            for job in self._jobs
            if job.running is not None
        ]
        return [pool.held(running) for pool in self._pools]
