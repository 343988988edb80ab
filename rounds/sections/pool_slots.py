"""What moves take of pools: a slot for each domain of a pool, and how much jobs may hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from placewright.array_types import Ints
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.pools import places_of, pools_of, running_places
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
        return int(self._limits[slot.pool][slot.domain])

    @cached_property
    def _limits(self) -> list[Ints]:
        """What jobs may hold of each pool, int64 (domains,)."""
        if self._cluster is None:
            return []
        running = running_places(self._jobs, self._cluster)
        return [pool.limit(running) for pool in self._pools]
