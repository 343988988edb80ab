"""Rules about preemption: a job stops only where jobs of higher precedence need its place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind
from placewright.instances.documents.policy import Preemption
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import (
    Group,
    Member,
    Placed,
    PlacedTask,
    Precedence,
    Preempted,
    Reading,
    unavailable_hosts,
)
from placewright.instances.verify.result import Finding, rules
from placewright.instances.verify.rules.gang.decisions import Slot, slots
from placewright.instances.verify.rules.gang.limits import (
    Changed,
    Held,
    Ledger,
    Pools,
    text_of,
)
from placewright.instances.verify.rules.gang.places import RULES_OF_CAPACITY, RULES_OF_GPU_PARTS
from placewright.instances.verify.rules.gang.waiting import Entitlement
from placewright.instances.verify.shared_gpus import held, ran_together
from placewright.topology.units import WHOLE_GPU

# Leave to preempt: whose jobs a job may preempt, by precedence and by the rules of the round.


class Leave:
    """Which running jobs may be preempted for which others.

    Attributes
    ----------
    ruled : bool
        Whether the round says more than precedence does.
    """

    def __init__(self, round_: Round, entitlement: Entitlement) -> None:
        self._entitlement = entitlement
        self._rules = {tenant.name: tenant.preemption for tenant in round_.tenants}
        self.ruled = any(self._rules.values()) or any(j.preempts is not None for j in round_.jobs)
        self._movable = [j for j in round_.jobs if j.running is not None and not j.running.pinned]

    def over(self, job: Job, option: int, victim: Job) -> bool:
        """Whether a job with an option may preempt a running one, promises left aside."""
        if victim.running is None or victim is job:
            return False
        mine = self._entitlement.of(job, option)
        theirs = self._entitlement.of(victim, victim.running.option)
        if mine <= theirs:
            return False
        if job.preempts is not None and not set(job.preempts) & set(victim.caps):
            return False
        rule = self._rules.get(job.tenant or "")
        return rule is None or self._grants(rule, job, victim, mine, theirs)

    def over_nobody(self, job: Job, option: int) -> bool:
        """Whether a job with an option may preempt none of those that run and are not pinned."""
        return self.ruled and not any(self.over(job, option, one) for one in self._movable)

    def _grants(
        self, rule: Preemption, job: Job, victim: Job, mine: Precedence, theirs: Precedence
    ) -> bool:
        lower = theirs.priority < mine.priority
        if job.tenant == victim.tenant:
            return rule.within == "lower" and lower
        of_victim = self._rules.get(victim.tenant or "")
        together = of_victim is not None and of_victim.cohort == rule.cohort is not None
        if not together or theirs.entitled:
            return False
        if mine.entitled:
            return rule.reclaim == "any" or (rule.reclaim == "lower" and lower)
        up_to = theirs.priority if rule.borrow_up_to is None else rule.borrow_up_to
        return rule.borrow == "lower" and lower and theirs.priority <= up_to


# Plans in which preempted jobs are back in their places: whether anything breaks in them.
#
# A plan without some starts, and with some running jobs where they were before, is asked of a few
# hosts only: their capacity, their GPUs and parts of GPUs, the labels of the jobs that are back,
# quotas and pools.


_LOCAL = (*RULES_OF_CAPACITY, *(r for r in RULES_OF_GPU_PARTS if r.id != "slot"))


class PutBack:
    """A plan, and what would break if running jobs were back where they were.

    In all methods `back` are running jobs that are in their places before the round instead of
    where the plan has them, if it has them anywhere, and `gone` are started jobs that wait.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._taking_turns = "groups" in reading.round.policy.spec.plan_sections
        self.pools, self._ledger = Pools(reading), Ledger(reading)
        self._positions = {victim.job.name: victim.path[1] for victim in reading.preempted}
        self._positions |= {placed.job.name: placed.position for placed in reading.migrated}

    def breaks(
        self,
        back: Collection[str],
        hosts: Collection[str],
        gone: Collection[str] = (),
        owners: Collection[str] = (),
    ) -> str:
        """Return what breaks on these hosts, with labels and pools of `back`, and quotas of owners.

        "" if nothing does. Pool domains are those of which jobs of `back` held something. The
        owners are jobs: the quotas and caps that they count in are asked. A job of `gone` that
        migrates takes no more of a pool domain than before.
        """
        return (
            self._on_hosts(back, hosts, gone)
            or self._labels(back, gone)
            or self._quotas(back, gone, owners)
            or self._overfull(back, gone)
        )

    def beside_guaranteed(self, job: str, guaranteed: Collection[str]) -> bool:
        """Whether a job in its place breaks something beside these and pinned jobs alone.

        It does, too, on a GPU of which one of them takes memory or a MIG slice, or on which the
        job itself does.
        """
        mine = self.home(job)
        hosts = {task.host.name for task in mine.tasks}
        there = {
            placed.job.name: placed
            for host in hosts
            for placed in self._by_host.get(host, ())
            if placed.job.name in guaranteed or (placed.job.running and placed.job.running.pinned)
        }
        others = [
            task for name, placed in there.items() if name in guaranteed for task in placed.arrivals
        ]
        on_gpu: defaultdict[tuple[str, int], list[PlacedTask]] = defaultdict(list)
        for task in others:
            for gpu in task.task.gpus:
                on_gpu[task.host.name, gpu].append(task)
        if any(
            _takes_part(task) or any(map(_takes_part, on_gpu[task.host.name, gpu]))
            for task in mine.tasks
            for gpu in task.task.gpus
            if (task.host.name, gpu) in on_gpu
        ):
            return True
        kept = (mine, *(p for p in there.values() if not p.arrivals))
        anew = tuple(p for p in there.values() if p.arrivals)
        return bool(self._local(kept, anew, (), hosts)) or self._short_beside(job, guaranteed)

    def _short_beside(self, job: str, guaranteed: Collection[str]) -> bool:
        """Whether a pool is too small for a job in its place beside these and pinned jobs."""
        mine = self.pools.held_by(job)
        held = Counter(mine)
        for placed in self._reading.placed if mine else ():
            running = placed.job.running
            if placed.job.name in guaranteed or (running and running.pinned):
                held.update(self.pools.taken_by(placed))
        return self.pools.overfull(held, mine) is not None

    def meets_on_gpu(self, job: str, gone: Collection[str]) -> bool:
        """Whether others than those gone leave a GPU too little for a running job in its place.

        By milli-GPU, as `gpu_capacity` counts them where no jobs take turns.
        """
        option = self._reading.option_run(job)
        for task in self._reading.running[job].tasks if not self._taking_turns else ():
            mine = min(option.groups[task.group].gpu, WHOLE_GPU)
            for gpu in task.gpus:
                others = (
                    taken
                    for name, taken in self._on_gpu.get((task.host, gpu), ())
                    if name != job and name not in gone
                )
                if mine + sum(others) > WHOLE_GPU:
                    return True
        return False

    @cached_property
    def _on_gpu(self) -> Mapping[tuple[str, int], list[tuple[str, int]]]:
        """Jobs on each GPU of hosts from which some job goes, after the round, with milli-GPU."""
        found: defaultdict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for placed in {p.position: p for there in self._by_host.values() for p in there}.values():
            for one in placed.tasks:
                for gpu in one.task.gpus:
                    taken = min(one.group.gpu, WHOLE_GPU)
                    found[one.host.name, gpu].append((placed.job.name, taken))
        return found

    def home(self, job: str) -> Placed:
        """Return a running job in its place before the round."""
        reading = self._reading
        found, running = reading.jobs[job], reading.running[job]
        option, position = found.options[running.option], int(self._positions[job])
        decision: Decision = reading.plan.decisions[position]
        tasks = tuple(
            PlacedTask(
                position, n, task, option.groups[task.group], reading.cluster.hosts[task.host]
            )
            for n, task in enumerate(running.tasks)
        )
        return Placed(position, found, running.option, option, decision, tasks, ())

    def hosts(self, job: str) -> set[str]:
        """Return the hosts that a running job runs on before the round."""
        return {task.host for task in self._reading.running[job].tasks}

    def comes_to(self, placed: Placed) -> set[str]:
        """Return the hosts at which tasks arrive, of a resized job those of which it takes more."""
        if not placed.resizes:
            return {task.host.name for task in placed.arrivals}
        more: Counter[Slot] = Counter()
        for task in placed.tasks:
            for slot, amount in slots(self._reading, task.task, task.group):
                more[slot] += amount
        groups = self._reading.option_run(placed.job.name).groups
        for before in self._reading.running[placed.job.name].tasks:
            for slot, amount in slots(self._reading, before, groups[before.group]):
                more[slot] -= amount
        return {slot[0] for slot, amount in more.items() if amount > 0}

    def shares_label(self, placed: Placed, back: Iterable[str]) -> bool:
        """Whether a job arrives in a domain that its label shares with one in its old place."""
        return any(
            job != placed.job.name and not self._come(placed).isdisjoint(self._lies(job))
            for job in back
            if placed.job.anti_affinity is not None
        )

    @cached_property
    def _by_host(self) -> Mapping[str, list[Placed]]:
        """Jobs with a task after the round on hosts from which some job goes, each once."""
        found: dict[str, list[Placed]] = {
            host: [] for job in self._positions for host in self.hosts(job)
        }
        for placed in self._reading.placed:
            for host in {task.host.name for task in placed.tasks} & found.keys():
                found[host].append(placed)
        return found

    @cached_property
    def _together(self) -> list[set[str]]:
        return list(ran_together(self._reading).values())

    def _on_hosts(
        self, back: Collection[str], hosts: Collection[str], gone: Collection[str]
    ) -> str:
        there = {p.position: p for host in hosts for p in self._by_host.get(host, ())}
        changed = {*back, *gone}
        left = [p for p in there.values() if p.job.name not in changed]
        kept = [p for p in left if not p.arrivals] + [self.home(job) for job in back]
        anew = [p for p in left if p.arrivals]
        return self._local(kept, anew, changed, hosts)

    def _local(
        self,
        kept: Iterable[Placed],
        anew: Iterable[Placed],
        changed: Collection[str],
        hosts: Collection[str],
    ) -> str:
        """Return what these jobs break on these hosts."""
        kept, anew = _on(kept, hosts), _on(anew, hosts)
        local = replace(
            self._reading, kept=kept, migrated=(), started=anew, preempted=(), groups=(), held=None
        )
        groups = tuple(self._groups(local, changed))
        if groups:
            local = replace(local, groups=groups, held=held(local, groups))
        found = next((f for rule in _LOCAL for f in rule.check(local)), None)
        return "" if found is None else found.message

    def _groups(self, local: Reading, changed: Collection[str]) -> Iterator[Group]:
        """Yield groups of a plan without those that left them, and groups that ran before."""
        if not self._taking_turns:
            return
        placed = {p.job.name: p for p in local.placed}
        home = {p.job.name for p in local.kept}
        now = [
            {m.placed.job.name for m in group.members} & placed.keys() - set(changed)
            for group in self._reading.groups
        ]
        taken: set[str] = set().union(*(mine for mine in now if mine - home))
        before = [mine & home - taken for mine in self._together]
        for mine in [mine for mine in now if mine - home] + before:
            if len(mine) > 1:
                yield Group((), tuple(Member(placed[job], 0) for job in sorted(mine)), None, True)

    def _come(self, placed: Placed) -> set[tuple[str, str]]:
        """Return the label's domains in which a job arrives."""
        asked = placed.job.anti_affinity
        if asked is None:
            return set()
        position = self._reading.cluster.levels[asked.level]
        return {(asked.label, task.host.domains[position]) for task in placed.arrivals}

    def _lies(self, job: str) -> set[tuple[str, str]]:
        """Return the label's domains in which a running job was."""
        asked = self._reading.jobs[job].anti_affinity
        if asked is None:
            return set()
        position, hosts = self._reading.cluster.levels[asked.level], self._reading.cluster.hosts
        return {(asked.label, hosts[host].domains[position]) for host in self.hosts(job)}

    def _labels(self, back: Collection[str], gone: Collection[str]) -> str:
        labelled = [job for job in back if self._reading.jobs[job].anti_affinity is not None]
        changed = {*back, *gone} if labelled else ()
        for placed in self._reading.placed_anew if labelled else ():
            name = placed.job.name
            if name not in changed and self.shares_label(placed, labelled):
                return f"job {name!r} comes to a domain that its label shares"
        return ""

    def _quotas(self, back: Collection[str], gone: Collection[str], owners: Collection[str]) -> str:
        ledger = self._ledger
        for account in {a for job in owners for a in ledger.accounts_before(job)}:
            changed = ledger.changes.get(account, Changed.none())
            after: Held = Counter(ledger.after.get(account, Counter()))
            for job in set(gone):
                after.subtract(changed.starts.get(job, {}))
                after.subtract(+Counter(changed.resized.get(job, {})))
            for job in set(back):
                after.update(changed.victims.get(job, {}))
                after.subtract(changed.resized.get(job, {}))
            for resource, most in ledger.most(account).items():
                if after[resource] > most:
                    return (
                        f"{account} holds {text_of(resource, after[resource])}, "
                        f"where it may hold {text_of(resource, most)}"
                    )
        return ""

    def _overfull(self, back: Collection[str], gone: Collection[str]) -> str:
        mine = self.pools.held(set(back))
        held = self.pools.held_with(back, gone, mine)
        where = self.pools.overfull(held, mine)
        if where is None:
            return ""
        may = self.pools.limit_text(where)
        return f"{self.pools.text(where, held)}, where they may hold {may}"


def _on(jobs: Iterable[Placed], hosts: Collection[str]) -> tuple[Placed, ...]:
    """Return jobs with their tasks on some hosts."""
    return tuple(
        placed._replace(tasks=tuple(task for task in placed.tasks if task.host.name in hosts))
        for placed in jobs
    )


def _takes_part(task: PlacedTask) -> bool:
    return task.group.mig is not None or bool(task.group.gpu_memory)


# Rules about preemption: a running job stops only where jobs of higher precedence need its place.
#
# A job that is promised the current lease comes before all others, an entitled one before a
# borrowed one, and of equal entitlement the higher priority first. Who is on a host that is away
# may stop for nobody, and so may who is in the way of a job that a tenant's cells are for.


def displaced_by(reading: Reading) -> Iterator[Finding]:
    """Require that exactly the preempted jobs name the jobs that displace them.

    These may preempt it, start or migrate, and are a minimal set without which it could stay in its
    place.
    """
    for index, decision in enumerate(reading.plan.decisions):
        if decision.displaced_by and decision.decision is not DecisionKind.PREEMPT:
            yield Finding(
                ("decisions", index, "displaced_by"),
                f"displaced_by {', '.join(decision.displaced_by)} of job {decision.job!r}, "
                "which is not preempted; expected none",
            )
    if not reading.preempted:
        return
    victims = Victims(reading)
    for victim in reading.preempted:
        problem = victims.misnamed(victim)
        if problem:
            yield Finding(
                (*victim.path, "displaced_by"),
                f"{problem}; expected jobs that may preempt it and are all needed to "
                f"displace job {victim.job.name!r}",
            )


def preemption(reading: Reading) -> Iterator[Finding]:
    """Require of each preempted job that it cannot stay, and that no lower job is the cause.

    It cannot stay if it breaks a rule when put back alone. Nothing breaks once it is put back with
    all victims of at least its precedence, without the starts of strictly higher precedence, and
    with the migrated jobs of strictly higher precedence that came to these hosts, or take more of
    a pool that they took of, back where they were, and those that did so to these, and so on.

    Where rules say who may preempt whom, nothing breaks either with those that may preempt it in
    place of those of strictly higher precedence, and the victims that no others may preempt.
    """
    if not reading.preempted:
        return
    victims = Victims(reading)
    for victim in victims.judged:
        if not victims.in_the_way(victim.job.name):
            yield Finding(
                victim.path,
                f"job {victim.job.name!r} is preempted, and could stay beside all others; "
                "expected preempted jobs whose place is needed",
            )
    for rank, mine in victims.by_rank.items():
        problem = victims.cause_beside(rank) or victims.cause_without_leave(mine)
        if problem:
            yield Finding(
                mine[0].path,
                f"without jobs of higher precedence, and with all preempted jobs of {rank} and "
                f"above in their places, {problem}; expected that preemption of "
                f"{', '.join(repr(victim.job.name) for victim in mine)} serves no job of "
                "its precedence or lower",
            )


class Rank(NamedTuple):
    """Whether a job is promised the current lease, and its precedence otherwise."""

    promised: bool
    precedence: Precedence

    def __str__(self) -> str:
        return f"{self.precedence}{', promised this lease' if self.promised else ''}"


_LOWEST = Rank(False, Precedence(False, False, -(10**10)))
"""Of a job that may preempt nobody."""


class Victims:
    """The preempted jobs of a plan."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._entitlement = Entitlement(reading.round)
        self._leave = Leave(reading.round, self._entitlement)
        self._plan = PutBack(reading)
        self._gone = unavailable_hosts(reading)
        self._anew = {placed.job.name: placed for placed in reading.placed_anew}
        self._ranks = {
            name: _LOWEST
            if self._leave.over_nobody(placed.job, placed.chosen)
            else self.rank_after(placed)
            for name, placed in self._anew.items()
        }

    @property
    def has_leave(self) -> bool:
        """Whether the round says more than precedence does of who may preempt whom."""
        return self._leave.ruled

    @cached_property
    def judged(self) -> Sequence[Preempted]:
        """The preempted jobs that stop for others: not for an outage, nor for cells."""
        cells = any(tenant.cells for tenant in self._reading.round.tenants)
        guaranteed = {
            placed.job.name
            for placed in (self._reading.placed if cells else ())
            if self._entitlement.of(placed.job, placed.chosen).cells
        }
        return [
            victim
            for victim in self._reading.preempted
            if not self._on_away_hosts(victim.job.name)
            and not (guaranteed and self._plan.beside_guaranteed(victim.job.name, guaranteed))
        ]

    @cached_property
    def _judged_names(self) -> set[str]:
        return {victim.job.name for victim in self.judged}

    @cached_property
    def by_rank(self) -> dict[Rank, list[Preempted]]:
        """The judged ones by their precedence."""
        found: defaultdict[Rank, list[Preempted]] = defaultdict(list)
        for victim in self.judged:
            found[self._before(victim.job)].append(victim)
        return found

    def keeps_place(self, victim: Job, job: Job, option: int) -> bool:
        """Whether what a preempted job held is not for a waiting one with an option."""
        if self._before(victim) >= self.rank(job, option):
            return True
        return self._leave.ruled and not self._leave.over(job, option, victim)

    def starts_over(self, victim: Job) -> frozenset[str]:
        """Return the started jobs that may preempt a preempted one."""
        # Without further rules they are those of higher precedence.
        key = victim.name if self._leave.ruled else self._before(victim)
        if key not in self._starts_over:
            started = self._reading.started
            found = frozenset(one.job.name for one in started if self._is_over(one, victim))
            self._starts_over[key] = found
        return self._starts_over[key]

    @cached_property
    def _starts_over(self) -> dict[Rank | str, frozenset[str]]:
        return {}

    def in_the_way(self, name: str, gone: Collection[str] = ()) -> bool:
        """Whether a victim could not stay, were it not for the arrivals of some jobs."""
        return self._plan.meets_on_gpu(name, gone) or bool(
            self._plan.breaks([name], self._plan.hosts(name), gone, [name])
        )

    def cause_beside(self, rank: Rank) -> str:
        """Return what still breaks without higher jobs once the victims of a rank are back."""
        higher = {name for name, theirs in self._ranks.items() if theirs > rank}
        return self._cause(self._from(rank), higher, self.by_rank[rank])

    def cause_without_leave(self, mine: Sequence[Preempted]) -> str:
        """Return what breaks without those that may preempt one of some victims of one rank."""
        for victim in mine if self._leave.ruled else ():
            over = self._over(victim)
            back = [v for v in self._from(self._before(victim.job)) if self._over(v) <= over]
            if problem := self._cause(back, over, [victim]):
                return problem
        return ""

    def _from(self, rank: Rank) -> list[Preempted]:
        """Return the judged victims of a rank and above."""
        return [v for level, theirs in self.by_rank.items() if level >= rank for v in theirs]

    def _over(self, victim: Preempted) -> set[str]:
        """Return the jobs that come and may preempt a victim."""
        return {name for name, placed in self._anew.items() if self._is_over(placed, victim.job)}

    def _is_over(self, placed: Placed, victim: Job) -> bool:
        """Whether a job that comes may preempt one that ran."""
        if self._ranks[placed.job.name] <= self._before(victim):
            return False
        return not self._leave.ruled or self._leave.over(placed.job, placed.chosen, victim)

    def _cause(
        self, victims: Sequence[Preempted], higher: set[str], owners: Sequence[Preempted]
    ) -> str:
        """Return what breaks with some victims back, and without those higher ones that start."""
        back = dict.fromkeys(victim.job.name for victim in victims)
        gone = {placed.job.name for placed in self._reading.started} & higher
        hosts = {host for name in back for host in self._plan.hosts(name)}
        pooled = {where for name in back for where in self._plan.pools.held_by(name)}
        movers = [p for p in self._reading.migrated if p.job.name in higher]
        waiting = True
        while waiting:
            waiting = False
            for placed in movers:
                name = placed.job.name
                if name not in back and (
                    not hosts.isdisjoint(self._plan.comes_to(placed))
                    or self._plan.shares_label(placed, back)
                    or (pooled and not pooled.isdisjoint(self._plan.pools.added_by(placed)))
                ):
                    back[name] = None
                    hosts |= self._plan.hosts(name)
                    pooled |= self._plan.pools.held_by(name).keys()
                    waiting = True
        return self._plan.breaks(back, hosts, gone, [victim.job.name for victim in owners])

    def misnamed(self, victim: Preempted) -> str:
        """Return what is wrong with the jobs that a victim names, "" if nothing is."""
        names, name = victim.decision.displaced_by, victim.job.name
        mine = self._before(victim.job)
        if not names and not self._on_away_hosts(name):
            return f"job {name!r} is preempted for no job"
        if len(set(names)) < len(names):
            return f"job {name!r} names one twice"
        for by in names:
            if by not in self._anew:
                return f"job {by!r} neither starts nor migrates"
            if self._ranks[by] <= mine:
                return f"job {by!r} of {self._ranks[by]} displaces job {name!r} of {mine}"
            if not self._is_over(self._anew[by], victim.job):
                return f"job {by!r} may not preempt job {name!r}"
        if name not in self._judged_names:
            return ""
        if self.in_the_way(name, names):
            return f"job {name!r} could not stay without {', '.join(names)}"
        for by in names:
            if not self.in_the_way(name, [other for other in names if other != by]):
                return f"job {name!r} could stay whether or not {by!r} takes its place"
        return ""

    def _on_away_hosts(self, name: str) -> bool:
        return not self._gone.isdisjoint(self._plan.hosts(name))

    def rank_after(self, placed: Placed) -> Rank:
        """Return the rank of a job that arrives; all that run and have a promise use it."""
        promised = self._reading.promise_of(placed.job.name) is not None
        return Rank(promised, self._entitlement.of(placed.job, placed.chosen))

    def _before(self, job: Job) -> Rank:
        """Return the rank of a preempted job with the option that it ran."""
        return self.rank(job, self._reading.running[job.name].option)

    def rank(self, job: Job, option: int) -> Rank:
        """Return the rank of a job that uses no promise in this lease, with an option."""
        return Rank(promised=False, precedence=self._entitlement.of(job, option))


RULES_OF_PREEMPTION = rules(displaced_by, preemption)
