"""The rule about pools: limits on what jobs take together of what hosts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Placed, Reading
from placewright.instances.verify.result import Finding, Rule

PoolDomain: TypeAlias = tuple[int, str | None]
"""A pool, by its index, and one domain of its level; None is the whole cluster."""

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
        self._add(taken, option, tasks)
        return taken

    def _add(
        self, taken: Taken, option: Option, tasks: Iterable[tuple[TaskGroup, HostFacts]]
    ) -> None:
        """Add what tasks of a job take with an option."""
        placed = list(tasks)
        for number, (pool, position) in enumerate(zip(self._pools, self._positions, strict=True)):
            if pool.per == "task":
                for group, host in placed:
                    if each := group.resources.get(pool.resource, 0):
                        taken[number, None if position is None else host.domains[position]] += each
            elif amount := option.uses.get(pool.resource, 0):
                for domain in {
                    None if position is None else h.domains[position] for _, h in placed
                }:
                    taken[number, domain] += amount

    def taken_by(self, placed: Placed) -> Taken:
        """Return what a job takes where the plan has it."""
        return self.taken(placed.option, ((task.group, task.host) for task in placed.tasks))

    def taken_by_all(self, jobs: Iterable[Placed]) -> Taken:
        """Return what jobs take together where the plan has them."""
        taken: Taken = Counter()
        for placed in jobs if self._pools else ():
            self._add(taken, placed.option, ((task.group, task.host) for task in placed.tasks))
        return taken

    def held_by(self, job: str) -> Taken:
        """Return what a running job holds before the round."""
        return self.held([job])

    def held(self, jobs: Iterable[str]) -> Taken:
        """Return what running jobs hold together before the round."""
        held: Taken = Counter()
        hosts = self._reading.cluster.hosts
        for job in jobs if self._pools else ():
            option, tasks = self._reading.option_run(job), self._reading.running[job].tasks
            self._add(held, option, ((option.groups[t.group], hosts[t.host]) for t in tasks))
        return held

    @cached_property
    def before(self) -> Taken:
        """What all running jobs hold before the round."""
        return self.held(self._reading.running)

    def capacity(self, where: PoolDomain) -> int:
        """Return what a domain has."""
        pool, domain = self._pools[where[0]], where[1]
        return pool.capacity if domain is None else pool.domains.get(domain, pool.capacity)

    def limit(self, where: PoolDomain) -> int:
        """Return what may be taken of a domain: what it has, or what was held if that is more."""
        return max(self.capacity(where), self.before[where])

    @cached_property
    def after(self) -> Taken:
        """What all jobs hold after the round."""
        return self.taken_by_all(self._reading.placed)

    def added_by(self, placed: Placed) -> Taken:
        """Return what a job takes of domains beyond what it held before the round."""
        taken, name = self.taken_by(placed), placed.job.name
        return taken - self.held_by(name) if name in self._reading.running else taken

    def held_with(
        self, back: Collection[str], gone: Collection[str], among: Collection[PoolDomain]
    ) -> Taken:
        """Return what jobs hold of some domains, with running jobs back and others not come.

        Parameters
        ----------
        back
            Running jobs in their places before the round.
        gone
            Jobs that do not start, and migrated ones that take no more of a domain than before.
        """
        held: Taken = Counter({where: self.after[where] for where in among})
        for name in {*back, *gone} & self._anew.keys() if among else ():
            placed = self._anew[name]
            held.subtract(self.taken_by(placed) if name in back else self.added_by(placed))
        held.update(self.held(set(back) if among else ()))
        return held

    @cached_property
    def _anew(self) -> Mapping[str, Placed]:
        """Started and migrated jobs, by name."""
        return {placed.job.name: placed for placed in self._reading.placed_anew}

    def overfull(self, held: Taken, of: Iterable[PoolDomain]) -> PoolDomain | None:
        """Return one of some domains of which more is held than its limit, None if there is none.

        Parameters
        ----------
        held
            What jobs hold together.
        """
        return next((where for where in of if held[where] > self.limit(where)), None)

    def text(self, where: PoolDomain, held: Taken) -> str:
        """Return what is held of a domain, in words."""
        resource = self._pools[where[0]].resource
        return f"jobs hold {amount_text(resource, held[where])} together in {self._place(where)}"

    def limit_text(self, where: PoolDomain) -> str:
        """Return the limit of a domain in words, and where it comes from."""
        resource = self._pools[where[0]].resource
        limit, capacity = self.limit(where), self.capacity(where)
        return (
            f"{amount_text(resource, limit)} (pool {amount_text(resource, capacity)}, "
            f"held before the round {amount_text(resource, self.before[where])})"
        )

    def _place(self, where: PoolDomain) -> str:
        number, domain = where
        if domain is None:
            return "the whole cluster"
        return f"{self._pools[number].level} {domain!r}"


def pool(reading: Reading) -> Iterator[Finding]:
    """Require that jobs hold no more of a pool domain than it has, or than before if that is more.

    What runs beyond the capacity of a pool may stay, and gets no fuller.
    """
    pools = Pools(reading)
    if not pools:
        return
    for where in (where for where in pools.after if pools.overfull(pools.after, [where])):
        last = [placed.path for placed in reading.placed if where in pools.taken_by(placed)][-1]
        yield Finding(
            last, f"{pools.text(where, pools.after)}; expected at most {pools.limit_text(where)}"
        )


RULES_OF_POOLS: tuple[Rule[Reading], ...] = (Rule("pool", pool),)
