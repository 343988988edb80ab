"""Whether a plan is valid: the rules of docs/plans.md, named as in the glossary."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fuzz.book.arrangement import are_joined, arrangement
from fuzz.book.choices import KEEP, MIGRATE, PREEMPT, RESIZE, START, WAIT, Choice, Choices, swaps
from fuzz.book.disruption import beyond_budget
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.pools import Pools
from fuzz.book.preemption import Preemption, Promised
from fuzz.book.room import Room
from fuzz.book.standing import Standing
from fuzz.book.turns import Teams


class Judgement:
    """The rules of a round. `between` judges what choices that are lawful alone are together.

    `promised` are the jobs that are promised the current lease: they come before all others.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.standing, self.pools = Standing(facts), Pools(facts)
        self._labelled = [job for job in facts.jobs if job.label is not None]
        self._hosts = {
            job.number: {place[2] for place in job.running.places}
            for job in facts.jobs
            if job.running is not None
        }

    def broken(self, choices: Choices, promised: Promised = frozenset()) -> str:
        """Return a rule that a plan breaks, "" if it breaks none."""
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if rule := self.alone(job, choice):
                return rule
        return self._room(choices) or self.between(choices, promised)

    def between(
        self,
        choices: Choices,
        promised: Promised = frozenset(),
        teams: Teams = (),
        room: Room | None = None,
    ) -> str:
        """Return a rule between jobs that a plan breaks, "" if it breaks none.

        `room` is what the plan leaves, if that is known.
        """
        if rule := self._quota(choices) or self._labels(choices):
            return rule
        if self.pools.broken(choices):
            return "pool"
        some = any(choice.kind == PREEMPT for choice in choices)
        if some and self._preemption_of(choices, promised, teams, room).broken():
            return "preemption"
        return "disruption_budget" if beyond_budget(self.facts, choices) else ""

    def arrivals(self, job: Job, choice: Choice) -> tuple[Place, ...]:
        """Return the tasks that come to a place."""
        if choice.kind in (START, RESIZE):
            return choice.places
        if choice.kind == MIGRATE and job.running is not None:
            return tuple(set(choice.places) - set(job.running.places))
        return ()

    def flees(self, job: Job) -> bool:
        """Whether a running job is on a host that is away, and so may stop for nobody."""
        return any(self.facts.hosts[h].away for h in self._hosts[job.number])

    def displacers(
        self,
        choices: Choices,
        victim: Job,
        promised: Promised = frozenset(),
        teams: Teams = (),
    ) -> list[Job]:
        """Return jobs that are all needed to displace a preempted one."""
        return self._preemption_of(choices, promised, teams).displacers(victim)

    def displaces(self, choices: Choices, victim: Job, named: Collection[str]) -> bool:
        """Whether the jobs that a plan names displace a preempted one, and all are needed."""
        return self._preemption_of(choices, frozenset(), ()).displaces(victim, named)

    def alone(self, job: Job, choice: Choice) -> str:
        """Return a rule that the choice for one job breaks by itself, "" if it breaks none."""
        if choice.kind not in _legal(job):
            return "legal_decision"
        if any(self.facts.hosts[place[2]].away for place in choice.places):
            return "away"
        if choice.kind == MIGRATE and not _moves(job, choice):
            return "migrated"
        if choice.kind == RESIZE and (
            job.running is None or choice.option not in job.running.sizes
        ):
            return "resized"
        if choice.kind == RESIZE and job.running and job.running.stays and swaps(job, choice):
            return "resized"
        if not choice.anew:
            return ""
        groups = job.options[choice.option].groups
        for place in choice.places:
            host, profile = self.facts.hosts[place[2]], groups[place[0]].profile
            if not host.healthy:
                return "healthy"
            kind = host.slices.get(profile) if profile is not None else None
            if place[4] not in ((None,) if profile is None else kind.starts if kind else ()):
                return "slot"
        for place in self.arrivals(job, choice):
            host, group = self.facts.hosts[place[2]], groups[place[0]]
            if group.models is not None and host.model not in group.models:
                return "gpu_model"
            if group.hosts is not None and host.number not in group.hosts:
                return "allowed_host"
            if host.reserved or host.reserved_gpus & set(place[3]):
                return "reserved"
            if host.vacated:
                return "vacated"
            if not are_joined(group, host, place[3]):
                return "gpu_links"
        return arrangement(self.facts, job, choice.option, choice.places)

    def _room(self, choices: Choices) -> str:
        room = Room(self.facts)
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            for place in choice.places:
                group = job.options[choice.option].groups[place[0]]
                if not room.holds(group, place):
                    return "capacity"
                room.take(group, place)
        return ""

    def _quota(self, choices: Choices) -> str:
        if not self.facts.limits:
            return ""
        starting = {
            account
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if choice.kind in (START, RESIZE)
            for account in job.accounts
        }
        for account in starting & self.facts.limits.keys():
            mine = [job for job in self.facts.jobs if account in job.accounts]
            for name, limit in self.facts.limits[account].items():
                before = sum(
                    job.options[job.running.option].counts.get(name, 0)
                    for job in mine
                    if job.running is not None
                )
                after = sum(
                    job.options[choices[job.number].option].counts.get(name, 0)
                    for job in mine
                    if choices[job.number].runs
                )
                if after > max(limit, before):
                    return "quota" if account[0] == "tenant" else "cap"
        return ""

    def _labels(self, choices: Choices) -> str:
        for job in self._labelled:
            assert job.label is not None
            level = job.label[1]
            come = {
                self.facts.hosts[place[2]].domains[level]
                for place in self.arrivals(job, choices[job.number])
            }
            for other in self._labelled if come else ():
                lies = {
                    self.facts.hosts[place[2]].domains[level]
                    for place in choices[other.number].places
                }
                if other is not job and other.label == job.label and come & lies:
                    return "anti_affinity"
        return ""

    def _preemption_of(
        self, choices: Choices, promised: Promised, teams: Teams, room: Room | None = None
    ) -> Preemption:
        return Preemption(self.facts, self.standing, choices, promised, teams, room)


def _moves(job: Job, choice: Choice) -> bool:
    """Whether a running job goes on with its option, somewhere else."""
    running = job.running
    return running is not None and (
        choice.option == running.option and choice.places != running.places
    )


def _legal(job: Job) -> tuple[str, ...]:
    if job.running is None:
        return (WAIT,) if job.ineligible else (START, WAIT)
    if job.running.stays:
        return (KEEP, RESIZE) if job.running.sizes else (KEEP,)
    if job.running.sizes:
        return (KEEP, MIGRATE, PREEMPT, RESIZE)
    return (KEEP,) if job.running.pinned else (KEEP, MIGRATE, PREEMPT)


def placed(facts: Facts, choices: Choices) -> Iterator[tuple[Job, Choice, Place]]:
    """Yield every task that runs after the round."""
    for job, choice in zip(facts.jobs, choices, strict=True):
        for place in choice.places:
            yield job, choice, place
