"""Every plan of a tiny round whose running jobs may move or stop, by brute force.

From the Round document alone, which oracle.py helps to read. Each running job gets a fate: kept,
preempted, or migrated with some of its tasks moved. The tasks that move are all lifted from their
places and placed again one by one; then the pending jobs start or wait, one after the other. GPUs
of one host are anonymous but for what is left of them and whether a task may arrive there. If some
job is preempted, they also tell which tasks that may have to return they held, and what those took
that arrived and are above a job that stops. Of those that start only the rank counts; a plan that
whatever follows can only make more unlawful is dropped at once. No other symmetry is used; states
that are equal are one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from placewright.instances.derived import ranges
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from tests.formulations.gang.oracle import (
    WHOLE,
    Ask,
    Priorities,
    TooManyPlansError,
    Vector,
    entitled,
    kinds_of,
    menu,
    quotas_of,
    resources_of,
    stranded_on,
    take,
)

MAX_WAYS = 20_000
Precedence = tuple[bool, int]  # whether a job is entitled, and its priority
Quotas = tuple[tuple[int | None, ...], ...]


class Site(NamedTuple):
    """What no plan changes of a host; `domains` ends with the host itself.

    `welcomes`: tasks may arrive, namely on the GPUs that are true in `gpus`.
    """

    domains: tuple[str, ...]
    model: str
    has: tuple[int, ...]
    gpus: tuple[bool, ...]
    healthy: bool
    vacated: bool
    welcomes: bool
    busy: bool


Who = tuple[str, int]  # the running job that moves, "" for all that start; its rank
Arrival = tuple[Who, tuple[int, ...]]  # who, and what they took


class Gpu(NamedTuple):
    """What is left of a GPU, whether tasks may arrive on it, tasks that left it, arrivals."""

    left: int
    welcomes: bool
    held: tuple[int, ...] = ()
    gets: tuple[Arrival, ...] = ()


class Host(NamedTuple):
    """A host in the middle of a plan, its GPUs sorted.

    `stays`: a task of a running job stays here. `gets`: a task arrived. `log`: what those took that
    are above a job that is preempted.
    """

    left: tuple[int, ...]
    gpus: tuple[Gpu, ...]
    stays: bool
    gets: bool = False
    log: tuple[Arrival, ...] = ()


class Task(NamedTuple):
    """A task to be placed; one that runs has a number, which no other has, and a place."""

    group: int
    ask: Ask
    number: int | None = None
    host: int | None = None
    gpus: tuple[int, ...] = ()


class Fate(NamedTuple):
    """A running job with the tasks that stay in place and those that leave, to stop or to move."""

    job: Job
    stay: tuple[Task, ...]
    leave: tuple[Task, ...] = ()
    stops: bool = False

    @property
    def hosts(self) -> set[int | None]:
        """Where the job was."""
        return {task.host for task in (*self.stay, *self.leave)}


class Story(NamedTuple):
    """The fates of the running jobs if some stop, whose `levels` of precedence ascend.

    The rank of a job is the number of levels that are lower than it. `owners` are the tenants of
    the jobs that stop; `where` are the hosts that they, and those that move, were on.
    """

    fates: dict[str, Fate]
    levels: tuple[Precedence, ...]
    owners: frozenset[str]
    where: tuple[int, ...]

    @property
    def stopped(self) -> list[str]:
        """The names of the jobs that stop."""
        return [name for name, fate in self.fates.items() if fate.stops]


class State(NamedTuple):
    """What the pending jobs still to come find.

    If a running job stops, `story` is the number of their fates in `Enumeration.stories`, and
    `starts` is what the tenants of those that stop have started, by tenant and rank.
    """

    hosts: tuple[Host, ...]
    quotas: Quotas
    story: int | None = None
    starts: tuple[tuple[tuple[str, int], tuple[int, ...]], ...] = ()


Hosts = tuple[Host, ...]
Places = tuple[tuple[int, int], ...]  # (group, host) of each task of a job, sorted


_PLANS: dict[str, tuple[set[Vector], set[Vector]] | None] = {}


def attainable_with_moves(round_: Round) -> set[Vector]:
    """The term values of every plan, in the order of the policy's terms.

    Remembered, since each backend tries the same rounds.

    Raises
    ------
    TooManyPlansError
        Single jobs can be placed in more than `MAX_WAYS` ways.
    """
    return attainable_by_counts(round_)[0]


def attainable_by_counts(round_: Round) -> tuple[set[Vector], set[Vector]]:
    """All plans, and those whose preempted jobs would find no other GPUs on their hosts either.

    Whole GPUs of a host are alike for whoever places jobs: a preempted job whose very GPUs another
    one has could have stayed, had that one taken GPUs beside it.

    Raises
    ------
    TooManyPlansError
        As `attainable_with_moves`.
    """
    key = round_.model_dump_json()
    if key not in _PLANS:
        try:
            _PLANS[key] = Enumeration(round_).vectors()
        except TooManyPlansError:
            _PLANS[key] = None
    plans = _PLANS[key]
    if plans is None:
        raise TooManyPlansError
    return plans


def plus(one: Vector, other: Vector) -> Vector:
    """Sum of two vectors."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def less(limits: tuple[int | None, ...], takes: tuple[int, ...]) -> tuple[int | None, ...]:
    """What is left of a quota, below nothing if it is exceeded."""
    return tuple(
        None if limit is None else limit - each for limit, each in zip(limits, takes, strict=True)
    )


def added(
    sums: tuple[tuple[Who, tuple[int, ...]], ...], who: Who, more: tuple[int, ...]
) -> tuple[tuple[Who, tuple[int, ...]], ...]:
    """Sums, ordered by whose they are, with more of `who`."""
    found = dict(sums)
    found[who] = plus(found[who], more) if who in found else more
    return tuple(sorted(found.items()))


def after_task(host: Host, task: Task, who: Who | None, *, returns: bool) -> set[Host]:
    """All that a host can be after a task of `who` (None: it does not matter) arrived.

    One that `returns` to the host that it left takes not quite the same GPUs, or else it would not
    have moved; a task without GPUs cannot return.
    """
    left = tuple(a - b for a, b in zip(host.left, task.ask.wants, strict=True))
    if min(left) < 0:
        return set()
    share, number = min(task.ask.gpu, WHOLE), -(-task.ask.gpu // WHOLE)
    able = [i for i, gpu in enumerate(host.gpus) if gpu.welcomes and gpu.left >= share]
    ways = set()
    log = host.log if who is None else added(host.log, who, task.ask.wants)
    for chosen in {tuple(host.gpus[i] for i in some) for some in combinations(able, number)}:
        if returns and all(task.number in gpu.held for gpu in chosen):
            continue
        gpus = list(host.gpus)
        for gpu in chosen:
            gets = gpu.gets if who is None else added(gpu.gets, who, (share, share == WHOLE))
            gpus.remove(gpu)
            gpus.append(Gpu(gpu.left - share, gpu.welcomes, gpu.held, gets))
        ways.add(Host(left, tuple(sorted(gpus)), host.stays, True, log))
    return ways


def forgotten(host: Host, numbers: frozenset[int | None]) -> Host:
    """A host that no longer tells where the tasks of these numbers were."""
    gpus = (gpu._replace(held=tuple(n for n in gpu.held if n not in numbers)) for gpu in host.gpus)
    return host._replace(gpus=tuple(sorted(gpus)))


def overfull(host: Host, tasks: list[Task], back: set[str], above: int | None) -> bool:
    """Whether a host has too little for tasks that return to it.

    What their jobs, `back`, took of it meanwhile is free again, and what those that started took
    whose rank is `above`.
    """

    def absent(who: Who) -> bool:
        name, rank = who
        return name in back or (name == "" and above is not None and rank > above)

    left, shares = host.left, {task.number: min(task.ask.gpu, WHOLE) for task in tasks}
    for who, takes in host.log:
        if absent(who):
            left = plus(left, takes)
    for task in tasks:
        left = less(left, task.ask.wants)
    return min(left, default=0) < 0 or any(
        gpu.left + sum(takes[0] for who, takes in gpu.gets if absent(who))
        < sum(shares.get(number, 0) for number in gpu.held)
        for gpu in host.gpus
    )


def overfull_by_counts(host: Host, tasks: list[Task]) -> bool:
    """Whether a host has too little for tasks that return, if those of whole GPUs make room."""
    left, shares = host.left, {task.number: min(task.ask.gpu, WHOLE) for task in tasks}
    for task in tasks:
        left = less(left, task.ask.wants)
    if min(left, default=0) < 0:
        return True
    whole, needed, taken = 0, 0, 0
    for gpu in host.gpus:
        arrived = sum(takes[1] for _, takes in gpu.gets)
        free, asked = gpu.left + WHOLE * arrived, sum(shares.get(n, 0) for n in gpu.held)
        if free < asked:
            return True
        whole += gpu.welcomes and free == WHOLE
        needed += gpu.welcomes and free == WHOLE and asked > 0
        taken += arrived
    return needed > whole - taken


class Enumeration:
    """The plans of one round; where single jobs can go is remembered, and counted in `ways`."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.levels = (*round_.cluster.levels, "host")
        self.sites = tuple(self._sites())
        self.menus = {job.name: [menu(round_, job, o) for o in job.options] for job in round_.jobs}
        self.priorities = Priorities(round_)
        self.kinds = kinds_of(round_) if "stranded" in round_.policy.terms else []
        self.tenants = [tenant.name for tenant in round_.tenants]
        self.known: dict[tuple[object, ...], set[tuple[Hosts, Vector]]] = {}
        self.arrivals: dict[tuple[object, ...], set[Host]] = {}
        self.without: dict[tuple[Host, frozenset[int | None]], Host] = {}
        self.overfull: dict[tuple[object, ...], bool] = {}
        self.unlawful: dict[tuple[object, ...], bool] = {}
        self.limits = quotas_of(round_)
        self.precedences: dict[tuple[str, int], Precedence] = {}
        self.ledger = [
            (tenant, r)
            for tenant in dict.fromkeys(j.tenant for j in round_.jobs if j.tenant is not None)
            for r in range(len(resources_of(round_)))
            if "share" in round_.policy.terms
        ]
        self.ways = 0
        self.stories: list[Story] = []

    def _sites(self) -> Iterator[Site]:
        names, cluster = resources_of(self.round)[1:], self.round.cluster
        reserved = [(n, r.gpus) for r in self.round.reservations for n in ranges.expand(r.host)]
        vacated = {n for entry in self.round.policy.vacate for n in ranges.expand(entry)}
        closed = vacated | {name for name, gpus in reserved if gpus is None}
        busy = {task.host for job in self.round.jobs if job.running for task in job.running.tasks}
        parent = {domain.name: domain.parent for domain in cluster.domains}
        for entry in cluster.hosts:
            path: list[str] = []
            above = entry.parent
            while above is not None:
                path.insert(0, above)
                above = parent[above]
            has = {"cpu": entry.cpu or 0, "memory": entry.memory or 0, **entry.resources}
            for name in ranges.expand(entry.name):
                kept_out = {gpu for host, gpus in reserved if host == name for gpu in gpus or ()}
                yield Site(
                    domains=(*path, name),
                    model=(entry.gpu_model if entry.gpus else None) or "",
                    has=tuple(has.get(resource, 0) for resource in names),
                    gpus=tuple(gpu not in kept_out for gpu in range(entry.gpus or 0)),
                    healthy=entry.healthy,
                    vacated=name in vacated,
                    welcomes=entry.healthy and name not in closed,
                    busy=name in busy,
                )

    def vector(self, holder: Job | None = None, option: int = 0, **amounts: int) -> Vector:
        """Amounts in the order of the policy's terms, 0 for a term that is not given.

        After them, where shares count, what a `holder` holds of each resource for its tenant.
        """
        terms = tuple(amounts.get(term, 0) for term in self.round.policy.terms)
        takes = () if holder is None else self.menus[holder.name][option].takes
        return terms + tuple(
            takes[r] if holder is not None and holder.tenant == tenant else 0
            for tenant, r in self.ledger
        )

    # ---- running jobs

    def fates(self) -> Iterator[tuple[Fate, ...]]:
        """Yield all that can happen to the running jobs, a fate for each."""
        index = {site.domains[-1]: h for h, site in enumerate(self.sites)}
        choices, count = [], 0
        for job in self.round.jobs:
            if job.running is None:
                continue
            asks = self.menus[job.name][job.running.option].asks
            tasks = tuple(
                Task(task.group, asks[task.group], count + i, index[task.host], tuple(task.gpus))
                for i, task in enumerate(job.running.tasks)
            )
            count += len(tasks)
            choices.append([Fate(job, tasks)])
            if not job.running.pinned:
                choices[-1].append(Fate(job, (), tasks, stops=True))
                for number in range(1, len(tasks) + 1):
                    for leave in combinations(tasks, number):
                        stay = tuple(task for task in tasks if task not in leave)
                        if all(self.sites[task.host].healthy for task in stay):
                            choices[-1].append(Fate(job, stay, leave))
        yield from product(*choices)

    def lifted(self, fates: tuple[Fate, ...]) -> Hosts:
        """The hosts with nothing but the tasks that stay."""
        hosts = []
        for h, site in enumerate(self.sites):
            left, free, held = site.has, [WHOLE] * len(site.gpus), [()] * len(site.gpus)
            stay = [task for fate in fates for task in fate.stay if task.host == h]
            for task in stay:
                left = tuple(a - b for a, b in zip(left, task.ask.wants, strict=True))
                for gpu in task.gpus:
                    free[gpu] -= min(task.ask.gpu, WHOLE)
            for fate in fates:
                for task in fate.leave:
                    if task.host == h:
                        for gpu in task.gpus:
                            held[gpu] = (*held[gpu], task.number)
            gpus = tuple(sorted(map(Gpu, free, site.gpus, held)))
            hosts.append(Host(left, gpus, bool(stay)))
        return tuple(hosts)

    def cost(self, fate: Fate) -> Vector:
        """What a fate adds to the terms, wherever the tasks that leave go."""
        running = fate.job.running
        option = self.menus[fate.job.name][running.option]
        disruption = 0
        if fate.leave:
            stop = running.preempt_cost if fate.stops else running.migrate_cost
            if stop is None:
                known = [at for at in (running.checkpoint, running.started) if at is not None]
                lost = self.round.now - known[0] if known else 0
                stop = option.takes[0] * (lost + running.restart_s)
            disruption = stop + sum(task.ask.gpu for task in fate.leave)
        stands = self.precedence(fate.job, running.option)[0]
        return self.vector(
            None if fate.stops else fate.job,
            running.option,
            value=-self.priorities.worth(fate.job, running.option) if fate.stops else 0,
            entitled=-option.value if fate.stops and stands else 0,
            disruption=disruption,
            freed=-disruption,
            remaining=sum(t.ask.gpu for t in fate.stay if self.sites[t.host].vacated),
        )

    def after_running(self) -> dict[State, set[Vector]]:
        """The states once the running jobs are decided, with the terms so far."""
        states: dict[State, set[Vector]] = defaultdict(set)
        for fates in self.fates():
            rest, terms = dict(self.limits), self.vector()
            for fate in fates:
                terms = plus(terms, self.cost(fate))
                if fate.stops and fate.job.tenant is not None:
                    back = self.menus[fate.job.name][fate.job.running.option].takes
                    rest[fate.job.tenant] = take(rest[fate.job.tenant], tuple(-b for b in back))
            story = self.story(fates)
            reached = {(self.lifted(fates), terms)}
            for fate in fates:
                if fate.leave and not fate.stops:
                    who = self.who(story, fate.job, fate.job.running.option)
                    settled = frozenset(() if who else (task.number for task in fate.leave))
                    reached = {
                        (self.forgotten(after, settled), plus(terms, more))
                        for hosts, terms in reached
                        for after, more in self.placed(
                            hosts,
                            fate.job,
                            fate.job.running.option,
                            fate.leave,
                            fate.stay,
                            who=who,
                        )
                    }
            for hosts, terms in reached:
                states[State(hosts, tuple(rest.values()), story)].add(terms)
        return {state: terms for state, terms in states.items() if not self.others_profit(state)}

    def story(self, fates: tuple[Fate, ...]) -> int | None:
        """The number of a new story, if some job stops."""
        stopped = [fate for fate in fates if fate.stops]
        if not stopped:
            return None
        levels = tuple(sorted({self.level(fate) for fate in stopped}))
        owners = frozenset(fate.job.tenant for fate in stopped if fate.job.tenant is not None)
        where = tuple(sorted({h for fate in fates if fate.leave for h in fate.hosts}))
        named = {fate.job.name: fate for fate in fates}
        self.stories.append(Story(named, levels, owners, where))
        return len(self.stories) - 1

    def rank(self, story: int | None, job: Job, option: int) -> int:
        """The number of precedences of jobs that stop which are lower."""
        levels = () if story is None else self.stories[story].levels
        return sum(level < self.precedence(job, option) for level in levels)

    def who(self, story: int | None, job: Job, option: int) -> Who | None:
        """Under whose name a job's arrivals are written down, if they matter."""
        rank = self.rank(story, job, option)
        return ("" if job.running is None else job.name, rank) if rank else None

    # ---- all jobs

    def placed(
        self,
        hosts: Hosts,
        job: Job,
        option: int,
        tasks: tuple[Task, ...],
        stay: tuple[Task, ...],
        *,
        who: Who | None,
    ) -> set[tuple[Hosts, Vector]]:
        """All ways to place tasks of a job beside those that stay: the hosts, and what it adds."""
        asks = self.menus[job.name][option].asks
        key = (hosts, asks, tasks, stay, who)
        if key not in self.known:
            ways = {(hosts, tuple(sorted((task.group, task.host) for task in stay)))}
            for task in tasks:
                ways = {
                    ((*now[:h], after, *now[h + 1 :]), tuple(sorted((*places, (task.group, h)))))
                    for now, places in ways
                    for h in range(len(hosts))
                    if self.may_arrive(task.ask, self.sites[h])
                    for after in self.after_task(now[h], task, who, returns=task.host == h)
                }
                self.ways += len(ways)
                if self.ways > MAX_WAYS:
                    raise TooManyPlansError
            self.known[key] = {
                (now, self.distance(asks, places))
                for now, places in ways
                if self.together(asks, places)
            }
        return self.known[key]

    def after_task(self, host: Host, task: Task, who: Who | None, *, returns: bool) -> set[Host]:
        """`after_task`, remembered."""
        key = (host, task.ask.gpu, task.ask.wants, who, task.number if returns else None)
        if key not in self.arrivals:
            self.arrivals[key] = after_task(host, task, who, returns=returns)
        return self.arrivals[key]

    def forgotten(self, hosts: Hosts, numbers: frozenset[int | None]) -> Hosts:
        """`forgotten` of all hosts, remembered."""
        for host in hosts:
            if (host, numbers) not in self.without:
                self.without[host, numbers] = forgotten(host, numbers)
        return tuple(self.without[host, numbers] for host in hosts)

    def precedence(self, job: Job, option: int) -> Precedence:
        """What a job displaces others by, with an option."""
        if (job.name, option) not in self.precedences:
            is_entitled = entitled(self.round, self.menus, job, option)
            self.precedences[job.name, option] = is_entitled, job.priority
        return self.precedences[job.name, option]

    def may_arrive(self, ask: Ask, site: Site) -> bool:
        """Whether a task may arrive on a host."""
        return site.welcomes and (ask.models is None or site.model in ask.models)

    # ---- preempted jobs

    def each_has_to_stop(self, state: State) -> bool:
        """Whether no job that stops could stay, it alone."""
        return state.story is None or all(
            self.breaks(state, {name}, None, {name}) for name in self.stories[state.story].stopped
        )

    def each_has_to_stop_by_counts(self, state: State) -> bool:
        """Whether none could stay either if tasks of whole GPUs took others of its hosts."""
        if state.story is None:
            return True
        story = self.stories[state.story]
        for name in story.stopped:
            fate = story.fates[name]
            tenant = fate.job.tenant
            if not (tenant and self.over_quota(state, {name}, None, tenant)) and not any(
                overfull_by_counts(state.hosts[h], [t for t in fate.leave if t.host == h])
                for h in fate.hosts
            ):
                return False
        return True

    def others_profit(self, state: State) -> bool:
        """Whether the jobs that stop could not stay even if none above them had come.

        Whoever starts later makes no difference once this is true.
        """
        if state.story is None:
            return False
        where = tuple(state.hosts[h] for h in self.stories[state.story].where)
        key = (state.story, where, state.starts)
        if key not in self.unlawful:
            self.unlawful[key] = any(self.profits(state, rank) for rank in self.ranks(state.story))
        return self.unlawful[key]

    def ranks(self, story: int) -> range:
        return range(len(self.stories[story].levels))

    def profits(self, state: State, rank: int) -> bool:
        """Whether those that stop at this level of their story could not, not for those above."""
        story = self.stories[state.story]
        levels = {name: self.level(story.fates[name]) for name in story.stopped}
        back = {name for name, level in levels.items() if level >= story.levels[rank]}
        while more := {
            name
            for one in back
            for h in story.fates[one].hosts
            for (name, others), _ in state.hosts[h].log
            if name and others > rank and name not in back
        }:
            back |= more
        owners = {name for name, level in levels.items() if level == story.levels[rank]}
        return self.breaks(state, back, rank, owners)

    def level(self, fate: Fate) -> Precedence:
        return self.precedence(fate.job, fate.job.running.option)

    def breaks(self, state: State, back: set[str], above: int | None, owners: set[str]) -> bool:
        """Whether a host, or the quota of an owner's tenant, has too little.

        `back` are where they were before the round, and nobody has started whose rank is `above`.
        """
        fates = self.stories[state.story].fates
        for h in {task.host for name in back for task in fates[name].leave}:
            key = (state.story, h, state.hosts[h], frozenset(back), above)
            if key not in self.overfull:
                tasks = [task for name in back for task in fates[name].leave if task.host == h]
                self.overfull[key] = overfull(state.hosts[h], tasks, back, above)
            if self.overfull[key]:
                return True
        tenants = {fates[name].job.tenant for name in owners}
        return any(self.over_quota(state, back, above, tenant) for tenant in tenants if tenant)

    def over_quota(self, state: State, back: set[str], above: int | None, tenant: str) -> bool:
        limits = self.limits[tenant]
        for (name, rank), takes in state.starts:
            if name == tenant and (above is None or rank <= above):
                limits = less(limits, takes)
        story = self.stories[state.story]
        for name in set(story.stopped) - back:
            job = story.fates[name].job
            if job.tenant == tenant:
                takes = self.menus[name][job.running.option].takes
                limits = less(limits, tuple(-each for each in takes))
        return any(limit is not None and limit < 0 for limit in limits)

    def domains(self, places: Places, group: int, level: int) -> set[str]:
        """The domains of a level that a group uses."""
        return {self.sites[h].domains[level] for g, h in places if g == group}

    def together(self, asks: tuple[Ask, ...], places: Places) -> bool:
        """Whether each group has its tasks in one domain of its required level."""
        return all(
            ask.required is None or len(self.domains(places, group, ask.required)) == 1
            for group, ask in enumerate(asks)
        )

    def distance(self, asks: tuple[Ask, ...], places: Places) -> Vector:
        """What a job's places add to `spread` and `proximity`, if a term counts them."""
        if not {"spread", "proximity"} & set(self.round.policy.terms):
            return self.vector()
        paths = [self.sites[h].domains for _, h in places]
        return self.vector(
            spread=sum(
                ask.count * ask.gpu * weight * (len(self.domains(places, group, level)) - 1)
                for group, ask in enumerate(asks)
                for level, weight in ask.weights
            ),
            proximity=sum(
                a != b
                for one, other in combinations(paths, 2)
                for a, b in zip(one, other, strict=True)
            ),
        )

    def vectors(self) -> tuple[set[Vector], set[Vector]]:
        """The term values of all plans, and of those lawful by counts of whole GPUs, too."""
        states = self.after_running()
        for job in self.round.jobs:
            if job.running is None:
                states = self.after_pending(states, job)
        every, counted = set(), set()
        for state, reached in states.items():
            if self.each_has_to_stop(state):
                gains = self.outcome(state.hosts)
                found = {self.written_out(plus(terms, gains)) for terms in reached}
                every |= found
                if self.each_has_to_stop_by_counts(state):
                    counted |= found
        return every, counted

    def written_out(self, vector: Vector) -> Vector:
        """The terms alone, with the sums of the smallest shares in the place of `share`."""
        names, terms = resources_of(self.round), self.round.policy.terms
        has = {
            name: sum(
                WHOLE * len(s.gpus) if name == "gpu" else s.has[names.index(name) - 1]
                for s in self.sites
                if s.healthy
            )
            for name in names
        }
        weight = {tenant.name: tenant.weight for tenant in self.round.tenants}
        shares = dict.fromkeys((tenant for tenant, _ in self.ledger), 0)
        for (tenant, r), held in zip(self.ledger, vector[len(terms) :], strict=True):
            if has[names[r]]:
                part = 100_000 * held // (has[names[r]] * weight[tenant])
                shares[tenant] = max(shares[tenant], part)
        ordered = sorted(shares.values())
        sums = [sum(ordered[:k]) for k in range(1, len(ordered) + 1)] or [0]
        return tuple(
            v
            for term, value in zip(terms, vector, strict=False)
            for v in (
                sums
                if term == "share"
                else self.priorities.values(value)
                if term == "value"
                else [value]
            )
        )

    def after_pending(self, states: dict[State, set[Vector]], job: Job) -> dict[State, set[Vector]]:
        """The states once a pending job waits or has started."""
        following = defaultdict(set, {state: set(reached) for state, reached in states.items()})
        at = None if job.tenant is None else self.tenants.index(job.tenant)
        for number, option in enumerate(self.menus[job.name]):
            tasks = tuple(
                Task(g, ask) for g, ask in enumerate(option.asks) for _ in range(ask.count)
            )
            stands = self.precedence(job, number)[0]
            value = self.vector(
                job,
                number,
                value=self.priorities.worth(job, number),
                entitled=option.value if stands else 0,
            )
            for state, reached in states.items():
                quotas = state.quotas
                if at is not None:
                    rest = take(quotas[at], option.takes)
                    if rest is None:
                        continue
                    quotas = (*quotas[:at], rest, *quotas[at + 1 :])
                starts, who = state.starts, self.who(state.story, job, number)
                if state.story is not None and job.tenant in self.stories[state.story].owners:
                    rank = self.rank(state.story, job, number)
                    starts = added(starts, (job.tenant, rank), option.takes)
                for hosts, more in self.placed(state.hosts, job, number, tasks, (), who=who):
                    after = State(hosts, quotas, state.story, starts)
                    if not self.others_profit(after):
                        gain = plus(value, more)
                        following[after] |= {plus(terms, gain) for terms in reached}
        return following

    def outcome(self, hosts: Hosts) -> Vector:
        """What the hosts of a plan add: those opened, what is left over, freed, stranded."""
        both = list(zip(self.sites, hosts, strict=True))
        freed, freeing = 0, self.round.policy.freeing
        if freeing is not None:
            level = self.levels.index(freeing.level)
            for domain in {site.domains[level] for site in self.sites}:
                inside = [(site, host) for site, host in both if site.domains[level] == domain]
                before = any(site.busy for site, _ in inside)
                after = any(host.stays or host.gets for _, host in inside)
                freed += (before - after) * sum(len(site.gpus) for site, _ in inside)
            freed *= WHOLE * freeing.gpu_worth_s
        return self.vector(
            opened=sum(host.gets and not site.busy for site, host in both),
            leftover=sum(gpu.left for _, host in both if host.gets for gpu in host.gpus),
            freed=freed,
            stranded=sum(
                stranded_on(
                    self.kinds, site.model, host.left, [g.left for g in host.gpus if g.welcomes]
                )
                for site, host in both
                if site.welcomes
            ),
        )
