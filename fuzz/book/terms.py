"""The values of a plan's terms, by the formulas of docs/glossary.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations, pairwise
from typing import NamedTuple

from fuzz.book.arrangement import joined_mbps
from fuzz.book.choices import MIGRATE, PREEMPT, RESIZE, START, Choice, Choices
from fuzz.book.collectives import collectives
from fuzz.book.contention import contention
from fuzz.book.facts import WHOLE, Job
from fuzz.book.judgement import Judgement
from fuzz.book.standing import Precedence
from fuzz.policy import Raw

UNIT = 100_000
MOST_SHARES = 8
MOST_CLASSES = 8


class Share(NamedTuple):
    """The dominant share of a tenant, and of which resource it is."""

    tenant: str
    share: int
    resource: str | None


class Terms:
    """The terms of a round. What a job adds by itself is remembered by its choice.

    `extra` has the terms that a policy brings. `classes` are the precedences of each priority
    class, the highest first; there are none if `value` is one term.
    """

    def __init__(
        self, judgement: Judgement, extra: Mapping[str, Callable[[Choices], int]] | None = None
    ) -> None:
        self.facts, self.judgement = judgement.facts, judgement
        self.names: tuple[str, ...] = tuple(self.facts.policy["terms"])
        self._alone: dict[str, Callable[[Job, Choice], int]] = {
            "value": self._value,
            "progress": self._progress,
            "entitled": self._entitled,
            "disruption": self._disruption,
            "spread": self._spread,
            "proximity": self._proximity,
            "bottleneck": self._bottleneck,
        }
        self._together: dict[str, Callable[[Choices], int]] = {
            "remaining": self._remaining,
            "freed": self._freed,
            "opened": self._opened,
            "leftover": self._leftover,
            "stranded": self._stranded,
            "contention": partial(contention, self.facts),
            "gpu_links": self._gpu_links,
            **(extra or {}),
        }
        self._known: dict[tuple[int, Choice, str], int] = {}
        self.classes = self._priority_classes()

    def __call__(self, choices: Choices) -> dict[str, int]:
        """Return the values of all terms, in the order of the policy."""
        values: dict[str, int] = {}
        for name in self.names:
            if name == "share":
                values |= self._sums(choices)
            elif name == "value" and self.classes:
                values |= self._class_values(choices)
            else:
                values[name] = self.of(name, choices)
        return values

    def of(self, name: str, choices: Choices) -> int:
        """Return the value of a term other than `share`."""
        return self._sum(name, choices) if name in self._alone else self._together[name](choices)

    def shares(self, choices: Choices) -> list[Share]:
        """Return the dominant share of each tenant that has jobs."""
        capacity: dict[str, int] = {"gpu": 0}
        for host in self.facts.hosts:
            if host.healthy:
                capacity["gpu"] += host.gpus * WHOLE
                for name, amount in host.has.items():
                    capacity[name] = capacity.get(name, 0) + amount
        found = []
        for tenant in self.facts.tenants:
            mine = [job for job in self.facts.jobs if job.tenant == tenant["name"]]
            if not mine:
                continue
            held: dict[str, int] = {}
            for job in mine:
                choice = choices[job.number]
                for name, amount in job.options[choice.option].asks.items() if choice.runs else ():
                    held[name] = held.get(name, 0) + amount
            weight = tenant.get("weight", 1)
            of = [
                (UNIT * held.get(name, 0) // (most * weight), name)
                for name, most in capacity.items()
                if most
            ]
            share, resource = max(of, default=(0, None))
            found.append(Share(tenant["name"], share, resource))
        return found

    def _sums(self, choices: Choices) -> dict[str, int]:
        ordered = sorted(one.share for one in self.shares(choices))
        assert len(ordered) <= MOST_SHARES
        names = ["share", *(f"share_{k}" for k in range(2, len(ordered) + 1))]
        return {name: sum(ordered[: k + 1]) for k, name in enumerate(names)}

    def _priority_classes(self) -> list[list[Precedence]]:
        """Return the precedences of each class of `value`."""
        if self.facts.policy.get("formulation", "gang") not in ("gang", "geo"):
            return []
        return self.classes_by(lambda job, number: job.options[number].value)

    def classes_by(
        self, worth_of: Callable[[Job, int], int], counted: Callable[[Job], bool] | None = None
    ) -> list[list[Precedence]]:
        """Return the precedences of each priority class, the highest first; [] if there is one.

        `worth_of` is what a job with an option is worth; `counted` says which jobs compete, if not
        all that are not pinned.
        """
        policy, of = self.facts.policy, self.judgement.standing.of
        if policy.get("priority") == "preemption":
            return []
        worth: dict[Precedence, int] = {}
        for job in self.facts.jobs:
            pinned = job.running is not None and job.running.pinned
            if pinned if counted is None else not counted(job):
                continue
            numbers = list(range(len(job.options)))
            if job.running is not None:
                numbers = [job.running.option, *job.running.sizes]
            levels = {of(job, number) for number in numbers}
            for level in levels:
                best = max(worth_of(job, n) for n in numbers if of(job, n) == level)
                worth[level] = worth.get(level, 0) + best
        classes = [[level] for level in sorted(worth, reverse=True)] if len(worth) > 1 else []
        while len(classes) > MOST_CLASSES:
            weights = [sum(worth[level] for level in one) for one in classes]
            both = [a + b for a, b in pairwise(weights)]
            at = len(both) - 1 - both[::-1].index(min(both))
            classes[at : at + 2] = [classes[at] + classes[at + 1]]
        return classes

    def _class_values(self, choices: Choices) -> dict[str, int]:
        values = {f"value_{k}": 0 for k in range(1, len(self.classes) + 1)}
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            for option, times in self._changed(job, choice):
                level = self.judgement.standing.of(job, option)
                (number,) = [k for k, one in enumerate(self.classes, 1) if level in one]
                values[f"value_{number}"] += times * job.options[option].value
        return values

    def _sum(self, name: str, choices: Choices) -> int:
        total = 0
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            key = job.number, choice, name
            if key not in self._known:
                self._known[key] = self._alone[name](job, choice)
            total += self._known[key]
        return total

    def _value(self, job: Job, choice: Choice) -> int:
        return self._gained(job, choice, lambda number: job.options[number].value)

    def _progress(self, job: Job, choice: Choice) -> int:
        def worth(number: int) -> int:
            running, progress = job.running, job.options[number].progress
            restarts = running is not None and number != running.option
            return progress * running.resize_factor // 1000 if restarts and running else progress

        return self._gained(job, choice, worth)

    def _entitled(self, job: Job, choice: Choice) -> int:
        standing = self.judgement.standing
        return self._gained(
            job,
            choice,
            lambda number: job.options[number].value if standing.entitled(job, number) else 0,
        )

    def _gained(self, job: Job, choice: Choice, worth: Callable[[int], int]) -> int:
        return sum(times * worth(option) for option, times in self._changed(job, choice))

    def _changed(self, job: Job, choice: Choice) -> list[tuple[int, int]]:
        """Return the options that a job gains (1) and loses (-1)."""
        gains = [(choice.option, 1)] if choice.kind in (START, RESIZE) else []
        loses = choice.kind in (PREEMPT, RESIZE) and job.running is not None
        return gains + ([(job.running.option, -1)] if loses and job.running else [])

    def _disruption(self, job: Job, choice: Choice) -> int:
        if job.running is None:
            return 0
        option = job.options[job.running.option]
        if choice.kind == PREEMPT:
            return job.running.preempt_cost + option.asks["gpu"]
        if choice.kind == MIGRATE:
            moved = self.judgement.arrivals(job, choice)
            milli = sum(option.groups[place[0]].gpu for place in moved)
            return job.running.migrate_cost + milli
        if choice.kind == RESIZE:
            had, has = (
                {
                    (place[2], gpu)
                    for place in places
                    for gpu in place[3]
                    if of.groups[place[0]].gpu >= WHOLE
                }
                for of, places in (
                    (option, job.running.places),
                    (job.options[choice.option], choice.places),
                )
            )
            new = job.options[choice.option].asks["gpu"] - WHOLE * len(had & has)
            return job.running.resize_costs[choice.option] + new
        return 0

    def _spread(self, job: Job, choice: Choice) -> int:
        total = 0
        for g, group in enumerate(job.options[choice.option].groups) if choice.anew else ():
            levels = self.facts.weights if group.preferred is None else group.preferred
            used = [self.facts.hosts[p[2]].domains for p in choice.places if p[0] == g]
            for level in set(levels) & self.facts.weights.keys():
                position = self.facts.levels.index(level)
                beyond = len({domains[position] for domains in used}) - 1
                total += group.milli * self.facts.weights[level] * beyond
        return total

    def _proximity(self, _job: Job, choice: Choice) -> int:
        if not choice.anew:
            return 0
        paths = [self.facts.hosts[place[2]].domains for place in choice.places]
        fabric = self.facts.fabric
        if fabric is not None:
            return sum(
                (x[-1] != y[-1]) + fabric.hops(x[-2], y[-2]) for x, y in combinations(paths, 2)
            )
        return sum(a != b for x, y in combinations(paths, 2) for a, b in zip(x, y, strict=True))

    def _bottleneck(self, job: Job, choice: Choice) -> int:
        return sum(one.time_us for one in collectives(self.facts, job, choice))

    def _remaining(self, choices: Choices) -> int:
        return sum(
            job.options[choice.option].groups[place[0]].gpu
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            for place in choice.places
            if self.facts.hosts[place[2]].vacated
        )

    def _gpu_links(self, choices: Choices) -> int:
        return sum(
            joined_mbps(
                job.options[choice.option].groups[place[0]], self.facts.hosts[place[2]], place[3]
            )
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            for place in choice.places
        )

    def _freed(self, choices: Choices) -> int:
        freeing: Raw = self.facts.policy["freeing"]
        position = self.facts.levels.index(freeing.get("level", "host"))
        before = {host.domains[position] for host in self.facts.hosts if host.busy}
        after = {
            self.facts.hosts[place[2]].domains[position]
            for choice in choices
            for place in choice.places
        }
        worth = WHOLE * freeing["gpu_worth_s"]
        total = -self._sum("disruption", choices)
        for host in self.facts.hosts:
            domain = host.domains[position]
            total += ((domain in before) - (domain in after)) * worth * host.gpus
        return total

    def _arrived(self, choices: Choices) -> set[int]:
        return {
            place[2]
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            for place in self.judgement.arrivals(job, choice)
        }

    def _opened(self, choices: Choices) -> int:
        return sum(not self.facts.hosts[h].busy for h in self._arrived(choices))

    def _leftover(self, choices: Choices) -> int:
        arrived = self._arrived(choices)
        used = sum(
            job.options[choice.option].groups[place[0]].gpu
            for job, choice in zip(self.facts.jobs, choices, strict=True)
            for place in choice.places
            if place[2] in arrived
        )
        return sum(self.facts.hosts[h].gpus * WHOLE for h in arrived) - used

    def _stranded(self, choices: Choices) -> int:
        left = [dict(host.has) for host in self.facts.hosts]
        gpus = [[WHOLE] * host.gpus for host in self.facts.hosts]
        cut: set[tuple[int, int]] = set()
        for job, choice in zip(self.facts.jobs, choices, strict=True):
            for place in choice.places:
                group = job.options[choice.option].groups[place[0]]
                for name, amount in group.wants:
                    left[place[2]][name] -= amount
                for gpu in place[3]:
                    gpus[place[2]][gpu] -= group.each
                    if group.profile is not None:
                        cut.add((place[2], gpu))
        total = 0
        for kind, weight in self._kinds():
            gpu, each = kind["gpu"], min(kind["gpu"], WHOLE)
            wants = {"cpu": kind.get("cpu", 0), "memory": kind.get("memory", 0)}
            wants |= kind.get("resources", {})
            models = kind.get("gpu_models")
            for host in self.facts.hosts:
                if not host.open:
                    continue
                free = [
                    0 if i in host.reserved_gpus else amount
                    for i, amount in enumerate(gpus[host.number])
                ]
                fit = [
                    amount
                    for i, amount in enumerate(free)
                    if amount >= each and (host.number, i) not in cut
                ]
                room = (
                    gpu > 0
                    and len(fit) >= -(-gpu // WHOLE)
                    and all(left[host.number].get(n, 0) >= a for n, a in wants.items())
                    and (models is None or host.model in models)
                )
                total += weight * (sum(free) - (sum(fit) if room else 0))
        return total

    def _kinds(self) -> list[tuple[Raw, int]]:
        mix = self.facts.policy.get("mix")
        if mix is not None:
            return [(kind, kind.get("weight", 1)) for kind in mix]
        found: list[tuple[Raw, int]] = []
        for job in self.facts.raw["jobs"]:
            option = job["options"][(job.get("running") or {}).get("option", 0)]
            found += [(g, g.get("count", 1)) for g in option["groups"] if g.get("mig") is None]
        return found
