"""Hosts as a reason to wait speaks of them, and what fits there, by trying all places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from fuzz.book.arrangement import arrangement
from fuzz.book.choices import Choice
from fuzz.book.facts import Facts, Group, Host, Job, Place
from fuzz.book.pools import Domain, Pools
from fuzz.book.room import Room
from fuzz.book.turns import Turns


class State:
    """Hosts as a reason speaks of them: what some jobs leave, in each of `rooms` at once.

    A place has to be free in all rooms. `held` has the jobs that count, with their places, and
    `together` who of them take turns. `beside`: pools may hold what they held before the round,
    if that is more than they have.
    """

    def __init__(
        self,
        facts: Facts,
        held: Sequence[Sequence[tuple[Job, Choice]]],
        together: Sequence[Collection[tuple[int, ...]]] | None = None,
        *,
        beside: bool = False,
    ) -> None:
        self.facts, self.pools = facts, Pools(facts)
        self.pool_limit = self.pools.limit if beside else self.pools.capacity
        self.pool_held = [self.pools.held(jobs) for jobs in held]
        self.rooms = [Room(facts) for _ in held]
        self.closed: dict[tuple[str, int], set[str]] = {}
        turns = Turns(facts) if together else None
        for room, jobs, teams in zip(self.rooms, held, together or [()] * len(held), strict=True):
            by_number = {job.number: (job, choice) for job, choice in jobs}
            mates = [tuple(n for n in team if n in by_number) for team in teams]
            alone = by_number.keys() - {n for team in mates for n in team}
            for unit in [team for team in mates if team] + [(n,) for n in sorted(alone)]:
                _, choice = by_number[unit[0]]
                for place in choice.places:
                    group = facts.jobs[unit[0]].options[choice.option].groups[place[0]]
                    if turns is not None:
                        group = turns.merged(unit, [choice.option] * len(unit), place[0])
                    room.take(group, place)
            for job, choice in jobs:
                for place in choice.places:
                    if job.label is not None:
                        domain = facts.hosts[place[2]].domains[job.label[1]]
                        self.closed.setdefault(job.label, set()).add(domain)

    def fits(self, job: Job, number: int) -> bool:
        """Whether all tasks of an option of a job find places at once, within pools."""
        return self._from(job, number, list(job.options[number].tasks()), (), None, self.pool_left)

    def pool_left(self, where: Domain) -> int:
        """Return what is left of a pool domain."""
        return self.pool_limit(where) - max(held[where] for held in self.pool_held)

    def finds(
        self, job: Job, number: int, tasks: Sequence[tuple[int, int]], among: str | None = None
    ) -> bool:
        """Whether some tasks of an option find places on hosts, in one domain if one is given."""
        return self._from(job, number, tasks, (), among)

    def _from(
        self,
        job: Job,
        number: int,
        tasks: Sequence[tuple[int, int]],
        before: tuple[Place, ...],
        among: str | None,
        left: Callable[[Domain], int] | None = None,
    ) -> bool:
        if left is not None and self.pools:
            taken = self.pools.taken(job, number, before)
            if any(amount > left(where) for where, amount in taken.items()):
                return False
        if len(before) == len(tasks):
            return bool(before) and not arrangement(self.facts, job, number, before)
        g, index = tasks[len(before)]
        group = job.options[number].groups[g]
        for place in list(self.places(job, group, g, index)):
            if among is not None and among not in self.facts.hosts[place[2]].domains:
                continue
            if index and before[-1][0] == g and not group.ordered and place[2] < before[-1][2]:
                continue
            for room in self.rooms:
                room.take(group, place)
            found = self._from(job, number, tasks, (*before, place), among, left)
            for room in self.rooms:
                room.take(group, place, -1)
            if found:
                return True
        return False

    def places(self, job: Job, group: Group, g: int, index: int) -> Iterator[Place]:
        """Yield where one task may arrive."""
        for place in self.rooms[0].places(group, g, index):
            hers = self.facts.hosts[place[2]].domains
            if job.label is not None and hers[job.label[1]] in self.closed.get(job.label, ()):
                continue
            if all(room.holds(group, place) for room in self.rooms[1:]):
                yield place

    def allowed(self, job: Job, group: Group) -> list[Host]:
        """Return the hosts to which tasks of a group may come, if there is enough."""
        return [
            host
            for host in self.facts.hosts
            if host.open
            and (group.hosts is None or host.number in group.hosts)
            and (group.models is None or host.model in group.models)
            and (group.profile is None or group.profile in host.slices)
            and (not group.gpu_memory or (host.gpu_memory or 0) >= group.gpu_memory)
            and all(name in self.named for name, _ in group.wants)
            and (
                job.label is None
                or host.domains[job.label[1]] not in self.closed.get(job.label, ())
            )
        ]

    @property
    def named(self) -> set[str]:
        """The resources that some host has."""
        return {name for host in self.facts.hosts for name in host.has}

    def left(self, host: Host, resource: str) -> int:
        """Return what is free of a resource beside GPUs."""
        return max(0, min(room.left[host.number].get(resource, 0) for room in self.rooms))

    def gpus(self, host: Host) -> list[int]:
        """Return the free milli-GPU of each GPU that may be used; 0 of one with slices."""
        return [
            0
            if gpu in host.reserved_gpus or any(room.cut[host.number][gpu] for room in self.rooms)
            else max(0, min(room.gpus[host.number][gpu] for room in self.rooms))
            for gpu in range(host.gpus)
        ]
