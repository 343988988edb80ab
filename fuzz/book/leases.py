"""Leases and promises: which promises can be kept together, by docs/plans.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeAlias

from fuzz.book.accounts import JOBS, Account
from fuzz.book.choices import Choice, Choices
from fuzz.book.facts import WHOLE, Facts, Job, outages
from fuzz.policy import Raw, TooManyPlansError

MILLION = 10**6
MAX_STEPS = 30_000
"""Jobs given leases in one round; beyond it a round is too large."""


class Target(NamedTuple):
    """A time by which a job is promised to be done, and what that is worth."""

    at: int
    value: int


class Promised(NamedTuple):
    """A promise after the round: the option, the target, and the leases in which the job runs."""

    option: int
    target: Target
    leases: tuple[int, ...]


Targets: TypeAlias = tuple[Target | None, ...]
"""Of each job of the round, in its order: what it is promised."""
Plan: TypeAlias = tuple[Promised | None, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an option is; `spanning` are pairs of hosts and thousandths of the speed."""

    speed: int
    overhead: int
    spanning: tuple[tuple[int, int], ...]

    def rate(self, hosts: int) -> int:
        """Return millionths of a second of work per second on so many hosts."""
        at_least = [part for number, part in self.spanning if number >= hosts]
        if hosts <= 1 or not self.spanning:
            return self.speed * WHOLE
        return self.speed * (at_least[0] if at_least else self.spanning[-1][1])

    def gain(self, length: int, hosts: int) -> int:
        """Return the thousandths of a second of work that one lease does."""
        return self.rate(hosts) * max(0, length - self.overhead) // WHOLE


@dataclass(frozen=True, slots=True)
class Work:
    """What a job's `deadline` says; without one there is no work, and the usual pace."""

    work: int | None
    due: tuple[Target, ...]
    old: Target | None
    ready: int
    paces: tuple[Pace, ...]

    def targets(self) -> list[Target]:
        """Return what the job may be promised."""
        return list(dict.fromkeys([*self.due, *([] if self.old is None else [self.old])]))


class Leases:
    """The leases of a round: what they have room for, and what each job needs of them."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        section: Raw = facts.raw.get("leases", {})
        self.now: int = facts.raw.get("now", 0)
        self.length: int = section.get("length_s", 1200)
        self.horizon: int = section.get("horizon", 500)
        self.works = tuple(
            self._work(job, facts.raw["jobs"][job.number].get("deadline")) for job in facts.jobs
        )
        self.models = sorted({host.model for host in facts.hosts if host.model is not None})
        self._away = outages(facts.raw)
        self.room = [self._room(lease) for lease in range(self.horizon)]
        self._known: dict[object, tuple[Promised, ...] | None] = {}
        self.steps = 0

    def first(self, job: Job, option: int) -> int:
        """Return the first lease that a job can use with an option."""
        late = max(0, self.works[job.number].ready - self.now)
        first = -(-late // self.length)
        other = job.running is not None and job.running.option != option
        return max(first, 1) if other else first

    def later_hosts(self, job: Job, option: int) -> int:
        """Return on how many hosts a job counts in later leases."""
        if job.running is not None and job.running.pinned:
            return len({place[2] for place in job.running.places})
        groups = job.options[option].groups
        whole = sum(group.milli for group in groups if group.gpu >= WHOLE) // WHOLE
        largest = max(
            (
                host.gpus
                for host in self.facts.hosts
                if host.gpus
                and any(group.models is None or host.model in group.models for group in groups)
            ),
            default=0,
        )
        return max(1, -(-whole // largest)) if largest else 1

    def finish(self, job: Job, option: int, leases: tuple[int, ...], here: int) -> int | None:
        """Return when a job is done that runs in some leases, ascending.

        None: it is not done, or before the last of them. `here` is the number of hosts on which it
        is in the current lease.
        """
        work, pace = self.works[job.number].work, self.works[job.number].paces[option]
        assert work is not None
        later = self.later_hosts(job, option)
        hosts = [here if lease == 0 else later for lease in leases]
        left = work - sum(pace.gain(self.length, number) for number in hosts[:-1])
        if left <= 0 or left > pace.gain(self.length, hosts[-1]):
            return None
        begins = self.now + leases[-1] * self.length
        return begins + pace.overhead + -(-left * WHOLE // pace.rate(hosts[-1]))

    def kept(self, choices: Choices, targets: Targets) -> Plan | None:
        """Return promises that give each job its target beside the choices; None if none do."""
        asked = [
            (job, targets[job.number], _here(choices[job.number]))
            for job in self.facts.jobs
            if targets[job.number] is not None
        ]
        key = tuple((job.number, target, here) for job, target, here in asked)
        if key not in self._known:
            ways = [
                (job, list(self._ways(job, target, here)))
                for job, target, here in asked
                if target is not None
            ]
            self._known[key] = self._together(ways, 0, ())
        found = self._known[key]
        if found is None:
            return None
        by_job = {job.number: one for (job, _, _), one in zip(asked, found, strict=True)}
        return tuple(by_job.get(job.number) for job in self.facts.jobs)

    def broken(self, choices: Choices, plan: Plan) -> str:
        """Return the rule that promises break beside the choices, "" if they break none."""
        for job, promised in zip(self.facts.jobs, plan, strict=True):
            if promised is None:
                continue
            choice = choices[job.number]
            if promised.target not in self.works[job.number].targets():
                return "promise"
            first, *_ = leases = promised.leases
            if first < self.first(job, promised.option) or leases[-1] >= self.horizon:
                return "lease_times"
            if _pinned(job) and leases != tuple(range(len(leases))):
                return "lease_times"
            if choice.runs != (first == 0) or (choice.runs and choice.option != promised.option):
                return "current_lease"
            here = _here(choice)
            done = self.finish(job, promised.option, leases, 1 if here is None else here[1])
            if done is None or done > promised.target.at:
                return "lease_work"
        given = [(job, plan[job.number]) for job in self.facts.jobs]
        if not self._fits([(job, one) for job, one in given if one is not None]):
            return "lease_capacity"
        return ""

    def _ways(self, job: Job, target: Target, here: tuple[int, int] | None) -> Iterator[Promised]:
        """Yield how a job can have a target, when it is `here` (option, hosts) now, or nowhere."""
        options = range(len(job.options)) if here is None else [here[0]]
        for option in options:
            first = max(1, self.first(job, option))
            later = range(first, self.horizon)
            begins = () if here is None else (0,)
            for number in range(len(later) + 1):
                for some in combinations(later, number):
                    leases = (*begins, *some)
                    if not leases or (_pinned(job) and leases != tuple(range(len(leases)))):
                        continue
                    done = self.finish(job, option, leases, 1 if here is None else here[1])
                    if done is not None and done <= target.at:
                        yield Promised(option, target, leases)

    def _together(
        self,
        ways: list[tuple[Job, list[Promised]]],
        number: int,
        before: tuple[Promised, ...],
    ) -> tuple[Promised, ...] | None:
        if number == len(ways):
            return before
        for way in ways[number][1]:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooManyPlansError
            taken = (*before, way)
            if self._fits([(job, one) for (job, _), one in zip(ways, taken, strict=False)]):
                found = self._together(ways, number + 1, taken)
                if found is not None:
                    return found
        return None

    def _fits(self, promised: list[tuple[Job, Promised]]) -> bool:
        """Whether each later lease has the GPUs that promised jobs ask in it."""
        asking = [(job, one) for job, one in promised if not _pinned(job)]
        for lease in range(1, self.horizon):
            mine = [(job, one) for job, one in asking if lease in one.leases]
            if mine and not self._lease_holds(lease, mine):
                return False
        return True

    def _lease_holds(self, lease: int, mine: list[tuple[Job, Promised]]) -> bool:
        by_model, by_account = self.room[lease]
        for (account, name), most in by_account.items():
            held = sum(
                job.options[one.option].counts.get(name, 0)
                for job, one in mine
                if account in job.accounts
            )
            if held > most:
                return False
        groups = [group for job, one in mine for group in job.options[one.option].groups]
        for number in range(1, len(self.models) + 1):
            for some in combinations(self.models, number):
                asked = sum(
                    group.milli for group in groups if set(group.models or self.models) <= set(some)
                )
                if asked > sum(by_model[model] for model in some):
                    return False
        return bool(self.models) or not any(group.milli for group in groups)

    def _room(self, lease: int) -> tuple[Mapping[str, int], Mapping[tuple[Account, str], int]]:
        """Return the milli-GPU of each model, and what quotas and caps have, in a later lease."""
        by_model = dict.fromkeys(self.models, 0)
        there = [
            host
            for host in self.facts.hosts
            if host.healthy and lease not in self._away.get(host.name, ())
        ]
        for host in there:
            if host.model is not None:
                by_model[host.model] += WHOLE * host.gpus
        limits = {
            (account, name): most
            for account, amounts in self.facts.limits.items()
            for name, most in amounts.items()
            if name == JOBS or name.startswith("gpu")
        }
        names = {host.number: host.model for host in there}
        for job in self.facts.jobs:
            running = job.running
            if running is None or not running.pinned or lease >= self._until(job):
                continue
            for place in running.places:
                model = names.get(place[2])
                if model is not None:
                    group = job.options[running.option].groups[place[0]]
                    by_model[model] -= group.each * len(place[3])
            for account, name in limits:
                if account in job.accounts:
                    limits[account, name] -= job.options[running.option].counts.get(name, 0)
        return by_model, {key: max(0, most) for key, most in limits.items()}

    def _until(self, job: Job) -> int:
        """Return the lease from which on a pinned job is done."""
        assert job.running is not None
        mine = self.works[job.number]
        if mine.work is None:
            return self.horizon
        hosts = len({place[2] for place in job.running.places})
        each = mine.paces[job.running.option].gain(self.length, hosts)
        return -(-mine.work // each) if each else self.horizon

    def _work(self, job: Job, deadline: Raw | None) -> Work:
        usual = tuple(Pace(WHOLE, 0, ()) for _ in job.options)
        if deadline is None:
            return Work(None, (), None, self.now, usual)
        old = deadline.get("promise")
        ready = deadline.get("ready")
        paces = tuple(
            Pace(
                pace.get("speed", WHOLE),
                pace.get("overhead_s", 0),
                tuple((hosts, part) for hosts, part in pace.get("spanning", ())),
            )
            for pace in deadline.get("paces", ())
        )
        return Work(
            deadline["work_s"] * WHOLE,
            tuple(Target(due["at"], due["value"]) for due in deadline.get("due", ())),
            None if old is None else Target(old["at"], old["value"]),
            self.now if ready is None else ready,
            paces or usual,
        )


def _pinned(job: Job) -> bool:
    return job.running is not None and job.running.pinned


def _here(choice: Choice) -> tuple[int, int] | None:
    """Return option and number of hosts of a job that runs after the round."""
    if not choice.runs:
        return None
    return choice.option, len({place[2] for place in choice.places})
