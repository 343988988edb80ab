"""Who displaces whom in a candidate, on exact GPUs, and whether its preemptions are lawful.

A preempted job is displaced by jobs of strictly higher precedence that arrive: a minimal set
without which it could stay (docs/plans.md#who-may-be-preempted).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.round import Round
from placewright.rounds.displacement.changes import Changes, Rank
from placewright.rounds.displacement.domains import DomainNames
from placewright.rounds.displacement.hosts import HostUse
from placewright.rounds.displacement.labels import Labels
from placewright.rounds.displacement.pools import PoolUse
from placewright.rounds.displacement.quotas import QuotaUse


class Displacement:
    """The preempted jobs of a candidate, and who displaces them.

    Parameters
    ----------
    hosts
        Names of the hosts, as the indices of places count them.
    """

    def __init__(self, round_: Round, hosts: Sequence[str], candidate: Candidate) -> None:
        self.round, self.candidate = round_, candidate
        self._changes = Changes(round_, hosts, candidate)
        domains = DomainNames(round_)
        self._hosts = HostUse(self._changes)
        self._labels = Labels(self._changes, domains)
        self._quotas = QuotaUse(self._changes, domains)
        self._pools = PoolUse(self._changes, domains)
        self._away = unavailable_hosts(round_.leases, round_.now)

    def displaced_by(self, victim: int) -> tuple[int, ...]:
        """Return a minimal set of jobs without which a victim could stay.

        Those of lowest precedence are left out first, and of these the last in the round. Empty if
        the victim is on a host that is away, or if there is no such set.
        """
        if self._on_away_hosts(victim):
            return ()
        rank = self._changes.rank
        known = self.candidate.preempted.get(victim, -1)
        if victim in self._evicted:
            return (known,) if known in self._changes.new else self._comes_first(victim)
        higher = self._may_displace(victim) & self._changes.over(victim)
        near = sorted(higher, key=lambda j: (rank(j), -j))
        if self._in_the_way(victim, near):
            return ()
        left = list(near)
        for j in near:
            fewer = [other for other in left if other != j]
            if not self._in_the_way(victim, fewer):
                left = fewer
        return tuple(sorted(left))

    def needless(self) -> int | None:
        """Return a victim that could stay beside all others, the highest one; None without one."""
        level = self._changes.level
        ordered = sorted(self._judged, key=lambda j: (level(j), -j), reverse=True)
        return next((j for j in ordered if not self._in_the_way(j, ())), None)

    def serves_lower_jobs(self) -> bool:
        """Whether jobs that may not preempt a victim have what it gave back."""
        changes, judged = self._changes, self._judged
        for level in {changes.level(j) for j in judged}:
            higher = {j for j in changes.new if changes.rank(j) > level}
            owners = [j for j in judged if changes.level(j) == level]
            if self._breaks_without(higher, self._from(level), owners):
                return True
        for victim in judged if changes.ruled else ():
            over = changes.over(victim)
            back = [j for j in self._from(changes.level(victim)) if changes.over(j) <= over]
            if self._breaks_without(over, back, [victim]):
                return True
        return False

    def _from(self, level: Rank) -> list[int]:
        """Return the judged victims of a level and above."""
        return [j for j in self._judged if self._changes.level(j) >= level]

    @cached_property
    def _judged(self) -> list[int]:
        """The preempted jobs that stop for others: not for an outage, nor for cells."""
        return [
            j
            for j in self.candidate.preempted
            if not self._on_away_hosts(j) and j not in self._evicted
        ]

    @cached_property
    def _evicted(self) -> set[int]:
        """The preempted jobs that are in the way of guaranteed jobs, whatever else is."""
        changes, fixed = self._changes, self._changes.guaranteed
        if not fixed & changes.new.keys():
            return set()
        there = {j for jobs in changes.by_host.values() for j in jobs} - fixed
        others = {j for j in there if not ((r := self.round.jobs[j].running) and r.pinned)}
        beside = fixed | {
            j for j, job in enumerate(self.round.jobs) if job.running and job.running.pinned
        }
        beside -= self.candidate.preempted.keys()
        return {
            j
            for j in self.candidate.preempted
            if self._hosts.touches_parts(j)
            or self._hosts.exceeds([j], others, changes.home_hosts(j))
            or self._pools.exceeded_beside(j, beside)
        }

    def _comes_first(self, victim: int) -> tuple[int, ...]:
        changes, hosts = self._changes, self._changes.home_hosts(victim)
        found = [
            j
            for j in sorted(changes.guaranteed & changes.new.keys())
            if not hosts.isdisjoint(task.host for task in changes.new[j])
            or self._pools.fills(j, [victim])
        ]
        return tuple(found[:1])

    def _may_displace(self, victim: int) -> set[int]:
        """Return who arrives on a victim's hosts, meets its label, or takes its quota or pools."""
        changes = self._changes
        found = {j for host in changes.home_hosts(victim) for j in changes.arriving[host]}
        if self._labels.has_one(victim):
            found |= {j for j in changes.new if self._labels.meets(j, [victim])}
        return found | self._quotas.starts_beside(victim) | self._pools.takers_beside(victim)

    def _in_the_way(self, victim: int, gone: Collection[int]) -> bool:
        """Whether a victim could not stay, were it not for the arrivals of some jobs."""
        return self._breaks([victim], set(gone), self._changes.home_hosts(victim), [victim])

    def _breaks_without(
        self, higher: set[int], victims: Sequence[int], owners: Sequence[int]
    ) -> bool:
        """Whether something breaks without some jobs that come once some victims are back."""
        changes, back = self._changes, list(victims)
        hosts = set().union(*(changes.home_hosts(j) for j in back))
        gone = {j for j in higher if self.round.jobs[j].running is None}
        movers = sorted(higher - gone)
        while found := [
            j
            for j in movers
            if changes.arrives_on(j, hosts)
            or self._labels.meets(j, back)
            or self._pools.fills(j, back)
        ]:
            back += found
            hosts.update(*(changes.home_hosts(j) for j in found))
            movers = [j for j in movers if j not in found]
        return self._breaks(back, gone, hosts, owners)

    def _breaks(
        self, back: Sequence[int], gone: set[int], hosts: set[str], owners: Iterable[int]
    ) -> bool:
        """Whether some hosts, labels or pools of `back`, or quotas of `owners` break.

        `back` are in their places before the round, and `gone` do not arrive.
        """
        labelled = [j for j in back if self._labels.has_one(j)]
        others = self._changes.new.keys() - set(back) - gone if labelled else ()
        return (
            any(self._labels.meets(j, labelled) for j in others)
            or self._quotas.exceeded(set(back), gone, owners)
            or self._pools.exceeded(set(back), gone)
            or self._hosts.exceeds(back, gone, hosts)
        )

    def _on_away_hosts(self, job: int) -> bool:
        return not self._away.isdisjoint(self._changes.home_hosts(job))


def lawful(round_: Round, hosts: Sequence[str], candidate: Candidate) -> Candidate | None:
    """Return a candidate whose needless victims are back in place; None if it is unlawful."""
    while candidate.preempted:
        found = Displacement(round_, hosts, candidate)
        victim = found.needless()
        if victim is None:
            return None if found.serves_lower_jobs() else candidate
        if any(victim in mates for mates in running_groups(round_)):
            # It would be back in a group, which the candidate does not have.
            return None
        left = {j: by for j, by in candidate.preempted.items() if j != victim}
        candidate = replace(candidate, preempted=left)
    return candidate


def lawful_in(round_: Round, candidate: Candidate) -> Candidate | None:
    """Return a `lawful` candidate whose places count the hosts as the round lists them."""
    hosts = [host for entry in round_.cluster.hosts for host in expand(entry.name)]
    return lawful(round_, hosts, candidate)


def displacers(
    round_: Round, hosts: Sequence[str], candidate: Candidate
) -> dict[int, tuple[int, ...]]:
    """Return who displaces each preempted job of a candidate."""
    if not candidate.preempted:
        return {}
    found = Displacement(round_, hosts, candidate)
    return {victim: found.displaced_by(victim) for victim in candidate.preempted}
