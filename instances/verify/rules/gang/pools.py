"""The rule about pools: limits on what jobs take together of what hosts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Placed, Reading
from placewright.instances.verify.result import Finding, Rule


class PoolDomain(NamedTuple):
    """A pool, by its index, and one domain of its level; None is the whole cluster."""

    pool: int
    domain: str | None


Taken: TypeAlias = Counter[PoolDomain]
"""What jobs take of pool domains."""


class Pools:
    """The pools of a cluster, and what jobs take of each of their domains.

    Nothing is looked at if there are none: then no job takes anything.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._pools = reading.round.cluster.pools
        levels = reading.cluster.levels
        self._positions = [None if p.level is None else levels[p.level] for p in self._pools]

    def __bool__(self) -> bool:
        """Whether there are pools."""
        return bool(self._pools)

    def taken(self, option: Option, tasks: Iterable[tuple[TaskGroup, HostFacts]]) -> Taken:
        """Return what tasks of a job take with an option: the job once, or each task, by pool."""
        taken: Taken = Counter()
        placed = list(tasks) if self._pools else []
        for number, (pool, position) in enumerate(zip(self._pools, self._positions, strict=True)):
            uses = option.uses.get(pool.resource, 0)
            for group, host in placed:
                each = group.resources.get(pool.resource, 0) if pool.per == "task" else uses
                if each:
                    where = PoolDomain(number, None if position is None else host.domains[position])
                    taken[where] = each if pool.per == "job" else taken[where] + each
        return taken

    def taken_by(self, placed: Placed) -> Taken:
        """Return what a job takes where the plan has it."""
        return self.taken(placed.option, ((task.group, task.host) for task in placed.tasks))

    def held_by(self, job: str) -> Taken:
        """Return what a running job holds before the round."""
        option, hosts = self._reading.option_run(job), self._reading.cluster.hosts
        tasks = self._reading.running[job].tasks if self._pools else ()
        return self.taken(option, ((option.groups[t.group], hosts[t.host]) for t in tasks))

    def held(self, jobs: Iterable[str]) -> Taken:
        """Return what running jobs hold together before the round."""
        held: Taken = Counter()
        for job in jobs if self._pools else ():
            held.update(self.held_by(job))
        return held

    @cached_property
    def before(self) -> Taken:
        """What all running jobs hold before the round."""
        return self.held(self._reading.running)

    def capacity(self, where: PoolDomain) -> int:
        """Return what a domain has."""
        pool = self._pools[where.pool]
        return (
            pool.capacity if where.domain is None else pool.domains.get(where.domain, pool.capacity)
        )

    def limit(self, where: PoolDomain) -> int:
        """Return what may be taken of a domain: what it has, or what was held if that is more."""
        return max(self.capacity(where), self.before[where])

    def excess(self, held: Taken, of: Iterable[PoolDomain]) -> str:
        """Say which of some domains has less than is held of it, and how much; "" if none."""
        for where in of:
            if held[where] > self.limit(where):
                resource = self._pools[where.pool].resource
                return (
                    f"jobs hold {amount_text(resource, held[where])} together in "
                    f"{self._place(where)}; expected at most "
                    f"{amount_text(resource, self.limit(where))} "
                    f"(pool {amount_text(resource, self.capacity(where))}, "
                    f"held before the round {amount_text(resource, self.before[where])})"
                )
        return ""

    def _place(self, where: PoolDomain) -> str:
        if where.domain is None:
            return "the whole cluster"
        return f"{self._pools[where.pool].level} {where.domain!r}"


def pool(reading: Reading) -> Iterator[Finding]:
    """Require that jobs hold no more of a pool domain than it has, or than before if that is more.

    What runs beyond the capacity of a pool may stay, and gets no fuller.
    """
    pools = Pools(reading)
    if not pools:
        return
    held: Taken = Counter()
    last: dict[PoolDomain, tuple[str | int, ...]] = {}
    for placed in reading.placed:
        taken = pools.taken_by(placed)
        held.update(taken)
        last.update(dict.fromkeys(taken, placed.path))
    for where, path in last.items():
        if problem := pools.excess(held, [where]):
            yield Finding(path, problem)


RULES: tuple[Rule[Reading], ...] = (Rule("pool", pool),)
