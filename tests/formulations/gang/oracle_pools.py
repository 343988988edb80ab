"""Every plan of a tiny round with pools, by brute force.

Tasks take whole GPUs and a resource of hosts and pools. It reads the Round document and shares
nothing with the code under test. All that can happen to each job is written down as what it takes,
and all sets of such are tried; a plan counts if no limit is exceeded and its preemptions are lawful
by counts of GPUs. Tasks that change GPUs on their host are left out: they gain nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.round import Round
from tests.formulations.gang.oracle import Priorities

MAX_PLANS = 10_000
Vector = tuple[int, ...]
Limit = tuple[str, object, str]  # `host`, `pool` or `tenant`; which; the resource
Taken = Counter[Limit]


class TooManyPlansError(Exception):
    """The round is not tiny."""


class Way(NamedTuple):
    """What can happen to a job.

    `taken` is what it takes of each limit, `came` are the hosts where tasks arrive. `option` is
    None if the job does not run.
    """

    job: int
    option: int | None
    taken: Taken
    came: frozenset[int] = frozenset()
    disruption: int = 0
    spread: int = 0
    remaining: int = 0


class PoolOracle:
    """The plans of one round."""

    def __init__(self, round_: Round) -> None:
        self.round, document = round_, round_.cluster
        above = {(d.level, d.name): d.parent for d in document.domains}
        asked = {r for j in round_.jobs for o in j.options for g in o.groups for r in g.resources}
        shared = {pool.resource for pool in document.pools}
        self.domains: list[dict[str | None, str]] = []
        self.limits: dict[Limit, int] = {}
        self.gpus: list[int] = []
        self.healthy: list[bool] = []
        for entry in document.hosts:
            for name in expand(entry.name):
                inside: dict[str | None, str] = {"host": name, None: ""}
                parent = entry.parent
                for level in reversed(document.levels):
                    assert parent is not None
                    inside[level] = parent
                    parent = above[level, parent]
                number = len(self.domains)
                self.domains.append(inside)
                self.gpus.append(entry.gpus or 0)
                self.healthy.append(entry.healthy)
                self.limits["host", number, "gpu"] = entry.gpus or 0
                for resource in asked - shared | entry.resources.keys():
                    self.limits["host", number, resource] = entry.resources.get(resource, 0)
        vacated = {name for entry in round_.policy.vacate for name in expand(entry)}
        self.vacated = [inside["host"] in vacated for inside in self.domains]
        self.index = {inside["host"]: h for h, inside in enumerate(self.domains)}
        self.home = {
            j: self._taken(job, job.options[job.running.option], self._places(job))
            for j, job in enumerate(round_.jobs)
            if job.running is not None
        }
        before: Taken = Counter()
        for taken in self.home.values():
            before.update(taken)
        for number, pool in enumerate(document.pools):
            for inside in self.domains:
                where = "pool", (number, inside[pool.level]), pool.resource
                has = pool.domains.get(inside[pool.level], pool.capacity)
                self.limits[where] = max(has, before[where])
        for tenant in round_.tenants:
            if "gpu" in tenant.quota:
                key = "tenant", tenant.name, "gpu"
                self.limits[key] = max(tenant.quota["gpu"], before[key])
        self.ways = [list(self._ways(j)) for j in range(len(round_.jobs))]

    # ---- what can happen to a job

    def _places(self, job: Job) -> list[tuple[int, ...]]:
        """Return the hosts of a running job's tasks, by group."""
        assert job.running is not None
        at = {(task.group, task.index): self.index[task.host] for task in job.running.tasks}
        groups = job.options[job.running.option].groups
        return [tuple(at[g, i] for i in range(group.count)) for g, group in enumerate(groups)]

    def _taken(self, job: Job, option: Option, hosts: list[tuple[int, ...]]) -> Taken:
        taken: Taken = Counter()
        for group, places in zip(option.groups, hosts, strict=True):
            for h in places:
                taken["host", h, "gpu"] += group.gpu // 1000
                for resource, amount in group.resources.items():
                    taken["host", h, resource] += amount
            taken["tenant", job.tenant, "gpu"] += group.gpu * len(places)
        everywhere = [h for places in hosts for h in places]
        for number, pool in enumerate(self.round.cluster.pools):
            for domain, amount in self._of_pool(pool, option, hosts, everywhere).items():
                taken["pool", (number, domain), pool.resource] += amount
        return +taken

    def _of_pool(
        self, pool: Pool, option: Option, hosts: list[tuple[int, ...]], everywhere: list[int]
    ) -> Counter[str]:
        """Return what a job takes of each domain of a pool."""
        if pool.per == "job":
            used = {self.domains[h][pool.level] for h in everywhere}
            return Counter(dict.fromkeys(used, option.uses.get(pool.resource, 0)))
        found: Counter[str] = Counter()
        for group, places in zip(option.groups, hosts, strict=True):
            for h in places:
                found[self.domains[h][pool.level]] += group.resources.get(pool.resource, 0)
        return found

    def _ways(self, j: int) -> Iterator[Way]:
        job = self.round.jobs[j]
        if job.running is None:
            yield Way(j, None, Counter())
            for o, option in enumerate(job.options):
                for hosts in product(*map(self._orders, option.groups)):
                    if self._together(option, hosts):
                        came = frozenset(h for places in hosts for h in places)
                        taken = self._taken(job, option, list(hosts))
                        if all(taken[key] <= self.limits.get(key, taken[key]) for key in taken):
                            yield Way(j, o, taken, came, 0, self._spread(option, hosts))
            return
        running, places = job.running, self._places(job)
        option = job.options[running.option]
        stays = self._remaining(option, places)
        yield Way(j, running.option, self.home[j], remaining=stays)
        if running.pinned:
            return
        assert running.migrate_cost is not None
        assert running.preempt_cost is not None
        yield Way(j, None, Counter(), frozenset(), running.preempt_cost + option.milli_gpu)
        every = range(len(self.domains))
        for hosts in product(*(product(every, repeat=group.count) for group in option.groups)):
            moved = [
                (g, i)
                for g, mine in enumerate(hosts)
                for i, h in enumerate(mine)
                if h != places[g][i]
            ]
            up = all(self.healthy[h] for mine in hosts for h in mine)
            up &= all(self._may_arrive(option.groups[g], hosts[g][i]) for g, i in moved)
            if moved and up and self._together(option, hosts):
                cost = running.migrate_cost + sum(option.groups[g].gpu for g, _ in moved)
                came = frozenset(hosts[g][i] for g, i in moved)
                taken = self._taken(job, option, list(hosts))
                spread = self._spread(option, hosts)
                stays = self._remaining(option, hosts)
                yield Way(j, running.option, taken, came, cost, spread, stays)

    def _orders(self, group: TaskGroup) -> list[tuple[int, ...]]:
        """Return where the tasks of a group may start; which of them is where does not matter."""
        may = [h for h in range(len(self.domains)) if self._may_arrive(group, h)]
        return list(combinations_with_replacement(may, group.count))

    def _may_arrive(self, group: TaskGroup, h: int) -> bool:
        allowed = group.hosts is None or self.domains[h]["host"] in group.hosts
        return allowed and self.healthy[h] and not self.vacated[h]

    def _remaining(self, option: Option, hosts: Sequence[tuple[int, ...]]) -> int:
        """Return the milli-GPU of tasks on hosts that are to be empty."""
        return sum(
            group.gpu * self.vacated[h]
            for group, places in zip(option.groups, hosts, strict=True)
            for h in places
        )

    def _together(self, option: Option, hosts: tuple[tuple[int, ...], ...]) -> bool:
        return all(
            group.required is None or len({self.domains[h][group.required] for h in places}) == 1
            for group, places in zip(option.groups, hosts, strict=True)
        )

    def _spread(self, option: Option, hosts: tuple[tuple[int, ...], ...]) -> int:
        return sum(
            group.milli_gpu * weight * (len({self.domains[h][level] for h in places}) - 1)
            for group, places in zip(option.groups, hosts, strict=True)
            for level, weight in self.round.spread_weights().items()
        )

    # ---- plans

    def attainable(self) -> set[Vector]:
        """The term values of every plan, in the policy's order."""
        plans: list[tuple[tuple[Way, ...], Taken]] = [((), Counter())]
        for ways in self.ways:
            following = []
            for plan, taken in plans:
                for way in ways:
                    more = taken + way.taken
                    if all(more[key] <= self.limits.get(key, more[key]) for key in way.taken):
                        following.append(((*plan, way), more))
                if len(following) > MAX_PLANS:
                    raise TooManyPlansError
            plans = following
        found: set[Vector] = set()
        for plan, taken in plans:
            vector = self._vector(plan)
            if vector not in found and self._lawful(plan, taken):
                found.add(vector)
        return found

    def _vector(self, plan: tuple[Way, ...]) -> Vector:
        priorities, value = Priorities(self.round), 0
        for way in plan:
            job = self.round.jobs[way.job]
            if job.running is None:
                value += 0 if way.option is None else priorities.worth(job, way.option)
            elif way.option is None:
                value -= priorities.worth(job, job.running.option)
        busy = {h for j in self.home for mine in self._places(self.round.jobs[j]) for h in mine}
        terms = {
            "disruption": sum(way.disruption for way in plan),
            "spread": sum(way.spread for way in plan),
            "remaining": sum(way.remaining for way in plan),
            "opened": len({h for way in plan for h in way.came} - busy),
        }
        terms |= dict(zip(priorities.value_terms, priorities.values(value), strict=True))
        return tuple(terms[term] for term in priorities.terms)

    # ---- preemption

    def _lawful(self, plan: tuple[Way, ...], taken: Taken) -> bool:
        """Whether no stopped job could stay, and only higher ones profit."""
        jobs = self.round.jobs
        stopped = [way.job for way in plan if way.job in self.home and way.option is None]
        if not all(self._over(taken + self.home[j], self.home[j]) for j in stopped):
            return False
        return not any(
            self._others_profit(plan, stopped, level)
            for level in {jobs[j].priority for j in stopped}
        )

    def _others_profit(self, plan: tuple[Way, ...], stopped: list[int], level: int) -> bool:
        """Whether something is short for victims of a level though nobody above it has come."""
        jobs = self.round.jobs
        back = {j for j in stopped if jobs[j].priority >= level}
        higher = [way for way in plan if way.came and jobs[way.job].priority > level]
        movers = [way for way in higher if way.job in self.home]
        while more := {w.job for w in movers if w.job not in back and self._goes_back(w, back)}:
            back |= more
        gone = {way.job for way in higher} - self.home.keys()
        held: Taken = Counter()
        for way in plan:
            if way.job not in gone:
                held.update(self.home[way.job] if way.job in back else way.taken)
        victims = [j for j in back & set(stopped) if jobs[j].priority == level]
        asked = {key for j in back for key in self.home[j] if key[0] != "tenant"}
        asked |= {key for j in victims for key in self.home[j] if key[0] == "tenant"}
        return self._over(held, asked)

    def _goes_back(self, mover: Way, back: set[int]) -> bool:
        """Whether a job came to a host of those that are back, or takes more of a pool of them."""
        there = {key for j in back for key in self.home[j]}
        on_hosts = {h for kind, h, _ in there if kind == "host"}
        more = mover.taken - self.home[mover.job]
        return bool(on_hosts & mover.came) or any(k in there for k in more if k[0] == "pool")

    def _over(self, held: Taken, asked: set[Limit] | Taken) -> bool:
        return any(held[key] > self.limits.get(key, held[key]) for key in asked)
