"""Rules about limits: quotas, caps, pools, shares of tenants, the disruption budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.policy import DisruptionLimits
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.policies import one_section, unknown_fields
from placewright.instances.verify.reading import (
    HostFacts,
    Placed,
    Reading,
    demand,
    unavailable_hosts,
)
from placewright.instances.verify.result import Finding, Rule, rules
from placewright.instances.verify.rules.gang.terms import lost_work
from placewright.topology.units import WHOLE_GPU

# Accounts: the quotas and caps that jobs count in, and what they hold of each.


Resource: TypeAlias = str | Measure
"""What is limited: of a quota a resource by name, of a cap a measure."""

Held: TypeAlias = Counter[Resource]


class Account(NamedTuple):
    """A tenant, in the whole cluster or in a region; or a cap."""

    kind: str
    name: str
    region: str | None = None

    def __str__(self) -> str:
        where = "" if self.region is None else f" in {self.region}"
        return f"{self.kind} {self.name + where!r}"


def limits_of(round_: Round, *, by_region: bool) -> Mapping[Account, Mapping[Resource, int]]:
    """Return what may be held in each account; `by_region`: also in those of regions."""
    limits: dict[Account, Mapping[Resource, int]] = {}
    for tenant in round_.tenants:
        if tenant.quota:
            limits[Account("tenant", tenant.name)] = dict(tenant.quota.items())
    for name, cap in round_.caps.items():
        limits[Account("cap", name)] = dict(cap.limits.items())
    for region in round_.geo.regions if by_region else ():
        for name, quota in region.quotas.items():
            limits[Account("tenant", name, region.name)] = {"gpu": quota}
    return limits


def accounts_of(job: Job, region: str | None = None) -> list[Account]:
    """Return the accounts that a job counts in, in a region if one is given."""
    found = [Account("cap", name) for name in job.caps]
    if job.tenant is not None:
        found.append(Account("tenant", job.tenant))
        if region is not None:
            found.append(Account("tenant", job.tenant, region))
    return found


def asked_in(account: Account, option: Option) -> Mapping[Resource, int]:
    """Return what a job with an option counts in an account."""
    return dict(counted(option).items()) if account.kind == "cap" else asked_by(option)


def asked_by(option: Option) -> Held:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked: Held = Counter(option.uses)
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked


def counted(option: Option) -> Mapping[Measure, int]:
    """Return what a job with an option counts in caps."""
    asked = asked_by(option)
    found = Counter({Measure("jobs"): 1, Measure("gpus"): asked.pop("gpu")})
    found.update({Measure("resources", str(name)): amount for name, amount in asked.items()})
    for group in option.groups:
        for model in set(group.gpu_models or ()):
            found[Measure("gpus_by_model", model)] += group.milli_gpu
    return found


def text_of(resource: Resource, amount: int) -> str:
    """Return an amount with its unit."""
    return resource.text(amount) if isinstance(resource, Measure) else amount_text(resource, amount)


# What is held of accounts, and the rules that it is no more than they allow.


_Asked: TypeAlias = dict[str, Mapping[Resource, int]]
"""What jobs count, by name."""


class Changed(NamedTuple):
    """What started and preempted jobs count in an account, and resized ones more than before."""

    starts: _Asked
    victims: _Asked
    resized: _Asked

    @classmethod
    def none(cls) -> Self:
        """Return what nobody changes."""
        return cls({}, {}, {})


class Ledger:
    """What jobs hold of each account with limits, before the round and after it.

    A job counts in the region of its first task. Who is kept or migrates holds what it held.
    """

    def __init__(
        self, reading: Reading, limits: Mapping[Account, Mapping[Resource, int]] | None = None
    ) -> None:
        self._reading = reading
        by_region = reading.data is not None
        self.limits = limits_of(reading.round, by_region=by_region) if limits is None else limits

    def accounts(self, job: Job, host: str | None) -> list[Account]:
        """Return the accounts with limits that a job counts in, whose first task is on a host."""
        region, data = None, self._reading.data
        if data is not None and job.tenant is not None and host is not None:
            region = data.facts.regions[data.facts.region_of(self._reading.cluster.hosts[host])]
        return [account for account in accounts_of(job, region) if account in self.limits]

    def accounts_before(self, job: str) -> list[Account]:
        """Return the accounts with limits that a running job counts in."""
        host = self._reading.running[job].tasks[0].host
        return self.accounts(self._reading.jobs[job], host)

    def accounts_after(self, placed: Placed) -> list[Account]:
        """Return the accounts with limits that a job counts in where the plan has it."""
        return self.accounts(placed.job, placed.tasks[0].host.name if placed.tasks else None)

    def most(self, account: Account) -> dict[Resource, int]:
        """Return what may be held in an account: its limits, or what was held if that is more."""
        limits, held = self.limits.get(account, {}), self.before.get(account, Counter())
        return {resource: max(limit, held[resource]) for resource, limit in limits.items()}

    @cached_property
    def before(self) -> Mapping[Account, Held]:
        """What is held of each account before the round, where that is something."""
        before: defaultdict[Account, Held] = defaultdict(Counter)
        for name in self._reading.running if self.limits else ():
            for account in self.accounts_before(name):
                before[account].update(asked_in(account, self._reading.option_run(name)))
        return before

    @cached_property
    def after(self) -> Mapping[Account, Held]:
        """What is held of each account after the round, where that is or was something."""
        found = {account: Counter(held) for account, held in self.before.items()}
        for account, changed in self.changes.items():
            held = found.setdefault(account, Counter())
            for asked in (*changed.starts.values(), *changed.resized.values()):
                held.update(asked)
            for asked in changed.victims.values():
                held.subtract(asked)
        return found

    @cached_property
    def changes(self) -> Mapping[Account, Changed]:
        """What each start and each preempted or resized job counts, by account."""
        found: defaultdict[Account, Changed] = defaultdict(Changed.none)
        for placed in self._reading.started:
            for account in self.accounts_after(placed):
                found[account].starts[placed.job.name] = asked_in(account, placed.option)
        for victim in self._reading.preempted:
            name = victim.job.name
            for account in self.accounts_before(name):
                found[account].victims[name] = asked_in(account, self._reading.option_run(name))
        for placed in self._reading.migrated:
            for account in self.accounts_after(placed) if placed.resizes else ():
                more: Held = Counter(asked_in(account, placed.option))
                more.subtract(asked_in(account, self._reading.option_run(placed.job.name)))
                found[account].resized[placed.job.name] = more
        return found


def exceeded(reading: Reading, kind: str, *, by_region: bool = False) -> Iterator[Finding]:
    """Require that jobs hold no more of accounts of a kind than their limits, or than they held.

    Running jobs may hold more than a limit that was lowered meanwhile. Kept and migrated jobs go on
    holding what they held, so only an account in which a job starts or resizes can come to hold
    more.
    """
    limits = {
        account: of
        for account, of in limits_of(reading.round, by_region=by_region).items()
        if (account.kind, account.region is not None) == (kind, by_region)
    }
    come = [*(placed for placed in reading.migrated if placed.resizes), *reading.started]
    if not limits or not come:
        return
    ledger = Ledger(reading, limits)
    last = {a: placed.path for placed in come for a in ledger.accounts_after(placed)}
    for account, path in last.items():
        word = "quota" if kind == "tenant" else kind
        where = "" if account.region is None else f" in region {account.region!r}"
        for resource, most in ledger.most(account).items():
            limit, held = limits[account][resource], ledger.before.get(account, Counter())[resource]
            after = ledger.after[account][resource]
            if after > most:
                yield Finding(
                    path,
                    f"jobs of {kind} {account.name!r} hold {text_of(resource, after)}{where} "
                    f"together; expected at most {text_of(resource, most)} "
                    f"({word} {text_of(resource, limit)}, "
                    f"held before the round {text_of(resource, held)})",
                )


def quota(reading: Reading) -> Iterator[Finding]:
    """Require that a tenant holds no more than its quota, or than it held if that is more."""
    return exceeded(reading, "tenant")


def cap(reading: Reading) -> Iterator[Finding]:
    """Require that the jobs of a cap hold no more than it, or than they held if that is more."""
    return exceeded(reading, "cap")


RULES_OF_QUOTAS = rules(quota)
RULES_OF_CAPS = rules(cap)


# The rule about pools: limits on what jobs take together of what hosts share.


PoolDomain: TypeAlias = tuple[int, str | None]
"""A pool, by its index, and one domain of its level; None is the whole cluster."""

Taken: TypeAlias = Counter[PoolDomain]
"""What jobs take of pool domains."""


class Pools:
    """The pools of a cluster, and what jobs take of each of their domains.

    Nothing is looked at if there are none: then no job takes anything.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._pools = reading.round.cluster.pools
        levels = reading.cluster.levels
        self._positions = [None if p.level is None else levels[p.level] for p in self._pools]

    def __bool__(self) -> bool:
        """Whether there are pools."""
        return bool(self._pools)

    def taken(self, option: Option, tasks: Iterable[tuple[TaskGroup, HostFacts]]) -> Taken:
        """Return what tasks of a job take with an option: the job once, or each task, by pool."""
        taken: Taken = Counter()
        self._add(taken, option, tasks)
        return taken

    def _add(
        self, taken: Taken, option: Option, tasks: Iterable[tuple[TaskGroup, HostFacts]]
    ) -> None:
        """Add what tasks of a job take with an option."""
        placed = list(tasks)
        for number, (pool, position) in enumerate(zip(self._pools, self._positions, strict=True)):
            if pool.per == "task":
                for group, host in placed:
                    if each := group.resources.get(pool.resource, 0):
                        taken[number, None if position is None else host.domains[position]] += each
            elif amount := option.uses.get(pool.resource, 0):
                for domain in {
                    None if position is None else h.domains[position] for _, h in placed
                }:
                    taken[number, domain] += amount

    def taken_by(self, placed: Placed) -> Taken:
        """Return what a job takes where the plan has it."""
        return self.taken(placed.option, ((task.group, task.host) for task in placed.tasks))

    def taken_by_all(self, jobs: Iterable[Placed]) -> Taken:
        """Return what jobs take together where the plan has them."""
        taken: Taken = Counter()
        for placed in jobs if self._pools else ():
            self._add(taken, placed.option, ((task.group, task.host) for task in placed.tasks))
        return taken

    def held_by(self, job: str) -> Taken:
        """Return what a running job holds before the round."""
        return self.held([job])

    def held(self, jobs: Iterable[str]) -> Taken:
        """Return what running jobs hold together before the round."""
        held: Taken = Counter()
        hosts = self._reading.cluster.hosts
        for job in jobs if self._pools else ():
            option, tasks = self._reading.option_run(job), self._reading.running[job].tasks
            self._add(held, option, ((option.groups[t.group], hosts[t.host]) for t in tasks))
        return held

    @cached_property
    def before(self) -> Taken:
        """What all running jobs hold before the round."""
        return self.held(self._reading.running)

    def capacity(self, where: PoolDomain) -> int:
        """Return what a domain has."""
        pool, domain = self._pools[where[0]], where[1]
        return pool.capacity if domain is None else pool.domains.get(domain, pool.capacity)

    def limit(self, where: PoolDomain) -> int:
        """Return what may be taken of a domain: what it has, or what was held if that is more."""
        return max(self.capacity(where), self.before[where])

    @cached_property
    def after(self) -> Taken:
        """What all jobs hold after the round."""
        return self.taken_by_all(self._reading.placed)

    def added_by(self, placed: Placed) -> Taken:
        """Return what a job takes of domains beyond what it held before the round."""
        taken, name = self.taken_by(placed), placed.job.name
        return taken - self.held_by(name) if name in self._reading.running else taken

    def held_with(
        self, back: Collection[str], gone: Collection[str], among: Collection[PoolDomain]
    ) -> Taken:
        """Return what jobs hold of some domains, with running jobs back and others not come.

        Those of `gone` do not start, or migrate and take no more of a domain than before.
        """
        held: Taken = Counter({where: self.after[where] for where in among})
        for name in {*back, *gone} & self._anew.keys() if among else ():
            placed = self._anew[name]
            held.subtract(self.taken_by(placed) if name in back else self.added_by(placed))
        held.update(self.held(set(back) if among else ()))
        return held

    @cached_property
    def _anew(self) -> Mapping[str, Placed]:
        """Started and migrated jobs, by name."""
        return {placed.job.name: placed for placed in self._reading.placed_anew}

    def overfull(self, held: Taken, of: Iterable[PoolDomain]) -> PoolDomain | None:
        """Return a domain of some of which more is held than its limit, None if there is none."""
        return next((where for where in of if held[where] > self.limit(where)), None)

    def text(self, where: PoolDomain, held: Taken) -> str:
        """Return what is held of a domain, in words."""
        resource = self._pools[where[0]].resource
        return f"jobs hold {amount_text(resource, held[where])} together in {self._place(where)}"

    def limit_text(self, where: PoolDomain) -> str:
        """Return the limit of a domain in words, and where it comes from."""
        resource = self._pools[where[0]].resource
        limit, capacity = self.limit(where), self.capacity(where)
        return (
            f"{amount_text(resource, limit)} (pool {amount_text(resource, capacity)}, "
            f"held before the round {amount_text(resource, self.before[where])})"
        )

    def _place(self, where: PoolDomain) -> str:
        number, domain = where
        if domain is None:
            return "the whole cluster"
        return f"{self._pools[number].level} {domain!r}"


def pool(reading: Reading) -> Iterator[Finding]:
    """Require that jobs hold no more of a pool domain than it has, or than before if that is more.

    What runs beyond the capacity of a pool may stay, and gets no fuller.
    """
    pools = Pools(reading)
    if not pools:
        return
    for where in (where for where in pools.after if pools.overfull(pools.after, [where])):
        last = [placed.path for placed in reading.placed if where in pools.taken_by(placed)][-1]
        yield Finding(
            last, f"{pools.text(where, pools.after)}; expected at most {pools.limit_text(where)}"
        )


RULES_OF_POOLS = rules(pool)


# The term `share` and the section `shares`: dominant shares of tenants, recomputed.
#
# A tenant's dominant share is the largest, over the resources that healthy hosts have, of what
# its jobs hold, out of what these hosts have in all, divided by its weight; in parts of `UNIT`,
# rounded down. The term stands for one term per tenant that has jobs: the sums of the smallest
# one, two, ... shares, `MOST` of them at most, the last of which is then the sum of all.


KIND = "shares"
TERM = "share"
UNIT = 100_000
MOST = 8
ALL = f"{TERM}_all"
NAMES = (TERM, *(f"{TERM}_{k}" for k in range(2, MOST + 1)))


class Share(NamedTuple):
    """The dominant share of a tenant, and the resource of which that is."""

    tenant: str
    share: int
    resource: str | None


def shares(reading: Reading) -> list[Share]:
    """Return the dominant share of each tenant that has jobs, in the round's order."""
    capacity = Counter[str]()
    for host in reading.cluster.hosts.values():
        if host.healthy:
            capacity["gpu"] += host.hardware.gpus * WHOLE_GPU
            capacity.update(host.hardware.capacity)
    held: dict[str, Held] = {name: Counter() for name in _counting(reading.round)}
    for placed in (*reading.kept, *reading.placed_anew):
        if placed.job.tenant in held:
            held[placed.job.tenant].update(asked_by(placed.option))
    found = []
    for tenant in reading.round.tenants:
        if tenant.name in held:
            mine = held[tenant.name]
            of = {
                name: UNIT * mine[name] // (most * tenant.weight)
                for name, most in capacity.items()
                if most
            }
            dominant = max(of, key=lambda name: (of[name], name), default=None)
            found.append(Share(tenant.name, max(of.values(), default=0), dominant))
    return found


def sums(reading: Reading) -> dict[str, int]:
    """Return the terms that `share` stands for in this round; none if its policy has it not.

    `share` is the smallest dominant share of a tenant with jobs, in 0.001 %, rounded down;
    `share_2` the sum of the two smallest, and so on; of more than eight, seven and `share_all`.
    """
    if not _asked(reading):
        return {}
    ordered = sorted(one.share for one in shares(reading))
    numbers = range(1, max(min(len(ordered), MOST), 1) + 1)
    found = {name: sum(ordered[:k]) for name, k in zip(NAMES, numbers, strict=False)}
    if len(ordered) > MOST:
        found.popitem()
        found[ALL] = sum(ordered)
    return found


def _counting(round_: Round) -> list[str]:
    owners = {job.tenant for job in round_.jobs}
    return [tenant.name for tenant in round_.tenants if tenant.name in owners]


def form(reading: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the shares recomputed, and nothing else; `sections.section` applies it."""
    expected = [one._asdict() for one in shares(reading)] if _asked(reading) else []
    given = entry.get("tenants")
    if not isinstance(given, list | tuple):
        yield Finding(
            (*path, "tenants"),
            f"tenants {value_text(given)} is no list; expected an entry per tenant",
        )
        return
    where = f" of section {KIND!r}"
    yield from unknown_fields(entry, ("kind", "tenants"), path, "kind and tenants", where)
    if len(given) != len(expected):
        yield Finding(
            (*path, "tenants"),
            f"{len(given)} tenants are listed; expected the {len(expected)} that have jobs, "
            "if the policy has the term share",
        )
    for number, (mine, right) in enumerate(zip(given, expected, strict=False)):
        if mine != right:
            yield Finding(
                (*path, "tenants", number),
                f"{value_text(mine)} is not the tenant's share; expected {value_text(right)}",
            )


def listed(reading: Reading) -> Iterator[Finding]:
    """Require one section `shares` if the policy has the term `share`."""
    missing = f"no section {KIND!r} with the term {TERM}" if _asked(reading) else ""
    return one_section(reading, KIND, missing)


def _asked(reading: Reading) -> bool:
    return TERM in reading.round.policy.terms


RULES_OF_SHARES: tuple[Rule[Reading], ...] = (Rule("shares", listed),)


# The rule about the disruption budget: how much a plan may do to running jobs.


class _Limit(NamedTuple):
    """A limit, None for none, and what the plan does, as amounts and as text."""

    most: int | None
    done: int
    text: str
    limit: str


def disruption_budget(reading: Reading) -> Iterator[Finding]:
    """Require that all jobs that stop, move or resize stay within each limit of the policy.

    Jobs on hosts that failed, are away now or are to be vacated do not count. No other job is
    preempted that started less than `min_run_s` ago.
    """
    limits = reading.round.policy.limits
    budget = None if limits is None else limits.disruption
    if budget is None:
        return
    gone = unavailable_hosts(reading)
    preempted = {
        victim.job.name: victim.path
        for victim in reading.preempted
        if _counts(reading, victim.job.name, gone)
    }
    migrated, resized = (
        {
            placed.job.name: placed.path
            for placed in reading.migrated
            if placed.resizes is resizes and _counts(reading, placed.job.name, gone)
        }
        for resizes in (False, True)
    )
    paths = list((preempted | migrated | resized).values())
    for limit in _limits(reading, budget, list(preempted), list(migrated), list(resized)):
        if limit.most is not None and limit.done > limit.most:
            yield Finding(paths[-1], f"{limit.text}; expected at most {limit.limit}")
    least = budget.min_run_s or 0
    for name, path in preempted.items():
        started = reading.running[name].started
        if started is not None and reading.round.now < started + least:
            yield Finding(
                path,
                f"job {name!r} is preempted {reading.round.now - started} s after its start; "
                f"expected at least {least} s (min_run_s)",
            )


def _counts(reading: Reading, job: str, gone: frozenset[str]) -> bool:
    """Whether no host of a running job has failed, is to be vacated or `gone`."""
    return all(
        task.host not in reading.vacated | gone and reading.cluster.hosts[task.host].healthy
        for task in reading.running[job].tasks
    )


def _limits(
    reading: Reading,
    budget: DisruptionLimits,
    preempted: list[str],
    migrated: list[str],
    resized: list[str],
) -> Iterator[_Limit]:
    """Yield each limit with what the plan does."""
    jobs, gpus, moves = budget.preempted_jobs, budget.preempted_gpus, budget.migrated_jobs
    stopped = sum(reading.option_run(name).milli_gpu for name in preempted)
    most = budget.lost_gpu_s
    lost = sum(lost_work(reading, name) for name in (*preempted, *migrated, *resized))
    stops, goes = len(preempted), len(migrated)
    yield _Limit(jobs, stops, f"{stops} jobs are preempted", f"{jobs} (preempted_jobs)")
    yield _Limit(
        gpus,
        stopped,
        f"jobs of {amount_text('gpu', stopped)} are preempted",
        "" if gpus is None else f"{amount_text('gpu', gpus)} (preempted_gpus)",
    )
    yield _Limit(moves, goes, f"{goes} jobs migrate", f"{moves} (migrated_jobs)")
    sizes, number = budget.resized_jobs, len(resized)
    yield _Limit(sizes, number, f"{number} jobs resize", f"{sizes} (resized_jobs)")
    yield _Limit(
        None if most is None else most * WHOLE_GPU,
        lost,
        f"{lost / WHOLE_GPU:g} GPU-seconds of work are lost",
        f"{most} (lost_gpu_s)",
    )


def disruption_limit(reading: Reading) -> Iterator[Finding]:
    """Require a budget where a job waits for its sake, and that the job is a guaranteed one.

    Only the evictions of guaranteed jobs are made without asking what they are worth.
    """
    limits = reading.round.policy.limits
    owners = {tenant.name for tenant in reading.round.tenants if tenant.cells}
    for index, decision in enumerate(reading.plan.decisions):
        job = reading.jobs.get(decision.job)
        if decision.reason is not Reason.DISRUPTION_LIMIT or job is None:
            continue
        given = limits is not None and limits.disruption is not None
        if not given or job.tenant not in owners or job.opportunistic:
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {decision.reason.value!r} of job {job.name!r}; expected it of guaranteed "
                "jobs under a disruption budget only",
            )


RULES_OF_DISRUPTION_BUDGET = rules(disruption_budget, disruption_limit)
