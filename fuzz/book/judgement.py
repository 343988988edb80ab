"""Whether a plan is valid: the rules of docs/plans.md, named as in the glossary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from fuzz.book.arrangement import arrangement
from fuzz.book.choices import KEEP, MIGRATE, PREEMPT, START, WAIT, Choice, Choices
from fuzz.book.facts import Facts, Job, Place
from fuzz.book.room import Room
from fuzz.book.standing import Precedence, Standing

Promised: TypeAlias = frozenset[int]


class Judgement:
    """The rules of a round. `between` judges what choices that are lawful alone are together.

    `promised` are the jobs that are promised the current lease: they come before all others.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.standing = Standing(facts)
        self._quotas = {t["name"]: t["quota"] for t in facts.tenants if t.get("quota")}
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

    def between(self, choices: Choices, promised: Promised = frozenset()) -> str:
        """Return a rule between jobs that a plan breaks, "" if it breaks none."""
        return self._quota(choices) or self._labels(choices) or self._preemption(choices, promised)

    def arrivals(self, job: Job, choice: Choice) -> tuple[Place, ...]:
        """Return the tasks that come to a place."""
        if choice.kind == START:
            return choice.places
        if choice.kind == MIGRATE and job.running is not None:
            return tuple(set(choice.places) - set(job.running.places))
        return ()

    def comes(self, job: Job, choice: Choice) -> set[int]:
        """Return the hosts to which a task comes of a group that had none there.

        A job on a host that is away is placed anew: it comes to each of its hosts.
        """
        places = () if job.running is None or self.flees(job) else job.running.places
        held = {(place[0], place[2]) for place in places}
        return {p[2] for p in self.arrivals(job, choice) if (p[0], p[2]) not in held}

    def flees(self, job: Job) -> bool:
        """Whether a running job is on a host that is away, and so may stop for nobody."""
        return any(self.facts.hosts[h].away for h in self._hosts[job.number])

    def displacer(
        self, choices: Choices, victim: Job, promised: Promised = frozenset()
    ) -> int | None:
        """Return a job for which a preempted one may stop, None if there is none."""
        assert victim.running is not None
        mine = self.standing.of(victim, victim.running.option)
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            if (
                choice.anew
                and self.standing.of(job, choice.option, promised=job.number in promised) > mine
                and self.comes(job, choice) & self._hosts[victim.number]
            ):
                return job.number
        return None

    def alone(self, job: Job, choice: Choice) -> str:
        """Return a rule that the choice for one job breaks by itself, "" if it breaks none."""
        if choice.kind not in _legal(job):
            return "legal_decision"
        if any(self.facts.hosts[place[2]].away for place in choice.places):
            return "away"
        if choice.kind == MIGRATE and not _moves(job, choice):
            return "migrated"
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
        if not self._quotas:
            return ""
        starting = {
            job.tenant
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if choice.kind == START
        }
        for tenant in starting & self._quotas.keys():
            mine = [job for job in self.facts.jobs if job.tenant == tenant]
            for name, limit in self._quotas[tenant].items():
                before = sum(
                    job.options[job.running.option].asks.get(name, 0)
                    for job in mine
                    if job.running is not None
                )
                after = sum(
                    job.options[choices[job.number].option].asks.get(name, 0)
                    for job in mine
                    if choices[job.number].runs
                )
                if after > max(limit, before):
                    return "quota"
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

    def _preemption(self, choices: Choices, promised: Promised) -> str:
        victims = [
            job
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            if choice.kind == PREEMPT and not self.flees(job)
        ]
        if not victims:
            return ""
        lowest: defaultdict[int, list[Precedence]] = defaultdict(list)
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            for place in self.arrivals(job, choice):
                rank = self.standing.of(job, choice.option, promised=job.number in promised)
                lowest[place[2]].append(rank)
        for victim in victims:
            assert victim.running is not None
            mine = self.standing.of(victim, victim.running.option)
            if any(min(lowest[h]) <= mine for h in self._hosts[victim.number] if h in lowest):
                return "preemption"
            if self.displacer(choices, victim, promised) is None:
                return "displaced_by"
        return ""


def _moves(job: Job, choice: Choice) -> bool:
    """Whether a running job goes on with its option, somewhere else."""
    running = job.running
    return running is not None and (
        choice.option == running.option and choice.places != running.places
    )


def _legal(job: Job) -> tuple[str, ...]:
    if job.running is None:
        return START, WAIT
    return (KEEP,) if job.running.pinned else (KEEP, MIGRATE, PREEMPT)


def placed(facts: Facts, choices: Choices) -> Iterator[tuple[Job, Choice, Place]]:
    """Yield every task that runs after the round."""
    for job, choice in zip(facts.jobs, choices, strict=True):
        for place in choice.places:
            yield job, choice, place
