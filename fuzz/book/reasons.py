"""Why jobs wait: the tests of docs/plans.md, by trying all places of the one job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from fuzz.book.accounts import Account
from fuzz.book.choices import KEEP, MIGRATE, RESIZE, START, Choice, Choices
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.preemption import Preemption
from fuzz.book.standing import Precedence, Standing
from fuzz.book.states import State
from fuzz.book.turns import Teams, Turns

NEVER_FITS, QUOTA, AWAY, CAPACITY, DISPLACED, NOT_CHOSEN = ORDER = (
    "never_fits",
    "quota",
    "hosts_away",
    "capacity",
    "displaced_by_priority",
    "not_chosen",
)


class Region(NamedTuple):
    """A region: its name, hosts, and the milli-GPU that tenants may hold there."""

    name: str
    hosts: frozenset[int]
    quotas: Mapping[str, int]


class Reasons:
    """The true reasons of the jobs that a plan lets wait, if they may come to one region alone.

    Without a region they may come to all hosts.
    """

    def __init__(
        self,
        facts: Facts,
        choices: Choices,
        teams: Teams = (),
        promised: frozenset[int] = frozenset(),
        region: Region | None = None,
    ) -> None:
        self.choices, self.region = choices, region
        self.standing, self.promised = Standing(facts), promised
        judged = Preemption(facts, self.standing, choices, promised, teams).judged
        self._stopped = [
            (job, Choice(KEEP, job.running.option, job.running.places))
            for job in judged
            if job.running is not None
        ]
        self._together = [team.jobs for team in teams]
        before = Turns(facts).before.values() if "sharing" in facts.raw else ()
        self._together_before = list(before)
        self._pairs = list(zip(facts.jobs, choices, strict=True))
        self.facts, empty = Facts(facts.raw), Facts(facts.raw)
        self.facts.hosts = tuple(
            host if self._inside(host.number) else replace(host, healthy=False)
            for host in facts.hosts
        )
        empty.hosts = tuple(
            replace(
                host,
                healthy=self._inside(host.number),
                reserved=False,
                reserved_gpus=frozenset(),
                vacated=False,
                away=False,
            )
            for host in facts.hosts
        )
        self.empty = State(empty, [[]])
        self.open = State(self.facts, [[]])

    def _inside(self, host: int) -> bool:
        return self.region is None or host in self.region.hosts

    def of(self, job: Job) -> tuple[str, int]:
        """Return the reason of a job, and the option that it speaks of."""
        options = sorted(range(len(job.options)), key=lambda o: job.options[o].asks["gpu"])
        best = max(options, key=lambda o: ORDER.index(self.of_option(job, o)))
        return self.of_option(job, best), best

    def of_option(self, job: Job, number: int) -> str:
        """Return the first test that an option fails."""
        failed: Mapping[str, Callable[[], bool]] = {
            NEVER_FITS: lambda: not self.empty.fits(job, number),
            QUOTA: lambda: any(
                e > 0
                for account, here in [(a, False) for a in job.accounts]
                + [(("tenant", job.tenant or ""), True)]
                for *_, e in self.quota(job, number, account, here).values()
            ),
            AWAY: lambda: not self.open.fits(job, number),
            CAPACITY: lambda: not self.state(CAPACITY, job, number).fits(job, number),
            DISPLACED: lambda: not self.state(DISPLACED, job, number).fits(job, number),
        }
        return next((reason for reason, fails in failed.items() if fails()), NOT_CHOSEN)

    def quota(
        self, job: Job, number: int, account: Account, here: bool = False
    ) -> dict[tuple[str, str], tuple[int, int, int, int]]:
        """Return what is asked, used after the round, allowed, and too much, in the region if here.

        By amount, and by the name of a preempted job that this one may not preempt: as if it and
        those above it had stayed that no others may preempt, and the starts that may had not come.
        "": as it is.
        """
        quotas = self.facts.limits.get(account, {})
        if here:
            most = None if self.region is None else self.region.quotas.get(job.tenant or "")
            quotas = {} if most is None else {"gpu": most}
        mine = [pair for pair in self._pairs if account in pair[0].accounts]
        found = {}
        for name, limit in quotas.items():
            held = sum(
                one.options[one.running.option].counts.get(name, 0)
                for one, _ in mine
                if one.running is not None and self._counts(one.running.places, here)
            )
            asked, most = job.options[number].counts.get(name, 0), max(limit, held)
            for victim, runs in self._holders(account, job, number, here).items():
                used = sum(one.options[option].counts.get(name, 0) for one, option in runs)
                found[name, victim] = asked, used, most, used + asked - most
        return found

    def _counts(self, places: tuple[Place, ...], here: bool) -> bool:
        return bool(places) and (not here or self._inside(places[0][2]))

    def _stays(self, victim: Job, home: int, job: Job, number: int) -> bool:
        """Whether what a preempted job held is not for a job with an option."""
        if self.standing.of(victim, home) >= self.standing.of(job, number):
            return True
        return self.standing.ruled and not self.standing.may_preempt(job, number, victim)

    def _over(self, victim: Job, home: int) -> set[int]:
        """Return the started jobs that may preempt a preempted one, by number."""
        rank = self.standing.of(victim, home)
        return {
            one.number
            for one, choice in self._pairs
            if choice.kind == START
            and self._level(one, choice) > rank
            and (
                not self.standing.ruled
                or self.standing.may_preempt(one, choice.option, victim, promised=True)
            )
        }

    def _holders(
        self, account: Account, job: Job, number: int, here: bool
    ) -> dict[str, list[tuple[Job, int]]]:
        """Return who holds quota with what option, for each preempted job that is put back."""
        mine = [
            (one, choice)
            for one, choice in self._pairs
            if account in one.accounts and self._counts(choice.places, here)
        ]
        found = {"": [(one, choice.option) for one, choice in mine]}
        stopped = [
            (one, home.option)
            for one, home in self._stopped
            if account in one.accounts and self._counts(home.places, here)
        ]
        for victim, option in stopped:
            rank, over = self.standing.of(victim, option), self._over(victim, option)
            if self._stays(victim, option, job, number):
                found[victim.name] = [
                    (one, choice.option) for one, choice in mine if one.number not in over
                ] + [
                    pair
                    for pair in stopped
                    if self.standing.of(*pair) >= rank and self._over(*pair) <= over
                ]
        return found

    def state(self, reason: str, job: Job, number: int) -> State:
        """Return the hosts that the test of a reason looks at, for an option of a job."""
        if reason == NEVER_FITS:
            return self.empty
        if reason == AWAY:
            return self.open
        mine = self.standing.of(job, number)
        stay = [
            (one, choice) for one, choice in self._pairs if choice.kind in (KEEP, MIGRATE, RESIZE)
        ]
        above = [
            (one, choice)
            for one, choice in self._pairs
            if choice.kind == START and (reason == NOT_CHOSEN or self._level(one, choice) > mine)
        ]
        victims = [
            (one, home) for one, home in self._stopped if self._stays(one, home.option, job, number)
        ]
        kept = [(one, choice) for one, choice in stay if choice.kind == KEEP]
        first = stay + (above if reason in (DISPLACED, NOT_CHOSEN) else [])
        held, together = [first], [self._together]
        if victims:
            held, together = [first, kept + victims], [self._together, self._together_before]
        mates = together if "sharing" in self.facts.raw else None
        return State(self.facts, held, mates, beside=True)

    def _level(self, job: Job, choice: Choice) -> Precedence:
        """Return the precedence of a job that starts."""
        return self.standing.of(job, choice.option, promised=job.number in self.promised)
