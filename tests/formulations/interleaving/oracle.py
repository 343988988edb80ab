"""The best first term of a tiny round of interleaving, by brute force, from its document alone.

Every choice of jobs that hold GPUs, with which option and with whom, is valued by the definition
of the term; the choices are tried from the best on, each with every place that its tasks can have,
until one is a plan in which `verify` finds no fault. GPUs of one host that are free are anonymous,
and so are equal tasks; shares of GPUs are all of one size. No other symmetry is used, and nothing
is shared with the formulations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations, product
from math import ceil, sqrt
from operator import add
from typing import NamedTuple

from displacers import with_displacers

from placewright.instances.derived import ranges
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

WHOLE = 1000
MILLION = 10**6
MAX_PARTITIONS = 60_000
MAX_PLANS = 4_000
_FREE_TO_DIFFER = {"name", "value", "progress"}
_OF_GROUPS = {"name", "cpu", "memory", "resources", "gpu_memory"}

Key = tuple[int, int]  # a task: group of the option, index in the group
Place = tuple[str, tuple[int, ...]]  # host and GPUs


class TooManyPlansError(Exception):
    """The round is not tiny."""


class Unit(NamedTuple):
    """Jobs that hold the same GPUs, or one job with any option; `may_form`: may be placed anew."""

    members: tuple[Job, ...]
    option: int
    may_form: bool


class Best(NamedTuple):
    """The greatest value of the first term, by priority class, and a plan that reaches it."""

    values: tuple[int, ...]
    plan: Plan

    @property
    def value(self) -> int:
        """The value of the first term, of several classes that of the highest."""
        return self.values[0]


def best(round_: Round) -> Best:
    """The best value of the first term, and a plan that reaches it.

    Raises
    ------
    TooManyPlansError
        The jobs have more than `MAX_PARTITIONS` partitions, or more than `MAX_PLANS` plans.
    """
    return Enumeration(round_).best()


def period_of(stages: list[tuple[int, ...]], *, spanning: bool) -> tuple[int, tuple[int, ...]]:
    """The shortest period of some jobs, without contention, and the offsets that reach it."""
    resources = len(stages[0])
    slots = 4 if spanning else resources
    found = [
        (_spanning(stages, offsets) if spanning else _plain(stages, offsets), offsets)
        for offsets in permutations(range(slots), len(stages))
    ]
    return min(found)


def _plain(stages: list[tuple[int, ...]], offsets: tuple[int, ...]) -> int:
    k = len(stages[0])
    return sum(
        max(job[(s + o) % k] for job, o in zip(stages, offsets, strict=True)) for s in range(k)
    )


def _spanning(stages: list[tuple[int, ...]], offsets: tuple[int, ...]) -> int:
    """Least d_0 + ... + d_3, by trying all corners.

    With d_0 and d_2 given, d_1 and d_3 are as short as they may be, so that the sum is piecewise
    linear in those two: its least value lies where two of the lines cross at which it bends.
    """
    m, p = [0] * 4, [0] * 4
    for (first, second, third), o in zip(stages, offsets, strict=True):
        p[-o % 4] = max(p[-o % 4], first)
        m[(2 - o) % 4] = max(m[(2 - o) % 4], second)
        m[(3 - o) % 4] = max(m[(3 - o) % 4], third)
    zeroth, second_ = {m[0], p[0] - m[1], p[3] - m[3]}, {m[2], p[1] - m[1], p[2] - m[3]}
    slopes = (p[0] - p[1], p[3] - p[2])
    corners = {
        *product(zeroth, second_),
        *((a, a - c) for a in zeroth for c in slopes),
        *((b + c, b) for b in second_ for c in slopes),
    }
    return min(
        a + max(m[1], p[0] - a, p[1] - b) + b + max(m[3], p[2] - b, p[3] - a)
        for a, b in corners
        if a >= m[0] and b >= m[2]
    )


def correlation(one: tuple[int, ...], other: tuple[int, ...]) -> float | None:
    """Pearson's coefficient of two series; None where it is not defined."""
    n = len(one)
    if n < 2 or len(other) != n:
        return None
    mean_x, mean_y = sum(one) / n, sum(other) / n
    xx = sum((x - mean_x) ** 2 for x in one)
    yy = sum((y - mean_y) ** 2 for y in other)
    if not xx or not yy:
        return None
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(one, other, strict=True)) / sqrt(xx * yy)


def percentile(series: tuple[int, ...], percent: int) -> int:
    """The smallest value that at least so many percent of a series do not exceed."""
    return sorted(series)[max(1, ceil(percent * len(series) / 100)) - 1]


class Enumeration:
    """The partitions of the jobs of one round, and the places of each."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.sharing = round_.sharing
        self.running = {job.name: job.running for job in round_.jobs if job.running is not None}
        self.hosts = {
            name: entry for entry in round_.cluster.hosts for name in ranges.expand(entry.name)
        }
        closed, self.reserved = set(), defaultdict(set)
        for reservation in round_.reservations:
            for name in ranges.expand(reservation.host):
                if reservation.gpus is None:
                    closed.add(name)
                self.reserved[name].update(
                    range(self.hosts[name].gpus or 0)
                    if reservation.gpus is None
                    else reservation.gpus
                )
        self.open = [n for n, e in self.hosts.items() if e.healthy and n not in closed]
        colocated: defaultdict[object, list[str]] = defaultdict(list)
        for name, now in self.running.items():
            if any(g.gpu >= WHOLE for g in self.job(name).options[now.option].groups):
                colocated[frozenset(self.placed(now.tasks).items())].append(name)
        self.groups_that_run = {frozenset(names) for names in colocated.values() if len(names) > 1}
        self.periods: dict[tuple[str, ...], int] = {}
        self.conflicts = {frozenset(pair) for pair in self.sharing.conflicts}
        if self.sharing.correlation is not None:
            for one, other in combinations(round_.jobs, 2):
                if one.profile is None or other.profile is None:
                    continue
                found = correlation(one.profile.load, other.profile.load)
                if found is not None and found >= self.sharing.correlation / 1000 - 1e-12:
                    self.conflicts.add(frozenset((one.name, other.name)))
        self.plans = 0
        self.classes = self.priority_classes()

    def priority_classes(self) -> list[tuple[bool, int]]:
        """The precedences by which the first term is decided, highest first; [] if it is one term.

        Tiny rounds have no more than eight.
        """
        policy = self.round.policy
        if policy.priority != "strict" or policy.terms[0] != "weighted_throughput":
            return []
        compete = [job for job in self.round.jobs if not (job.running and job.running.pinned)]
        levels = {self.precedence(job) for job in compete}
        return sorted(levels, reverse=True) if len(levels) > 1 else []

    @staticmethod
    def precedence(job: Job) -> tuple[bool, int]:
        return not job.opportunistic, job.priority

    def job(self, name: str) -> Job:
        return next(job for job in self.round.jobs if job.name == name)

    @staticmethod
    def placed(tasks: tuple[Task, ...]) -> dict[Key, Place]:
        return {(t.group, t.index): (t.host, tuple(sorted(t.gpus))) for t in tasks}

    # Which jobs hold GPUs together, and the value of that.

    def size(self, job: Job) -> int:
        if job.profile is not None and job.profile.memory:
            return percentile(job.profile.memory, self.sharing.percentile)
        return max(group.gpu_memory for group in job.options[0].groups)

    def shareable(self, job: Job) -> bool:
        first = job.options[0]
        whole = all(group.gpu % WHOLE == 0 and not group.mig for group in first.groups)
        return bool(job.profile and whole and first.milli_gpu) and job.anti_affinity is None

    @staticmethod
    def grouping_key(option: Option) -> object:
        raw = option.model_dump(exclude=_FREE_TO_DIFFER)
        return {
            **raw,
            "groups": [
                {k: v for k, v in group.items() if k not in _OF_GROUPS} for group in raw["groups"]
            ],
        }

    def period(self, members: tuple[Job, ...]) -> int:
        key = tuple(job.name for job in members)
        if key not in self.periods:
            stages = [job.profile.stages for job in members if job.profile]
            shortest, _ = period_of(stages, spanning=self.sharing.spanning)
            factor = (MILLION, *self.sharing.contention)[len(members) - 1]
            self.periods[key] = -(-shortest * factor // MILLION)
        return self.periods[key]

    def iteration(self, job: Job) -> int:
        assert job.profile is not None
        return job.profile.iteration or sum(job.profile.stages)

    def may_form(self, members: tuple[Job, ...]) -> bool:
        if len(members) == 1:
            return True
        period = self.period(members)
        return (
            len(members) <= self.sharing.most
            and period <= sum(self.iteration(job) for job in members)
            and all(
                job.profile.slowdown is None
                or period * 1000 <= job.profile.slowdown * self.iteration(job)
                for job in members
                if job.profile
            )
            and not any(
                frozenset((a.name, b.name)) in self.conflicts for a, b in combinations(members, 2)
            )
        )

    def may_join(self, members: tuple[Job, ...], job: Job) -> bool:
        slots = 4 if self.sharing.spanning else len(self.sharing.resources)
        return (
            len(members) < min(slots, 4)
            and all(self.shareable(one) for one in (members[0], job))
            and self.grouping_key(members[0].options[0]) == self.grouping_key(job.options[0])
        )

    def partitions(self) -> list[tuple[Unit, ...]]:
        """Every partition of some jobs into units, all pinned jobs among them."""
        partitions: list[tuple[tuple[tuple[Job, ...], int], ...]] = [()]
        for job in self.round.jobs:
            following = []
            options = range(len(job.options))
            if job.running is not None:
                options = range(job.running.option, job.running.option + 1)
            for partition in partitions:
                if job.running is None or not job.running.pinned:
                    following.append(partition)
                following += [(*partition, ((job,), option)) for option in options]
                if 0 in options:
                    for i, (members, option) in enumerate(partition):
                        if option == 0 and self.may_join(members, job):
                            following.append(
                                (*partition[:i], ((*members, job), 0), *partition[i + 1 :])
                            )
            if len(following) > MAX_PARTITIONS:
                raise TooManyPlansError
            partitions = following
        units = [
            tuple(Unit(members, option, self.may_form(members)) for members, option in partition)
            for partition in partitions
        ]
        return [partition for partition in units if self.allowed(partition)]

    def allowed(self, partition: tuple[Unit, ...]) -> bool:
        """Whether groups that break a rule run as they are, as needed, and quotas are respected.

        Whoever shares GPUs with a pinned job does so before and after.
        """
        for unit in partition:
            names = frozenset(job.name for job in unit.members)
            if not unit.may_form and names not in self.groups_that_run:
                return False
            for job in unit.members:
                if job.running is not None and job.running.pinned and names != self.mates(job):
                    return False
        if self.sharing.as_needed:
            save = sum((len(u.members) - 1) * u.members[0].options[0].milli_gpu for u in partition)
            if save > self.may_save():
                return False
        return self.within_quotas(partition)

    def mates(self, job: Job) -> frozenset[str]:
        """The jobs that run on the GPUs of a job, itself too."""
        found = (names for names in self.groups_that_run if job.name in names)
        return next(found, frozenset({job.name}))

    def may_save(self) -> int:
        already = sum(
            (len(names) - 1) * self.job(min(names)).options[0].milli_gpu
            for names in self.groups_that_run
        )
        has = sum(
            WHOLE * ((entry.gpus or 0) - len(self.reserved[name]))
            for name, entry in self.hosts.items()
            if entry.healthy
        )
        lack = sum(job.options[0].milli_gpu for job in self.round.jobs) - has
        if lack <= 0:
            return already
        largest = max((j.options[0].milli_gpu for j in self.round.jobs if j.profile), default=0)
        return max(already, lack + largest - 1000)

    def within_quotas(self, partition: tuple[Unit, ...]) -> bool:
        def asks(option: Option) -> Counter[str]:
            total: Counter[str] = Counter()
            for g in option.groups:
                wants = {"gpu": g.gpu, "cpu": g.cpu, "memory": g.memory, **g.resources}
                total.update({name: amount * g.count for name, amount in wants.items()})
            return total

        chosen = {job.name: unit.option for unit in partition for job in unit.members}
        for tenant in self.round.tenants:
            mine = [job for job in self.round.jobs if job.tenant == tenant.name]
            if not any(job.running is None and job.name in chosen for job in mine):
                continue
            before, after = Counter[str](), Counter[str]()
            for job in mine:
                if job.running is not None:
                    before += asks(job.options[job.running.option])
                if job.name in chosen:
                    after += asks(job.options[chosen[job.name]])
            if any(after[r] > max(limit, before[r]) for r, limit in tenant.quota.items()):
                return False
        return True

    def speed(self, job: Job, option: int) -> int:
        given = None if job.profile is None else job.profile.sensitivity
        if given is None:
            return MILLION
        group = job.options[option].groups[0]
        rows = [i for i, c in enumerate(given.cores) if c * group.gpu <= group.cpu * WHOLE]
        columns = [i for i, m in enumerate(given.memory) if m * group.gpu <= group.memory * WHOLE]
        return given.speeds[rows[-1]][columns[-1]] if rows and columns else 0

    def value(self, unit: Unit) -> int:
        """What a unit adds to the first term."""
        term = self.round.policy.terms[0]
        alone = len(unit.members) == 1
        if term == "efficiency":
            if unit.members[0].profile is None:
                return 0
            slots = 4 if self.sharing.spanning else len(self.sharing.resources)
            period = self.iteration(unit.members[0]) if alone else self.period(unit.members)
            work = sum(sum(job.profile.stages) for job in unit.members if job.profile)
            return MILLION * work // (slots * period)
        return sum(self.rate(unit, job) for job in unit.members)

    def rate(self, unit: Unit, job: Job) -> int:
        """What a member of a unit adds to the first term, a rate."""
        speed = self.speed(job, unit.option)
        if len(unit.members) > 1:
            speed = speed * self.iteration(job) // self.period(unit.members)
        weighted = self.round.policy.terms[0] == "weighted_throughput"
        return speed * (job.weight if weighted else 1)

    def values(self, unit: Unit) -> tuple[int, ...]:
        """What a unit adds to each term that the first one stands for."""
        if not self.classes:
            return (self.value(unit),)
        total = dict.fromkeys(self.classes, 0)
        for job in unit.members:
            if job.running is None or not job.running.pinned:
                total[self.precedence(job)] += self.rate(unit, job)
        return tuple(total.values())

    # Where they can be.

    def best(self) -> Best:
        value_of: dict[Unit, tuple[int, ...]] = {}
        by_value: defaultdict[tuple[int, ...], list[tuple[Unit, ...]]] = defaultdict(list)
        for partition in self.partitions():
            total = (0,) * max(len(self.classes), 1)
            for unit in partition:
                key = Unit(tuple(j.name for j in unit.members), unit.option, unit.may_form)  # type: ignore[arg-type]
                if key not in value_of:
                    value_of[key] = self.values(unit)
                total = tuple(map(add, total, value_of[key]))
            by_value[total].append(partition)
        for value in sorted(by_value, reverse=True):
            for partition in by_value[value]:
                for places in self.places(partition):
                    self.plans += 1
                    if self.plans > MAX_PLANS:
                        raise TooManyPlansError
                    plan = self.written(partition, places)
                    checked = verify(self.round, plan)
                    if checked.ok:
                        assert tuple(checked.terms.values())[: len(value)] == value
                        return Best(value, plan)
        raise AssertionError("a round of which no plan is valid, not even to keep what runs")

    def places(self, partition: tuple[Unit, ...]) -> Iterator[list[dict[Key, Place]]]:
        """All placements of the tasks of all units, those that stay before the others."""
        for stays in product(*(self.stays(unit) for unit in partition)):
            residual = Residual(self)
            fixed = [
                residual.take(self.asks(unit, key), place)
                for unit, stay in zip(partition, stays, strict=True)
                for key, place in stay.items()
            ]
            if all(fixed):
                yield from self.anew(partition, [dict(stay) for stay in stays], residual, 0)

    def stays(self, unit: Unit) -> list[dict[Key, Place]]:
        """Which tasks of a unit are where some member runs; {}: all arrive."""
        found: list[dict[Key, Place]] = []
        for job in unit.members:
            if job.running is None:
                continue
            if job.running.pinned or not unit.may_form:
                return [self.placed(job.running.tasks)]
            placed = self.placed(job.running.tasks)
            for number in range(1, len(placed) + 1):
                for keys in combinations(placed, number):
                    stay = {key: placed[key] for key in keys}
                    if stay not in found:
                        found.append(stay)
        return [*found, {}]

    def asks(self, unit: Unit, key: Key) -> dict[str, int]:
        """What a unit's task takes of its host: CPU the most that a member asks, the rest added."""
        asks: Counter[str] = Counter()
        cpu = 0
        for job in unit.members:
            group = job.options[unit.option].groups[key[0]]
            cpu = max(cpu, group.cpu)
            asks.update({"memory": group.memory, **group.resources})
        return {**asks, "cpu": cpu, "gpu": unit.members[0].options[unit.option].groups[key[0]].gpu}

    def anew(
        self,
        partition: tuple[Unit, ...],
        chosen: list[dict[Key, Place]],
        residual: Residual,
        at: int,
    ) -> Iterator[list[dict[Key, Place]]]:
        """Place the tasks of unit `at`, and of all after it, that have no place yet."""
        if at == len(partition):
            yield [dict(places) for places in chosen]
            return
        unit = partition[at]
        groups = unit.members[0].options[unit.option].groups
        missing: list[list[Key]] = [
            [(g, i) for i in range(group.count) if (g, i) not in chosen[at]]
            for g, group in enumerate(groups)
        ]
        if not unit.may_form and any(missing):
            return
        needed = sum(self.size(job) for job in unit.members)
        for hosts in product(
            *(combinations_with_replacement(self.open, len(keys)) for keys in missing)
        ):
            inside, placed = residual.copy(), dict(chosen[at])
            for keys, names in zip(missing, hosts, strict=True):
                for key, name in zip(keys, names, strict=True):
                    entry = self.hosts[name]
                    models = groups[key[0]].gpu_models
                    if models is not None and entry.gpu_model not in models:
                        break
                    if len(unit.members) > 1 and needed > (entry.gpu_memory or 0):
                        break
                    place = inside.find(self.asks(unit, key), name)
                    if place is None:
                        break
                    placed[key] = place
                else:
                    continue
                break
            else:
                yield from self.anew(
                    partition, [*chosen[:at], placed, *chosen[at + 1 :]], inside, at + 1
                )

    def written(self, partition: tuple[Unit, ...], places: list[dict[Key, Place]]) -> Plan:
        """The plan."""
        at: dict[str, tuple[int, dict[Key, Place]]] = {
            job.name: (unit.option, placed)
            for unit, placed in zip(partition, places, strict=True)
            for job in unit.members
        }
        decisions = []
        for job in self.round.jobs:
            if job.name not in at and job.running is None:
                decisions.append(Decision(job=job.name, decision=DecisionKind.WAIT))
            elif job.name not in at:
                decisions.append(Decision(job=job.name, decision=DecisionKind.PREEMPT))
            else:
                option, placed = at[job.name]
                kind = DecisionKind.START
                if job.running is not None:
                    same = placed == self.placed(job.running.tasks)
                    kind = DecisionKind.KEEP if same else DecisionKind.MIGRATE
                tasks = tuple(
                    Task(group=g, index=i, host=host, gpus=gpus)
                    for (g, i), (host, gpus) in sorted(placed.items())
                )
                decisions.append(Decision(job=job.name, decision=kind, option=option, tasks=tasks))
        sections: list[dict[str, object]] = []
        stopped = [d.job for d in decisions if d.decision is DecisionKind.PREEMPT]
        moved = [d.job for d in decisions if d.decision is DecisionKind.MIGRATE]
        if stopped or moved:
            sections.append({"kind": "moves", "steps": stopped, "needs_spare": moved})
        groups = [unit.members for unit in partition if len(unit.members) > 1]
        if groups:
            sections.append({"kind": "groups", "groups": [self.listed(group) for group in groups]})
        plan = Plan(decisions=tuple(decisions), sections=tuple(sections))
        return with_displacers(self.round, plan)

    def listed(self, members: tuple[Job, ...]) -> dict[str, object]:
        stages = [job.profile.stages for job in members if job.profile]
        _, offsets = period_of(stages, spanning=self.sharing.spanning)
        return {
            "members": [
                {"job": job.name, "offset": o} for job, o in zip(members, offsets, strict=True)
            ],
            "period": self.period(members),
        }


class Residual:
    """What is left of hosts and GPUs while tasks are placed."""

    def __init__(self, of: Enumeration | None = None) -> None:
        self.left: dict[str, dict[str, int]] = {}
        self.gpus: dict[str, list[int]] = {}
        self.reserved: dict[str, set[int]] = {} if of is None else of.reserved
        for name, entry in of.hosts.items() if of is not None else ():
            self.left[name] = {
                "cpu": entry.cpu or 0, "memory": entry.memory or 0, **entry.resources
            }  # fmt: skip
            self.gpus[name] = [WHOLE] * (entry.gpus or 0)

    def copy(self) -> Residual:
        other = Residual()
        other.left = {name: dict(left) for name, left in self.left.items()}
        other.gpus = {name: list(gpus) for name, gpus in self.gpus.items()}
        other.reserved = self.reserved
        return other

    def take(self, asks: dict[str, int], place: Place) -> bool:
        """Take what a task asks of a place; False if that is not there."""
        host, gpus = place
        for resource, amount in asks.items():
            if resource != "gpu" and amount:
                left = self.left[host].get(resource, 0) - amount
                if left < 0:
                    return False
                self.left[host][resource] = left
        for gpu in gpus:
            self.gpus[host][gpu] -= min(asks["gpu"], WHOLE)
            if self.gpus[host][gpu] < 0:
                return False
        return True

    def find(self, asks: dict[str, int], host: str) -> Place | None:
        """Take what a task asks of a host, and return where; shares lie as tightly as they can."""
        share, number = min(asks["gpu"], WHOLE), -(-asks["gpu"] // WHOLE)
        able = sorted(
            (left, gpu)
            for gpu, left in enumerate(self.gpus[host])
            if left >= share and gpu not in self.reserved.get(host, set())
        )
        if len(able) < number:
            return None
        place = host, tuple(sorted(gpu for _, gpu in able[:number]))
        return place if self.take(asks, place) else None
