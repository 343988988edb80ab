"""Pools: what hosts share, counted task by task and job by job (docs/plans.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

from fuzz.book.choices import KEEP, Choice, Choices
from fuzz.book.facts import Facts, Job, Place
from fuzz.policy import Raw

Domain: TypeAlias = tuple[int, str]
"""Which pool of the cluster, and a domain of its level; "" is the whole cluster."""

Taken: TypeAlias = Counter[Domain]


class Pools:
    """The pools of a round. A round without any has domains of which nobody takes anything."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.entries: list[Raw] = facts.raw["cluster"].get("pools", [])

    def __bool__(self) -> bool:
        """Whether there are pools."""
        return bool(self.entries)

    def domain(self, number: int, host: int) -> Domain:
        """Return the domain of a pool around a host."""
        level = self.entries[number].get("level")
        if level is None:
            return number, ""
        return number, self.facts.hosts[host].domains[self.facts.levels.index(level)]

    def taken(self, job: Job, option: int, places: Iterable[Place]) -> Taken:
        """Return what a job takes with tasks in some places."""
        found: Taken = Counter()
        places = tuple(places) if self.entries else ()
        for number, entry in enumerate(self.entries):
            name, mine = entry["resource"], job.options[option]
            for place in places:
                where = self.domain(number, place[2])
                if entry.get("per") == "job":
                    found[where] = mine.uses.get(name, 0)
                else:
                    found[where] += dict(mine.groups[place[0]].wants).get(name, 0)
        return +found

    def taken_by(self, job: Job, choice: Choice) -> Taken:
        """Return what a job takes with a choice."""
        return self.taken(job, choice.option, choice.places) if choice.runs else Counter()

    def home(self, job: Job) -> Taken:
        """Return what a job holds before the round."""
        if job.running is None:
            return Counter()
        return self.taken_by(job, Choice(KEEP, job.running.option, job.running.places))

    def held(self, pairs: Iterable[tuple[Job, Choice]]) -> Taken:
        """Return what jobs take together."""
        found: Taken = Counter()
        for job, choice in pairs if self.entries else ():
            found.update(self.taken_by(job, choice))
        return found

    @cached_property
    def before(self) -> Taken:
        """What running jobs hold before the round."""
        found: Taken = Counter()
        for job in self.facts.jobs:
            found.update(self.home(job))
        return found

    def capacity(self, where: Domain) -> int:
        """Return what a domain has."""
        entry = self.entries[where[0]]
        most: int = entry.get("domains", {}).get(where[1], entry["capacity"])
        return most

    def limit(self, where: Domain) -> int:
        """Return what may be held of a domain after the round."""
        return max(self.capacity(where), self.before[where])

    def over(self, held: Mapping[Domain, int], among: Iterable[Domain]) -> bool:
        """Whether of one of some domains more is held than may be."""
        return any(held[where] > self.limit(where) for where in among)

    def broken(self, choices: Choices) -> bool:
        """Whether jobs hold too much of a pool after the round."""
        held = self.held(zip(self.facts.jobs, choices, strict=True))
        return self.over(held, held)
