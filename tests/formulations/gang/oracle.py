"""Every plan of a tiny round whose running jobs stay, by brute force, from its document alone.

Jobs are decided one after the other; what matters to those that follow is only what each host is
and what it has left, so hosts are anonymous and plans that leave the same behind are one state. No
other symmetry is used, and nothing is shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from placewright.instances.derived import ranges
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Certificate
from placewright.instances.documents.round import Round

WHOLE = 1000
MAX_STATES = 10_000
SENSE = {
    "value": 1,
    **{f"value_{k}": 1 for k in range(1, 9)},
    "progress": 1,
    "disruption": -1,
    "remaining": -1,
    "freed": 1,
    "spread": -1,
    "proximity": -1,
    "opened": -1,
    "leftover": -1,
    "entitled": 1,
    "share": 1,
    **{f"share_{k}": 1 for k in range(2, 9)},
    "share_all": 1,
    "stranded": -1,
}
Vector = tuple[int, ...]


class TooManyPlansError(Exception):
    """The round is not tiny."""


class Host(NamedTuple):
    """What a host is and has left; `gpus` is the free milli-GPU of each GPU, sorted."""

    domains: tuple[str, ...]
    model: str
    busy: bool
    touched: bool
    left: tuple[int, ...]
    gpus: tuple[int, ...]


class Ask(NamedTuple):
    """A task group: `required` and the keys of `weights` are positions of levels, hosts last."""

    count: int
    gpu: int
    wants: tuple[int, ...]
    models: tuple[str, ...] | None
    required: int | None
    weights: tuple[tuple[int, int], ...]


class Layout(NamedTuple):
    """Hosts after a job has started, and what its places cost."""

    hosts: tuple[Host, ...]
    spread: int
    proximity: int


class Menu(NamedTuple):
    """An option: what it is worth, takes of each resource in all, and its groups."""

    value: int
    takes: tuple[int, ...]
    asks: tuple[Ask, ...]


def entitled(round_: Round, menus: dict[str, list[Menu]], job: Job, option: int) -> bool:
    """Whether a job stands on its tenant's guarantee with an option, by the definition."""
    (guarantee,) = [t.guarantee for t in round_.tenants if t.name == job.tenant] or [{}]
    if job.opportunistic or not guarantee:
        return not job.opportunistic
    names = resources_of(round_)

    def place(other: Job) -> tuple[object, ...]:
        return -other.priority, other.running is None, round_.jobs.index(other)

    def asks(other: Job, number: int, name: str) -> int:
        return menus[other.name][number].takes[names.index(name)]

    def counts(other: Job, name: str) -> int:
        if other.running is not None:
            mine = other.running.option
            if job.running is not None and not entitled(round_, menus, other, mine):
                return 0
            return asks(other, mine, name)
        numbers = [o for o in range(len(other.options)) if entitled(round_, menus, other, o)]
        return max((asks(other, number, name) for number in numbers), default=0)

    before = [
        other
        for other in round_.jobs
        if other.tenant == job.tenant and not other.opportunistic and place(other) < place(job)
    ]
    if job.running is not None:
        before = [other for other in before if other.running is not None]
    return all(
        not asks(job, option, name)
        or asks(job, option, name) + sum(counts(other, name) for other in before) <= limit
        for name, limit in guarantee.items()
    )


class Priorities:
    """Strict priority: which jobs count in which of the terms that `value` stands for.

    The worths of all classes are kept in one number, each in digits of its own. Tiny rounds have
    no more than eight precedences.
    """

    BASE = 10**12

    def __init__(self, round_: Round) -> None:
        menus = {job.name: [menu(round_, job, o) for o in job.options] for job in round_.jobs}
        self._worth, self._level, levels = {}, {}, set()
        for job in round_.jobs:
            for o in range(len(job.options)) if job.running is None else [job.running.option]:
                level = (entitled(round_, menus, job, o), job.priority)
                self._level[job.name, o] = level
                self._worth[job.name, o] = menus[job.name][o].value
                if job.running is None or not job.running.pinned:
                    levels.add(level)
        strict = round_.policy.priority == "strict" and len(levels) > 1
        self.levels = sorted(levels) if strict else []
        classes = [f"value_{k}" for k in range(1, len(self.levels) + 1)]
        self.value_terms = classes or ["value"]
        self.terms = tuple(
            name
            for term in round_.policy.terms
            for name in (self.value_terms if term == "value" else [term])
        )

    def worth(self, job: Job, option: int) -> int:
        """The value of a job with an option, in the digits of its class."""
        worth, level = self._worth[job.name, option], self._level[job.name, option]
        return worth * self.BASE ** self.levels.index(level) if self.levels else worth

    def values(self, total: int) -> list[int]:
        """The sums of all classes, the highest first, from a sum of worths."""
        found = []
        for _ in self.levels or [None]:
            digits = (total + self.BASE // 2) % self.BASE - self.BASE // 2
            found.insert(0, digits if self.levels else total)
            total = (total - digits) // self.BASE
        return found


def resources_of(round_: Round) -> tuple[str, ...]:
    """`gpu` and all that some host has or some task wants."""
    names = {name for host in round_.cluster.hosts for name in host.resources}
    for job in round_.jobs:
        names |= {n for o in job.options for g in o.groups for n in g.resources}
    return ("gpu", "cpu", "memory", *sorted(names))


def hosts_of(round_: Round, *, empty: bool = False) -> tuple[Host, ...]:
    """Healthy hosts as the running jobs leave them; with `empty` all hosts as if new and whole."""
    names = resources_of(round_)[1:]
    parent = {d.name: d.parent for d in round_.cluster.domains}
    held: dict[str, list[tuple[Ask, tuple[int, ...]]]] = {}
    for job in round_.jobs:
        for task in job.running.tasks if job.running else ():
            asks = menu(round_, job, job.options[job.running.option]).asks
            held.setdefault(task.host, []).append((asks[task.group], task.gpus))
    hosts = []
    for entry in round_.cluster.hosts:
        path: list[str] = []
        above = entry.parent
        while above is not None:
            path.insert(0, above)
            above = parent[above]
        has = {"cpu": entry.cpu or 0, "memory": entry.memory or 0, **entry.resources}
        for name in ranges.expand(entry.name):
            left, gpus = [has.get(r, 0) for r in names], [WHOLE] * (entry.gpus or 0)
            for ask, chosen in () if empty else held.get(name, ()):
                left = [a - b for a, b in zip(left, ask.wants, strict=True)]
                for gpu in chosen:
                    gpus[gpu] -= min(ask.gpu, WHOLE)
            if entry.healthy or empty:
                model = entry.gpu_model if entry.gpus else None
                busy = name in held and not empty
                hosts.append(
                    Host(tuple(path), model or "", busy, False, tuple(left), tuple(sorted(gpus)))
                )
    return tuple(sorted(hosts))


def menu(round_: Round, job: Job, option: Option) -> Menu:
    """An option of a job in numbers."""
    names = resources_of(round_)
    levels = (*round_.cluster.levels, "host")
    weights = round_.spread_weights()
    takes = dict.fromkeys(names, 0)
    asks = []
    for group in option.groups:
        wants = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        charged = weights if group.preferred is None else set(group.preferred) & set(weights)
        asks.append(
            Ask(
                group.count,
                group.gpu,
                tuple(wants.get(r, 0) for r in names[1:]),
                None if group.gpu_models is None else tuple(group.gpu_models),
                None if group.required is None else levels.index(group.required),
                tuple(sorted((levels.index(name), weights[name]) for name in charged)),
            )
        )
        for name, amount in ({"gpu": group.gpu} | wants).items():
            takes[name] += amount * group.count
    value = option.value
    if value is None:
        value = takes["gpu"] * job.weight
    return Menu(value, tuple(takes.values()), tuple(asks))


def after_task(host: Host, ask: Ask) -> Iterator[Host]:
    """Yield a host in each way in which one task can take its part of it."""
    left = tuple(a - b for a, b in zip(host.left, ask.wants, strict=True))
    if min(left, default=0) < 0 or (ask.models is not None and host.model not in ask.models):
        return
    gpus = list(host.gpus)
    if ask.gpu >= WHOLE:
        if gpus.count(WHOLE) < ask.gpu // WHOLE:
            return
        for _ in range(ask.gpu // WHOLE):
            gpus[gpus.index(WHOLE)] = 0
        choices = [gpus]
    elif ask.gpu:
        choices = []
        for free in set(gpus):
            if free >= ask.gpu:
                choices.append([*gpus])
                choices[-1][gpus.index(free)] -= ask.gpu
    else:
        choices = [gpus]
    for chosen in choices:
        yield host._replace(left=left, gpus=tuple(sorted(chosen)), touched=True)


def after_group(hosts: tuple[Host, ...], ask: Ask) -> set[tuple[tuple[Host, ...], tuple[int, ...]]]:
    """All ways to place a group: the hosts afterwards, and the host of each task, ascending.

    Tasks of a group are identical, so their hosts may be taken in ascending order.
    """
    ways: set[tuple[tuple[Host, ...], tuple[int, ...]]] = {(hosts, ())}
    for _ in range(ask.count):
        ways = {
            ((*now[:h], after, *now[h + 1 :]), (*places, h))
            for now, places in ways
            for h in range(places[-1] if places else 0, len(hosts))
            for after in after_task(now[h], ask)
        }
    return ways


def domain(hosts: tuple[Host, ...], host: int, level: int) -> object:
    """The domain of a level in which a host is; the host itself on the last level."""
    return hosts[host].domains[level] if level < len(hosts[host].domains) else host


def layouts(hosts: tuple[Host, ...], asks: tuple[Ask, ...]) -> set[Layout]:
    """All ways to place a job that differ in what they leave or cost."""
    ways = {(hosts, (), 0)}
    for ask in asks:
        following = set()
        for now, others, spread in ways:
            for after, places in after_group(now, ask):
                if (
                    ask.required is not None
                    and len({domain(hosts, h, ask.required) for h in places}) > 1
                ):
                    continue
                extra = sum(
                    ask.count
                    * ask.gpu
                    * weight
                    * (len({domain(hosts, h, level) for h in places}) - 1)
                    for level, weight in ask.weights
                )
                following.add((after, tuple(sorted((*others, *places))), spread + extra))
        ways = following
    return {
        Layout(tuple(sorted(after)), spread, apart(hosts, places)) for after, places, spread in ways
    }


def apart(hosts: tuple[Host, ...], places: Iterable[int]) -> int:
    """Levels at which two tasks are in different domains, summed over all pairs of tasks."""
    if not hosts:
        return 0
    levels = range(len(hosts[0].domains) + 1)
    return sum(
        domain(hosts, a, level) != domain(hosts, b, level)
        for a, b in combinations(places, 2)
        for level in levels
    )


class Kind(NamedTuple):
    """A kind of task that is to be expected."""

    weight: int
    gpu: int
    wants: tuple[int, ...]
    models: tuple[str, ...] | None


def kinds_of(round_: Round) -> list[Kind]:
    """The kinds of the policy's mix, or of the tasks of all jobs (the first way to run)."""
    names = resources_of(round_)[1:]
    if round_.policy.mix is not None:
        given = [(kind, kind.weight, {}) for kind in round_.policy.mix]
    else:
        chosen = [job.options[job.running.option if job.running else 0] for job in round_.jobs]
        given = [(g, g.count, g.resources) for option in chosen for g in option.groups]
    return [
        Kind(
            weight,
            kind.gpu,
            tuple({"cpu": kind.cpu, "memory": kind.memory, **more}.get(r, 0) for r in names),
            kind.gpu_models,
        )
        for kind, weight, more in given
    ]


def stranded_on(kinds: list[Kind], model: str, left: tuple[int, ...], gpus: list[int]) -> int:
    """What free GPUs of one host are stranded for each kind, times its weight, summed."""
    total = 0
    for kind in kinds:
        need = min(kind.gpu, WHOLE)
        able = [free for free in gpus if free >= need]
        runs = (
            kind.gpu > 0
            and len(able) >= max(kind.gpu // WHOLE, 1)
            and all(a >= b for a, b in zip(left, kind.wants, strict=True))
            and (kind.models is None or model in kind.models)
        )
        total += kind.weight * (sum(free for free in gpus if free < need) if runs else sum(gpus))
    return total


def quotas_of(round_: Round) -> dict[str, tuple[int | None, ...]]:
    """What each tenant's pending jobs may take of each resource (None: no quota)."""
    names = resources_of(round_)
    held = {tenant.name: dict.fromkeys(names, 0) for tenant in round_.tenants}
    for job in round_.jobs:
        if job.running is not None and job.tenant is not None:
            takes = menu(round_, job, job.options[job.running.option]).takes
            for name, amount in zip(names, takes, strict=True):
                held[job.tenant][name] += amount
    return {
        t.name: tuple(
            max(0, t.quota[name] - held[t.name][name]) if name in t.quota else None
            for name in names
        )
        for t in round_.tenants
    }


def take(quota: tuple[int | None, ...], takes: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """What is left of a quota, or None when it is not enough."""
    left = tuple(None if q is None else q - t for q, t in zip(quota, takes, strict=True))
    return None if any(q is not None and q < 0 for q in left) else left


def attainable(round_: Round) -> set[Vector]:
    """The term values of every plan that keeps the running jobs, in the policy's order.

    The terms `remaining` and `freed` have no part in such rounds, nor have reservations.
    """
    terms, priorities = round_.policy.terms, Priorities(round_)
    pairs, uses = "proximity" in terms, {"opened", "leftover"} & set(terms)
    tenants = [t.name for t in round_.tenants]
    quotas = quotas_of(round_)
    known: dict[tuple[object, ...], set[Layout]] = {}
    kinds = kinds_of(round_) if "stranded" in terms else []
    states = {(hosts_of(round_), tuple(quotas[t] for t in tenants), 0, 0, 0)}
    for job in round_.jobs:
        if job.running is not None:
            continue
        following = set(states)
        for number, option in enumerate(job.options):
            choice = menu(round_, job, option)
            worth = priorities.worth(job, number)
            for hosts, left, value, spread, proximity in states:
                if job.tenant is not None:
                    at = tenants.index(job.tenant)
                    rest = take(left[at], choice.takes)
                    if rest is None:
                        continue
                    left = (*left[:at], rest, *left[at + 1 :])
                key = (hosts, choice.asks)
                if key not in known:
                    known[key] = layouts(*key)
                for layout in known[key]:
                    after = layout.hosts
                    if not uses:
                        after = tuple(host._replace(touched=False) for host in after)
                    following.add(
                        (
                            after,
                            left,
                            value + worth,
                            spread + layout.spread,
                            proximity + layout.proximity * pairs,
                        )
                    )
            if len(following) > MAX_STATES:
                raise TooManyPlansError
        states = following
    return {
        tuple(
            {
                **dict(zip(priorities.value_terms, priorities.values(value), strict=True)),
                "disruption": 0,
                "spread": spread,
                "proximity": proximity,
                "opened": sum(host.touched and not host.busy for host in hosts),
                "leftover": sum(sum(host.gpus) for host in hosts if host.touched),
                "stranded": sum(
                    stranded_on(kinds, host.model, host.left, list(host.gpus)) for host in hosts
                ),
            }[term]
            for term in priorities.terms
        )
        for hosts, _, value, spread, proximity in states
    }


def optimum(round_: Round, plans: set[Vector] | None = None) -> Vector:
    """The lexicographically best term values."""
    senses = [SENSE[term] for term in Priorities(round_).terms]
    every = attainable(round_) if plans is None else plans
    return max(every, key=lambda v: [s * x for s, x in zip(senses, v, strict=True)])


def best_given(round_: Round, plans: set[Vector], values: Vector, index: int) -> int:
    """The best value of term `index` among the plans no worse than `values` in the terms before."""
    senses = [SENSE[term] for term in Priorities(round_).terms]
    among = [
        plan[index]
        for plan in plans
        if all(senses[i] * (plan[i] - values[i]) >= 0 for i in range(index))
    ]
    return max(among, key=lambda x: senses[index] * x)


def check_bounds(plans: set[Vector], certificate: Certificate) -> None:
    """Assert that a plan is one of all and that none beats a bound that its certificate has."""
    values = tuple(term.value for term in certificate.terms)
    senses = [SENSE[term.name] for term in certificate.terms]
    assert values in plans
    for index, term in enumerate(certificate.terms):
        best = max(
            senses[index] * plan[index]
            for plan in plans
            if all(senses[i] * (plan[i] - values[i]) >= 0 for i in range(index))
        )
        for bound in (term.certified, term.claimed):
            assert bound is None or senses[index] * bound >= best, (term, best)


def can_start(round_: Round, job: Job, hosts: tuple[Host, ...]) -> bool:
    """Whether some option of a job finds a place on these hosts, whatever the quota."""
    return any(layouts(hosts, menu(round_, job, option).asks) for option in job.options)
