"""What jobs hold of pools, once victims are back in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from placewright.rounds.displacement.changes import Changes, PlacedTask
from placewright.rounds.displacement.domains import DomainNames


class PoolDomain(NamedTuple):
    """A pool, by its index, and a domain of its level; "" is the whole cluster."""

    pool: int
    domain: str


Taken: TypeAlias = Counter[PoolDomain]
"""What jobs take of each domain of the pools."""


class PoolUse:
    """What is held of pools after a candidate, and was before the round."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains = changes, domains
        self._pools = changes.round.cluster.pools

    def exceeded(self, back: Collection[int], gone: Collection[int]) -> bool:
        """Whether a domain of which jobs that are back held something holds too much.

        Parameters
        ----------
        back
            Running jobs in their places before the round.
        gone
            Jobs that do not start, and migrating ones that take no more of a domain than before.
        """
        if not self._pools:
            return False
        held = Counter(self._after)
        for j in back:
            held.subtract(self._taken_anew(j))
            held.update(self._home(j))
        for j in set(gone).difference(back):
            held.subtract(self._added(j))
        return any(self._is_overfull(where, held) for j in back for where in self._home(j))

    def fills(self, job: int, back: Iterable[int]) -> bool:
        """Whether a job takes more than before of a domain of which others had something."""
        added = self._added(job) if self._pools else ()
        return bool(added) and any(
            not self._home(j).keys().isdisjoint(added) for j in back if j != job
        )

    def takers_beside(self, victim: int) -> set[int]:
        """Return the jobs that take more than before of the domains of a victim."""
        return {j for j in self._changes.new if self.fills(j, [victim])} if self._pools else set()

    def exceeded_beside(self, victim: int, others: Collection[int]) -> bool:
        """Whether a domain of a victim holds too much beside some jobs alone."""
        mine = self._home(victim) if self._pools else {}
        held = Counter(mine)
        for j in others if mine else ():
            held.update(self._taken(j, self._changes.places(j)))
        return any(self._is_overfull(where, held) for where in mine)

    def _is_overfull(self, where: PoolDomain, held: Mapping[PoolDomain, int]) -> bool:
        pool = self._pools[where.pool]
        capacity = pool.domains.get(where.domain, pool.capacity)
        return held[where] > max(capacity, self._before[where])

    def _taken(self, job: int, tasks: Sequence[PlacedTask]) -> Taken:
        """Return what a job takes with its tasks in these places."""
        taken: Taken = Counter()
        option = self._changes.option(job) if tasks else None
        for number, pool in enumerate(self._pools if option is not None else ()):
            of = {} if pool.level is None else self._domains.of(pool.level)
            uses = option.uses.get(pool.resource, 0) if option is not None else 0
            for task in tasks:
                each = uses
                if pool.per == "task":
                    each = self._changes.group(job, task).resources.get(pool.resource, 0)
                if each:
                    where = PoolDomain(number, of.get(task.host, ""))
                    taken[where] = each if pool.per == "job" else taken[where] + each
        return taken

    def _home(self, job: int) -> Taken:
        """Return what a job held before the round."""
        if job not in self._homes:
            self._homes[job] = self._taken(job, self._changes.home(job))
        return self._homes[job]

    @cached_property
    def _homes(self) -> dict[int, Taken]:
        return {}

    def _taken_anew(self, job: int) -> Taken:
        return self._anew.get(job, Counter())

    def _added(self, job: int) -> Taken:
        """Return what a job that starts or moves takes beyond what it held before."""
        return self._taken_anew(job) - self._home(job)

    @cached_property
    def _anew(self) -> Mapping[int, Taken]:
        return {j: self._taken(j, tasks) for j, tasks in self._changes.new.items()}

    @cached_property
    def _before(self) -> Taken:
        before: Taken = Counter()
        for j, job in enumerate(self._changes.round.jobs):
            if job.running is not None:
                before.update(self._home(j))
        return before

    @cached_property
    def _after(self) -> Taken:
        after = Counter(self._before)
        for j, taken in self._anew.items():
            after.update(taken)
            after.subtract(self._home(j))
        for j in self._changes.candidate.preempted:
            after.subtract(self._home(j))
        return after
