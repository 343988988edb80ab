"""Who displaces whom in a candidate, on exact GPUs, and whether its preemptions are lawful."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.formulations.plan_messages import Candidate
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.rounds.displacement.changes import Changes, DomainNames, PlacedTask, Rank
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU


class HostUse:
    """What jobs hold on hosts after a candidate, were some of them back and others not there."""

    def __init__(self, changes: Changes) -> None:
        self._changes, self._round = changes, changes.round
        self._hardware = hosts_by_name(changes.round.cluster)
        self._groups = [set(group.members) for group in changes.candidate.groups]

    def exceeds(self, back: Sequence[int], gone: set[int], hosts: set[str]) -> bool:
        """Whether some of these hosts do not hold all jobs, with `back` at home and not `gone`."""
        changes = self._changes
        if not self._groups and not self._ran_together:
            return self._exceeds_alone(back, gone, hosts)
        places = {j: changes.places(j) for h in hosts for j in changes.by_host[h] if j not in gone}
        places |= {j: changes.home(j) for j in back}
        left: dict[str, dict[str, int]] = {
            host: dict(self._hardware[host].capacity) for host in hosts
        }
        gpus: defaultdict[tuple[str, int], list[tuple[TaskGroup, int | None]]] = defaultdict(list)
        for members in self._units(places, set(back)):
            for task in places[members[0]]:
                if task.host not in hosts:
                    continue
                group = self._merged(members, task)
                asked = {"cpu": group.cpu, "memory": group.memory, **group.resources}
                for name, amount in asked.items():
                    if amount:
                        left[task.host][name] = left[task.host].get(name, 0) - amount
                        if left[task.host][name] < 0:
                            return True
                for gpu in task.gpus:
                    gpus[task.host, gpu].append((group, task.slot))
        return any(self._gpu_exceeded(host, held) for (host, _), held in gpus.items())

    def _exceeds_alone(self, back: Sequence[int], gone: set[int], hosts: set[str]) -> bool:
        """Say the same of a candidate in which no jobs take turns, by what it leaves free."""
        without = {*gone, *back}
        at_home: defaultdict[tuple[str, int], list[tuple[TaskGroup, int | None]]]
        at_home = defaultdict(list)
        for j in back:
            for task in self._changes.home(j):
                for gpu in task.gpus:
                    at_home[task.host, gpu].append((self._changes.group(j, task), task.slot))
        # GPUs first: of most victims one is taken.
        for where, mine in at_home.items():
            if where[0] in hosts:
                there = self._on_gpu.get(where, ())
                held = [(group, slot) for j, group, slot in there if j not in without]
                if self._gpu_exceeded(where[0], held + mine):
                    return True
        left = {host: Counter(self._left[host]) for host in hosts}
        for host in hosts:
            for j in without.intersection(self._changes.by_host[host]):
                left[host].update(self._asked_on(j, host, home=False))
        for j in back:
            for host in self._changes.home_hosts(j) & hosts:
                left[host].subtract(self._asked_on(j, host, home=True))
        return any(amount < 0 for of_host in left.values() for amount in of_host.values())

    def _asked_on(self, job: int, host: str, *, home: bool) -> Counter[str]:
        """Return what a job asks of a host besides GPUs, at home or where the candidate has it."""
        key = job, host, home
        if key not in self._asked:
            places = self._changes.home(job) if home else self._changes.places(job)
            self._asked[key] = asked = Counter[str]()
            for task in places:
                if task.host == host:
                    group = self._changes.group(job, task)
                    asked.update({"cpu": group.cpu, "memory": group.memory, **group.resources})
        return self._asked[key]

    @cached_property
    def _asked(self) -> dict[tuple[int, str, bool], Counter[str]]:
        return {}

    @cached_property
    def _left(self) -> Mapping[str, Counter[str]]:
        """What the candidate leaves free of each host from which some job goes, GPUs aside."""
        found = {host: Counter(self._hardware[host].capacity) for host in self._changes.by_host}
        for host, jobs in self._changes.by_host.items():
            for j in jobs:
                found[host].subtract(self._asked_on(j, host, home=False))
        return found

    @cached_property
    def _on_gpu(self) -> Mapping[tuple[str, int], list[tuple[int, TaskGroup, int | None]]]:
        """Which jobs the candidate has on each GPU of these hosts, with task group and MIG slot."""
        found: defaultdict[tuple[str, int], list[tuple[int, TaskGroup, int | None]]]
        found = defaultdict(list)
        for j in {j for jobs in self._changes.by_host.values() for j in jobs}:
            for task in self._changes.places(j):
                for gpu in task.gpus if task.host in self._changes.by_host else ():
                    found[task.host, gpu].append((j, self._changes.group(j, task), task.slot))
        return found

    def touches_parts(self, victim: int) -> bool:
        """Whether a victim is on a GPU of which it or a guaranteed job takes memory or a slice."""
        changes = self._changes
        on_gpu = {
            (task.host, gpu): changes.group(j, task)
            for j in changes.guaranteed & changes.new.keys()
            for task in changes.new[j]
            for gpu in task.gpus
        }
        return any(
            _is_part(changes.group(victim, task)) or _is_part(on_gpu[task.host, gpu])
            for task in changes.home(victim)
            for gpu in task.gpus
            if (task.host, gpu) in on_gpu
        )

    def _gpu_exceeded(self, host: str, held: list[tuple[TaskGroup, int | None]]) -> bool:
        if sum(min(group.gpu, WHOLE_GPU) for group, _ in held) > WHOLE_GPU:
            return True
        if sum(group.gpu_memory for group, _ in held) > (self._hardware[host].gpu_memory or 0):
            return True
        if all(group.mig is None for group, _ in held):
            return False
        product, taken, compute, media = self._hardware[host].product, 0, 0, 0
        for group, slot in held:
            if group.mig is None or slot is None or product == NO_MIG:
                return True
            kind = SLICES[PRODUCTS[product].profiles[group.mig]]
            mask = ((1 << kind.size) - 1) << slot
            if taken & mask:
                return True
            taken, compute, media = taken | mask, compute + kind.compute, media + kind.media
        return compute > COMPUTE_SLICES or media > 1

    def _units(
        self, places: Mapping[int, Sequence[PlacedTask]], back: set[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the groups of jobs that take turns in these places, and jobs alone."""
        home = {j for j in places if j in back or j not in self._changes.new}
        groups = [group & (places.keys() - back) for group in self._groups]
        groups = [group for group in groups if group - home and len(group) > 1]
        taken: set[int] = set().union(*groups)
        groups += [set(mine) & home - taken for mine in self._ran_together]
        alone = set(places).difference(*groups)
        yield from (tuple(sorted(group)) for group in groups if group)
        yield from ((j,) for j in sorted(alone))

    @cached_property
    def _ran_together(self) -> list[tuple[int, ...]]:
        return running_groups(self._round)

    def _merged(self, members: tuple[int, ...], task: PlacedTask) -> TaskGroup:
        if len(members) == 1:
            return self._changes.group(members[0], task)
        from placewright.formulations.interleaving.problem.compile import merged_task_groups

        jobs = [self._round.jobs[j] for j in members]
        return merged_task_groups(jobs, self._round.sharing)[task.group]


def _is_part(group: TaskGroup) -> bool:
    return group.mig is not None or bool(group.gpu_memory)


class Labels:
    """Labels of jobs that keep out of each other's domains."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains = changes, domains

    def has_one(self, job: int) -> bool:
        """Whether a job has a label."""
        return self._changes.round.jobs[job].anti_affinity is not None

    def meets(self, job: int, others: Iterable[int]) -> bool:
        """Whether a job arrives in a domain of its label that one of others is in, back home."""
        changes, jobs = self._changes, self._changes.round.jobs
        asked = jobs[job].anti_affinity
        if asked is None:
            return False
        domain = self._domains.of(asked.level)
        come = {domain[task.host] for task in changes.arrivals(job)}
        return any(
            other != job
            and jobs[other].anti_affinity == asked
            and not come.isdisjoint(domain[task.host] for task in changes.home(other))
            for other in others
        )


class PoolDomain(NamedTuple):
    """A pool, by its index, and a domain of its level; "" is the whole cluster."""

    pool: int
    domain: str


Taken: TypeAlias = Counter[PoolDomain]
"""What jobs take of each domain of the pools."""


class PoolUse:
    """What is held of pools after a candidate, and was before the round."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains = changes, domains
        self._pools = changes.round.cluster.pools

    def exceeded(self, back: Collection[int], gone: Collection[int]) -> bool:
        """Whether a domain of which jobs that are back held something holds too much.

        `back`: running jobs in their places before the round. `gone`: jobs that do not start, and
        migrating ones that take no more of a domain than before.
        """
        if not self._pools:
            return False
        held = Counter(self._after)
        for j in back:
            held.subtract(self._taken_anew(j))
            held.update(self._home(j))
        for j in set(gone).difference(back):
            held.subtract(self._added(j))
        return any(self._is_overfull(where, held) for j in back for where in self._home(j))

    def fills(self, job: int, back: Iterable[int]) -> bool:
        """Whether a job takes more than before of a domain of which others had something."""
        added = self._added(job) if self._pools else ()
        return bool(added) and any(
            not self._home(j).keys().isdisjoint(added) for j in back if j != job
        )

    def takers_beside(self, victim: int) -> set[int]:
        """Return the jobs that take more than before of the domains of a victim."""
        return {j for j in self._changes.new if self.fills(j, [victim])} if self._pools else set()

    def exceeded_beside(self, victim: int, others: Collection[int]) -> bool:
        """Whether a domain of a victim holds too much beside some jobs alone."""
        mine = self._home(victim) if self._pools else {}
        held = Counter(mine)
        for j in others if mine else ():
            held.update(self._taken(j, self._changes.places(j)))
        return any(self._is_overfull(where, held) for where in mine)

    def _is_overfull(self, where: PoolDomain, held: Mapping[PoolDomain, int]) -> bool:
        pool = self._pools[where.pool]
        capacity = pool.domains.get(where.domain, pool.capacity)
        return held[where] > max(capacity, self._before[where])

    def _taken(self, job: int, tasks: Sequence[PlacedTask]) -> Taken:
        """Return what a job takes with its tasks in these places."""
        taken: Taken = Counter()
        option = self._changes.option(job, tasks) if tasks else None
        for number, pool in enumerate(self._pools if option is not None else ()):
            of = {} if pool.level is None else self._domains.of(pool.level)
            uses = option.uses.get(pool.resource, 0) if option is not None else 0
            for task in tasks:
                each = uses
                if pool.per == "task":
                    each = self._changes.group(job, task).resources.get(pool.resource, 0)
                if each:
                    where = PoolDomain(number, of.get(task.host, ""))
                    taken[where] = each if pool.per == "job" else taken[where] + each
        return taken

    def _home(self, job: int) -> Taken:
        """Return what a job held before the round."""
        if job not in self._homes:
            self._homes[job] = self._taken(job, self._changes.home(job))
        return self._homes[job]

    @cached_property
    def _homes(self) -> dict[int, Taken]:
        return {}

    def _taken_anew(self, job: int) -> Taken:
        return self._anew.get(job, Counter())

    def _added(self, job: int) -> Taken:
        """Return what a job that starts or moves takes beyond what it held before."""
        return self._taken_anew(job) - self._home(job)

    @cached_property
    def _anew(self) -> Mapping[int, Taken]:
        return {j: self._taken(j, tasks) for j, tasks in self._changes.new.items()}

    @cached_property
    def _before(self) -> Taken:
        before: Taken = Counter()
        for j, job in enumerate(self._changes.round.jobs):
            if job.running is not None:
                before.update(self._home(j))
        return before

    @cached_property
    def _after(self) -> Taken:
        after = Counter(self._before)
        for j, taken in self._anew.items():
            after.update(taken)
            after.subtract(self._home(j))
        for j in self._changes.candidate.preempted:
            after.subtract(self._home(j))
        return after


RegionAccount: TypeAlias = tuple[Account, str]
"""A tenant or cap, and the region whose quota is meant; "" is the whole cluster."""


class QuotaUse:
    """What is held of quotas and caps after a candidate, and was before the round."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains, self._round = changes, domains, changes.round
        self._regions = self._round.geo.regions if self._round.policy.spec.by_region else ()

    def exceeded(self, back: set[int], gone: set[int], owners: Iterable[int]) -> bool:
        """Whether a quota or cap of `owners` is exceeded, with `back` running on and not `gone`.

        What was exceeded before the round may stay so.
        """
        home = self._changes.home
        for account in {a for j in owners for a in self._accounts(j, home(j))}:
            held = self._held_before.get(account, Counter())
            changing = self._changing.get(account, {})
            undone = [changing[j] for j in back if j in changing]
            less = [changing[j] for j in gone - back if j in changing]
            for measure, limit in self._limits[account].items():
                change = self._change[account][measure] - sum(one[measure] for one in undone)
                change -= sum(max(0, one[measure]) for one in less)
                if held[measure] + change > max(limit, held[measure]):
                    return True
        return False

    def starts_beside(self, victim: int) -> set[int]:
        """Return the jobs that start or resize within the quotas and caps of a victim."""
        accounts = self._accounts(victim, self._changes.home(victim))
        changing = (j for account in accounts for j in self._changing.get(account, ()))
        return {j for j in changing if j in self._changes.new}

    @cached_property
    def _limits(self) -> dict[RegionAccount, Mapping[Measure, int]]:
        limits: dict[RegionAccount, Mapping[Measure, int]] = {
            (account, ""): measures for account, measures in limits_of(self._round).items()
        }
        for region in self._regions:
            for tenant, quota in region.quotas.items():
                limits[("tenant", tenant), region.name] = {Measure("gpus"): quota}
        return limits

    def _accounts(self, job: int, tasks: Sequence[PlacedTask]) -> list[RegionAccount]:
        """Return the quotas and caps that a job counts in, with its tasks in these places."""
        if not self._limits:
            return []
        names = {""}
        if self._regions:
            domain = self._domains.of(self._round.geo.level)
            names |= {domain[task.host] for task in tasks}
        accounts = accounts_of(self._round.jobs[job])
        found = [(account, name) for account in accounts for name in sorted(names)]
        return [one for one in found if one in self._limits]

    @cached_property
    def _held_before(self) -> Mapping[RegionAccount, Counter[Measure]]:
        held: defaultdict[RegionAccount, Counter[Measure]] = defaultdict(Counter)
        for j, job in enumerate(self._round.jobs if self._limits else ()):
            if job.running is None or not accounts_of(job):
                continue
            for account in self._accounts(j, self._changes.home(j)):
                held[account].update(self._asks(j, account, self._changes.home(j)))
        return held

    def _asks(
        self, job: int, account: RegionAccount, tasks: Sequence[PlacedTask]
    ) -> dict[Measure, int]:
        """Return what a job with the option of some tasks counts in an account."""
        option = self._changes.option(job, tasks)
        return {measure: measure.asked_by(option) for measure in self._limits[account]}

    @cached_property
    def _changing(self) -> Mapping[RegionAccount, Mapping[int, Mapping[Measure, int]]]:
        """What jobs that start or resize hold more and those that stop less, by account."""
        found: defaultdict[RegionAccount, dict[int, Mapping[Measure, int]]] = defaultdict(dict)
        changes, jobs = self._changes, self._round.jobs
        starts = {j: new for j, new in changes.new.items() if jobs[j].running is None}
        stops = {j: changes.home(j) for j in changes.candidate.preempted}
        for j, tasks in (starts | stops).items():
            sign = 1 if j in starts else -1
            for account in self._accounts(j, tasks):
                asks = self._asks(j, account, tasks)
                found[account][j] = {measure: sign * amount for measure, amount in asks.items()}
        for j in (j for j in changes.new if changes.resizes(j)):
            home = changes.home(j)
            for account in self._accounts(j, home):
                before = self._asks(j, account, home)
                after = self._asks(j, account, changes.new[j])
                found[account][j] = {one: after[one] - before[one] for one in before}
        return found

    @cached_property
    def _change(self) -> Mapping[RegionAccount, Counter[Measure]]:
        """The sums of these, by account."""
        found: defaultdict[RegionAccount, Counter[Measure]] = defaultdict(Counter)
        for account, changing in self._changing.items():
            for amounts in changing.values():
                for measure, amount in amounts.items():
                    found[account][measure] += amount
        return found


# A preempted job is displaced by jobs of strictly higher precedence that arrive: a minimal set
# without which it could stay (docs/plans.md#who-may-be-preempted).
class Displacement:
    """The preempted jobs of a candidate, and who displaces them.

    `hosts`: names of the hosts, as the indices of places count them.
    """

    def __init__(self, round_: Round, hosts: Sequence[str], candidate: Candidate) -> None:
        self.round, self.candidate = round_, candidate
        self._changes = Changes(round_, hosts, candidate)
        domains = DomainNames(round_)
        self._hosts = HostUse(self._changes)
        self._labels = Labels(self._changes, domains)
        self._quotas = QuotaUse(self._changes, domains)
        self._pools = PoolUse(self._changes, domains)
        self._away = unavailable_hosts(round_.leases, round_.now)

    def displaced_by(self, victim: int) -> tuple[int, ...]:
        """Return a minimal set of jobs without which a victim could stay.

        Those of lowest precedence are left out first, and of these the last in the round. Empty if
        the victim is on a host that is away, or if there is no such set.
        """
        if self._on_away_hosts(victim):
            return ()
        rank = self._changes.rank
        known = self.candidate.preempted.get(victim, -1)
        if victim in self._evicted:
            return (known,) if known in self._changes.new else self._comes_first(victim)
        higher = self._changes.over(victim, self._may_displace(victim))
        near = sorted(higher, key=lambda j: (rank(j), -j))
        if self._in_the_way(victim, near):
            return ()
        left = list(near)
        for j in near:
            fewer = [other for other in left if other != j]
            if not self._in_the_way(victim, fewer):
                left = fewer
        return tuple(sorted(left))

    def needless(self, needed: set[int]) -> int | None:
        """Return a victim that could stay beside all others, the highest one; None without one.

        `needed`: victims that could not, even with fewer jobs in place; it is added to.
        """
        level = self._changes.level
        for j in sorted(self._judged, key=lambda j: (level(j), -j), reverse=True):
            if j not in needed:
                if not self._in_the_way(j, ()):
                    return j
                needed.add(j)
        return None

    def serves_lower_jobs(self) -> bool:
        """Whether jobs that may not preempt a victim have what it gave back."""
        changes, judged = self._changes, self._judged
        for level in {changes.level(j) for j in judged}:
            higher = {j for j in changes.new if changes.rank(j) > level}
            owners = [j for j in judged if changes.level(j) == level]
            if self._breaks_without(higher, self._from(level), owners):
                return True
        for victim in judged if changes.ruled else ():
            over = changes.over(victim)
            back = [j for j in self._from(changes.level(victim)) if changes.over(j) <= over]
            if self._breaks_without(over, back, [victim]):
                return True
        return False

    def _from(self, level: Rank) -> list[int]:
        """Return the judged victims of a level and above."""
        return [j for j in self._judged if self._changes.level(j) >= level]

    @cached_property
    def _judged(self) -> list[int]:
        """The preempted jobs that stop for others: not for an outage, nor for cells."""
        return [
            j
            for j in self.candidate.preempted
            if not self._on_away_hosts(j) and j not in self._evicted
        ]

    @cached_property
    def _evicted(self) -> set[int]:
        """The preempted jobs that are in the way of guaranteed jobs, whatever else is."""
        changes, fixed = self._changes, self._changes.guaranteed
        if not fixed & changes.new.keys():
            return set()
        there = {j for jobs in changes.by_host.values() for j in jobs} - fixed
        others = {j for j in there if not ((r := self.round.jobs[j].running) and r.pinned)}
        beside = fixed | {
            j for j, job in enumerate(self.round.jobs) if job.running and job.running.pinned
        }
        beside -= self.candidate.preempted.keys()
        return {
            j
            for j in self.candidate.preempted
            if self._hosts.touches_parts(j)
            or self._hosts.exceeds([j], others, changes.home_hosts(j))
            or self._pools.exceeded_beside(j, beside)
        }

    def _comes_first(self, victim: int) -> tuple[int, ...]:
        changes, hosts = self._changes, self._changes.home_hosts(victim)
        found = [
            j
            for j in sorted(changes.guaranteed & changes.new.keys())
            if not hosts.isdisjoint(task.host for task in changes.new[j])
            or self._pools.fills(j, [victim])
        ]
        return tuple(found[:1])

    def _may_displace(self, victim: int) -> set[int]:
        """Return who arrives on a victim's hosts, meets its label, or takes its quota or pools."""
        changes = self._changes
        found = {j for host in changes.home_hosts(victim) for j in changes.arriving[host]}
        if self._labels.has_one(victim):
            found |= {j for j in changes.new if self._labels.meets(j, [victim])}
        return found | self._quotas.starts_beside(victim) | self._pools.takers_beside(victim)

    def _in_the_way(self, victim: int, gone: Collection[int]) -> bool:
        """Whether a victim could not stay, were it not for the arrivals of some jobs."""
        return self._breaks([victim], set(gone), self._changes.home_hosts(victim), [victim])

    def _breaks_without(
        self, higher: set[int], victims: Sequence[int], owners: Sequence[int]
    ) -> bool:
        """Whether something breaks without some jobs that come once some victims are back."""
        changes, back = self._changes, list(victims)
        hosts = set().union(*(changes.home_hosts(j) for j in back))
        gone = {j for j in higher if self.round.jobs[j].running is None}
        movers = sorted(higher - gone)
        while found := [
            j
            for j in movers
            if changes.arrives_on(j, hosts)
            or self._labels.meets(j, back)
            or self._pools.fills(j, back)
        ]:
            back += found
            hosts.update(*(changes.home_hosts(j) for j in found))
            movers = [j for j in movers if j not in found]
        return self._breaks(back, gone, hosts, owners)

    def _breaks(
        self, back: Sequence[int], gone: set[int], hosts: set[str], owners: Iterable[int]
    ) -> bool:
        """Whether some hosts, labels or pools of `back`, or quotas of `owners` break.

        `back` are in their places before the round, and `gone` do not arrive.
        """
        labelled = [j for j in back if self._labels.has_one(j)]
        others = self._changes.new.keys() - set(back) - gone if labelled else ()
        return (
            any(self._labels.meets(j, labelled) for j in others)
            or self._quotas.exceeded(set(back), gone, owners)
            or self._pools.exceeded(set(back), gone)
            or self._hosts.exceeds(back, gone, hosts)
        )

    def _on_away_hosts(self, job: int) -> bool:
        return not self._away.isdisjoint(self._changes.home_hosts(job))


def lawful(round_: Round, hosts: Sequence[str], candidate: Candidate) -> Candidate | None:
    """Return a candidate whose needless victims are back in place; None if it is unlawful."""
    needed: set[int] = set()
    while candidate.preempted:
        found = Displacement(round_, hosts, candidate)
        victim = found.needless(needed)
        if victim is None:
            return None if found.serves_lower_jobs() else candidate
        if any(victim in mates for mates in running_groups(round_)):
            # It would be back in a group, which the candidate does not have.
            return None
        left = {j: by for j, by in candidate.preempted.items() if j != victim}
        candidate = replace(candidate, preempted=left)
    return candidate


def lawful_in(round_: Round, candidate: Candidate) -> Candidate | None:
    """Return a `lawful` candidate whose places count the hosts as the round lists them."""
    hosts = [host for entry in round_.cluster.hosts for host in expand(entry.name)]
    return lawful(round_, hosts, candidate)


def displacers(
    round_: Round, hosts: Sequence[str], candidate: Candidate
) -> dict[int, tuple[int, ...]]:
    """Return who displaces each preempted job of a candidate."""
    if not candidate.preempted:
        return {}
    found = Displacement(round_, hosts, candidate)
    return {victim: found.displaced_by(victim) for victim in candidate.preempted}
