"""Rules about preemption: a running job stops only where jobs of higher precedence need its place.

A job that is promised the current lease comes before all others, an entitled one before a borrowed
one, and of equal entitlement the higher priority first. Who is on a host that is away may stop for
nobody, and so may who is in the way of a job that a tenant's cells are for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.verify.outages import unavailable_hosts
from placewright.instances.verify.precedence import Precedence
from placewright.instances.verify.reading import Placed, Preempted, Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.entitlement import Entitlement
from placewright.instances.verify.rules.gang.leave import Leave
from placewright.instances.verify.rules.gang.put_back import PutBack


def displaced_by(reading: Reading) -> Iterator[Finding]:
    """Require that exactly the preempted jobs name the jobs that displace them.

    These may preempt it, start or migrate, and are a minimal set without which it could stay in its
    place.
    """
    for index, decision in enumerate(reading.plan.decisions):
        if decision.displaced_by and decision.decision is not DecisionKind.PREEMPT:
            yield Finding(
                ("decisions", index, "displaced_by"),
                f"displaced_by {', '.join(decision.displaced_by)} of job {decision.job!r}, "
                "which is not preempted; expected none",
            )
    if not reading.preempted:
        return
    victims = Victims(reading)
    for victim in reading.preempted:
        problem = victims.misnamed(victim)
        if problem:
            yield Finding(
                (*victim.path, "displaced_by"),
                f"{problem}; expected jobs that may preempt it and are all needed to "
                f"displace job {victim.job.name!r}",
            )


def preemption(reading: Reading) -> Iterator[Finding]:
    """Require of each preempted job that it cannot stay, and that no lower job is the cause.

    It cannot stay if it breaks a rule when put back alone. Nothing breaks once it is put back with
    all victims of at least its precedence, without the starts of strictly higher precedence, and
    with the migrated jobs of strictly higher precedence that came to these hosts, or take more of
    a pool that they took of, back where they were, and those that did so to these, and so on.

    Where rules say who may preempt whom, nothing breaks either with those that may preempt it in
    place of those of strictly higher precedence, and the victims that no others may preempt.
    """
    if not reading.preempted:
        return
    victims = Victims(reading)
    for victim in victims.judged:
        if not victims.in_the_way(victim.job.name):
            yield Finding(
                victim.path,
                f"job {victim.job.name!r} is preempted, and could stay beside all others; "
                "expected preempted jobs whose place is needed",
            )
    for rank, mine in victims.by_rank.items():
        problem = victims.cause_beside(rank) or victims.cause_without_leave(mine)
        if problem:
            yield Finding(
                mine[0].path,
                f"without jobs of higher precedence, and with all preempted jobs of {rank} and "
                f"above in their places, {problem}; expected that preemption of "
                f"{', '.join(repr(victim.job.name) for victim in mine)} serves no job of "
                "its precedence or lower",
            )


class Rank(NamedTuple):
    """Whether a job is promised the current lease, and its precedence otherwise."""

    promised: bool
    precedence: Precedence

    def __str__(self) -> str:
        return f"{self.precedence}{', promised this lease' if self.promised else ''}"


_LOWEST = Rank(False, Precedence(False, False, -(10**10)))
"""Of a job that may preempt nobody."""


class Victims:
    """The preempted jobs of a plan."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entitlement = Entitlement(reading.round)
        self._leave = Leave(reading.round, self._entitlement)
        self._plan = PutBack(reading)
        self._gone = unavailable_hosts(reading)
        self._anew = {placed.job.name: placed for placed in reading.placed_anew}
        self._ranks = {
            name: _LOWEST
            if self._leave.over_nobody(placed.job, placed.chosen)
            else self.rank_after(placed)
            for name, placed in self._anew.items()
        }

    @cached_property
    def judged(self) -> Sequence[Preempted]:
        """The preempted jobs that stop for others: not for an outage, nor for cells."""
        cells = any(tenant.cells for tenant in self._reading.round.tenants)
        guaranteed = {
            placed.job.name
            for placed in (self._reading.placed if cells else ())
            if self._entitlement.of(placed.job, placed.chosen).cells
        }
        return [
            victim
            for victim in self._reading.preempted
            if not self._on_away_hosts(victim.job.name)
            and not (guaranteed and self._plan.beside_guaranteed(victim.job.name, guaranteed))
        ]

    @cached_property
    def _judged_names(self) -> set[str]:
        return {victim.job.name for victim in self.judged}

    @cached_property
    def by_rank(self) -> dict[Rank, list[Preempted]]:
        """The judged ones by their precedence."""
        found: defaultdict[Rank, list[Preempted]] = defaultdict(list)
        for victim in self.judged:
            found[self._before(victim.job)].append(victim)
        return found

    def keeps_place(self, victim: Job, job: Job, option: int) -> bool:
        """Whether what a preempted job held is not for a waiting one with an option."""
        if self._before(victim) >= self.rank(job, option):
            return True
        return self._leave.ruled and not self._leave.over(job, option, victim)

    def starts_over(self, victim: Job) -> frozenset[str]:
        """Return the started jobs that may preempt a preempted one."""
        started = self._reading.started
        return frozenset(one.job.name for one in started if self._is_over(one, victim))

    def in_the_way(self, name: str, gone: Sequence[str] = ()) -> bool:
        """Whether a victim could not stay, were it not for the arrivals of some jobs."""
        return bool(self._plan.breaks([name], self._plan.hosts(name), gone, [name]))

    def cause_beside(self, rank: Rank) -> str:
        """Return what still breaks without higher jobs once the victims of a rank are back."""
        higher = {name for name, theirs in self._ranks.items() if theirs > rank}
        return self._cause(self._from(rank), higher, self.by_rank[rank])

    def cause_without_leave(self, mine: Sequence[Preempted]) -> str:
        """Return what breaks without those that may preempt one of some victims of one rank."""
        for victim in mine if self._leave.ruled else ():
            over = self._over(victim)
            back = [v for v in self._from(self._before(victim.job)) if self._over(v) <= over]
            if problem := self._cause(back, over, [victim]):
                return problem
        return ""

    def _from(self, rank: Rank) -> list[Preempted]:
        """Return the judged victims of a rank and above."""
        return [v for level, theirs in self.by_rank.items() if level >= rank for v in theirs]

    def _over(self, victim: Preempted) -> set[str]:
        """Return the jobs that come and may preempt a victim."""
        return {name for name, placed in self._anew.items() if self._is_over(placed, victim.job)}

    def _is_over(self, placed: Placed, victim: Job) -> bool:
        """Whether a job that comes may preempt one that ran."""
        if self._ranks[placed.job.name] <= self._before(victim):
            return False
        return not self._leave.ruled or self._leave.over(placed.job, placed.chosen, victim)

    def _cause(
        self, victims: Sequence[Preempted], higher: set[str], owners: Sequence[Preempted]
    ) -> str:
        """Return what breaks with some victims back, and without those higher ones that start."""
        back = [victim.job.name for victim in victims]
        gone = {placed.job.name for placed in self._reading.started} & higher
        hosts = {host for name in back for host in self._plan.hosts(name)}
        pooled = {where for name in back for where in self._plan.pools.held_by(name)}
        movers = [p for p in self._reading.migrated if p.job.name in higher]
        waiting = True
        while waiting:
            waiting = False
            for placed in movers:
                name = placed.job.name
                if name not in back and (
                    not hosts.isdisjoint(task.host.name for task in placed.arrivals)
                    or self._plan.shares_label(placed, back)
                    or (pooled and not pooled.isdisjoint(self._plan.pools.added_by(placed)))
                ):
                    back.append(name)
                    hosts |= self._plan.hosts(name)
                    pooled |= self._plan.pools.held_by(name).keys()
                    waiting = True
        return self._plan.breaks(back, hosts, gone, [victim.job.name for victim in owners])

    def misnamed(self, victim: Preempted) -> str:
        """Return what is wrong with the jobs that a victim names, "" if nothing is."""
        names, name = victim.decision.displaced_by, victim.job.name
        mine = self._before(victim.job)
        if not names and not self._on_away_hosts(name):
            return f"job {name!r} is preempted for no job"
        if len(set(names)) < len(names):
            return f"job {name!r} names one twice"
        over = self._over(victim)
        for by in names:
            if by not in self._anew:
                return f"job {by!r} neither starts nor migrates"
            if self._ranks[by] <= mine:
                return f"job {by!r} of {self._ranks[by]} displaces job {name!r} of {mine}"
            if by not in over:
                return f"job {by!r} may not preempt job {name!r}"
        if name not in self._judged_names:
            return ""
        if self.in_the_way(name, names):
            return f"job {name!r} could not stay without {', '.join(names)}"
        for by in names:
            if not self.in_the_way(name, [other for other in names if other != by]):
                return f"job {name!r} could stay whether or not {by!r} takes its place"
        return ""

    def _on_away_hosts(self, name: str) -> bool:
        return not self._gone.isdisjoint(self._plan.hosts(name))

    def rank_after(self, placed: Placed) -> Rank:
        """Return the rank of a job that arrives; all that run and have a promise use it."""
        promised = self._reading.promise_of(placed.job.name) is not None
        return Rank(promised, self._entitlement.of(placed.job, placed.chosen))

    def _before(self, job: Job) -> Rank:
        """Return the rank of a preempted job with the option that it ran."""
        return self.rank(job, self._reading.running[job.name].option)

    def rank(self, job: Job, option: int) -> Rank:
        """Return the rank of a job that uses no promise in this lease, with an option."""
        return Rank(promised=False, precedence=self._entitlement.of(job, option))


RULES_OF_PREEMPTION: tuple[Rule[Reading], ...] = (
    Rule("displaced_by", displaced_by),
    Rule("preemption", preemption),
)
