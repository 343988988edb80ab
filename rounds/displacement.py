"""Who displaces whom in a candidate, on exact GPUs, and whether its preemptions are lawful.

A preempted job is displaced by jobs of strictly higher precedence that arrive: a minimal set
without which it could stay (docs/plans.md#who-may-be-preempted).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from placewright.formulations.gang.problem.entitlement import borrowing_options
from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.interleaving.problem.merged_groups import merged_task_groups
from placewright.formulations.plan_messages import Candidate
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

Rank: TypeAlias = tuple[bool, bool, bool, int]
"""Promised the current lease, guaranteed by cells, entitled, priority."""
Account: TypeAlias = tuple[str, str]
"""A tenant's quota: its name and the region, "" for the whole cluster."""


class _Task(NamedTuple):
    """A task: its group, its number there, the host's name, GPUs, and the start of a MIG slice."""

    group: int
    number: int
    host: str
    gpus: frozenset[int]
    slot: int | None


class Displacement:
    """The preempted jobs of a candidate, and who displaces them.

    Parameters
    ----------
    hosts
        Names of the hosts, as the indices of places count them.
    """

    def __init__(self, round_: Round, hosts: Sequence[str], candidate: Candidate) -> None:
        self.round, self.candidate = round_, candidate
        self._hardware = hosts_by_name(round_.cluster)
        self._new: dict[int, tuple[_Task, ...]] = {}
        for j, (_, places) in candidate.starts.items():
            slots = candidate.slots.get(j) or (None,) * len(places)
            self._new[j] = tuple(
                _Task(g, i, hosts[h], frozenset(gpus), slot)
                for (g, i, h, gpus), slot in zip(places, slots, strict=True)
            )
        self._homes: dict[int, tuple[_Task, ...]] = {}
        self._groups = [set(group.members) for group in candidate.groups]
        self._promised = {promise.job for promise in candidate.promises}
        # Only what is on these hosts is looked at.
        self._near = {
            task.host
            for j in (*candidate.preempted, *candidate.starts)
            if (running := round_.jobs[j].running) is not None
            for task in running.tasks
        }
        self._away = unavailable_hosts(round_.leases, round_.now)
        self._guaranteed = (
            set(guaranteed(round_)) if any(t.cells for t in round_.tenants) else set()
        )
        self._regions = round_.geo.regions if round_.policy.spec.by_region else ()

    def displaced_by(self, victim: int) -> tuple[int, ...]:
        """Return a minimal set of jobs without which a victim could stay.

        Those of lowest precedence are left out first, and of these the last in the round. Empty if
        the victim is on a host that is away, or if there is no such set.
        """
        if self._on_away_hosts(victim):
            return ()
        known = self.candidate.preempted.get(victim, -1)
        if victim in self._evicted:
            return (known,) if known in self._new else self._comes_first(victim)
        mine = self._level(victim)
        higher = [j for j in self._may_displace(victim) if self._rank(j) > mine]
        near = sorted(higher, key=lambda j: (self._rank(j), -j))
        if self._in_the_way(victim, near):
            return ()
        left = list(near)
        for j in near:
            fewer = [other for other in left if other != j]
            if not self._in_the_way(victim, fewer):
                left = fewer
        return tuple(sorted(left))

    def needless(self) -> int | None:
        """Return a victim that could stay beside all others, the highest one; None without one."""
        ordered = sorted(self._judged, key=lambda j: (self._level(j), -j), reverse=True)
        return next((j for j in ordered if not self._in_the_way(j, ())), None)

    def serves_lower_jobs(self) -> bool:
        """Whether jobs of no higher precedence than a victim's have what it gave back."""
        return any(self._breaks_below(level) for level in {self._level(j) for j in self._judged})

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
        fixed = self._guaranteed
        if not fixed & self._new.keys():
            return set()
        there = {j for jobs in self._by_host.values() for j in jobs} - fixed
        others = {j for j in there if not ((r := self.round.jobs[j].running) and r.pinned)}
        return {
            j
            for j in self.candidate.preempted
            if self._touches_parts(j) or self._broken([j], others, self._hosts(j))
        }

    def _touches_parts(self, victim: int) -> bool:
        """Whether a victim is on a GPU of which it or a guaranteed job takes memory or a slice."""
        on_gpu = {
            (task.host, gpu): self._group(j, task)
            for j in self._guaranteed & self._new.keys()
            for task in self._new[j]
            for gpu in task.gpus
        }
        return any(
            _is_part(self._group(victim, task)) or _is_part(on_gpu[task.host, gpu])
            for task in self._home(victim)
            for gpu in task.gpus
            if (task.host, gpu) in on_gpu
        )

    def _comes_first(self, victim: int) -> tuple[int, ...]:
        hosts = self._hosts(victim)
        found = [
            j
            for j in sorted(self._guaranteed & self._new.keys())
            if not hosts.isdisjoint(task.host for task in self._new[j])
        ]
        return tuple(found[:1])

    def _may_displace(self, victim: int) -> set[int]:
        """Return who arrives on a victim's hosts, or may meet its label or take its quota."""
        found = {j for host in self._hosts(victim) for j in self._arriving[host]}
        if self.round.jobs[victim].anti_affinity is not None:
            found |= {j for j in self._new if self._same_label(j, [victim])}
        for account in self._accounts(victim, self._home(victim)):
            found |= {j for j in self._changes[account] if self.round.jobs[j].running is None}
        return found

    @cached_property
    def _arriving(self) -> Mapping[str, list[int]]:
        """The jobs that arrive on each host from which some job goes."""
        found: dict[str, list[int]] = {host: [] for host in self._near}
        for j in self._new:
            for host in {task.host for task in self._arrivals(j)} & self._near:
                found[host].append(j)
        return found

    def _in_the_way(self, victim: int, gone: Collection[int]) -> bool:
        """Whether a victim could not stay, were it not for the arrivals of some jobs."""
        return self._breaks([victim], set(gone), self._hosts(victim), [victim])

    def _breaks_below(self, level: Rank) -> bool:
        """Whether something breaks without higher jobs once the victims of a level are back."""
        back = [j for j in self._judged if self._level(j) >= level]
        hosts = set().union(*(self._hosts(j) for j in back))
        higher = {j for j in self._new if self._rank(j) > level}
        gone = {j for j in higher if self.round.jobs[j].running is None}
        movers = sorted(higher - gone)
        while found := [
            j for j in movers if self._arrives_on(j, hosts) or self._same_label(j, back)
        ]:
            back += found
            hosts.update(*(self._hosts(j) for j in found))
            movers = [j for j in movers if j not in found]
        owners = [j for j in self._judged if self._level(j) == level]
        return self._breaks(back, gone, hosts, owners)

    def _breaks(
        self, back: Sequence[int], gone: set[int], hosts: set[str], owners: Iterable[int]
    ) -> bool:
        """Whether some hosts, labels of `back` or quotas of `owners` break.

        `back` are in their places before the round, and `gone` do not arrive.
        """
        labelled = [j for j in back if self.round.jobs[j].anti_affinity is not None]
        others = self._new.keys() - set(back) - gone if labelled else ()
        return (
            any(self._same_label(j, labelled) for j in others)
            or self._over_quota(set(back), gone, owners)
            or self._broken(back, gone, hosts)
        )

    def _broken(self, back: Sequence[int], gone: set[int], hosts: set[str]) -> bool:
        places = {j: self._places(j) for h in hosts for j in self._by_host[h] if j not in gone}
        places |= {j: self._home(j) for j in back}
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
        return any(self._gpu_broken(host, held) for (host, _), held in gpus.items())

    def _gpu_broken(self, host: str, held: list[tuple[TaskGroup, int | None]]) -> bool:
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
        self, places: Mapping[int, Sequence[_Task]], back: set[int]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the groups of jobs that take turns in these places, and jobs alone."""
        home = {j for j in places if j in back or j not in self._new}
        groups = [group & (places.keys() - back) for group in self._groups]
        groups = [group for group in groups if group - home and len(group) > 1]
        taken: set[int] = set().union(*groups)
        groups += [set(mine) & home - taken for mine in self._ran_together]
        alone = set(places).difference(*groups)
        yield from (tuple(sorted(group)) for group in groups if group)
        yield from ((j,) for j in sorted(alone))

    @cached_property
    def _ran_together(self) -> list[tuple[int, ...]]:
        return running_groups(self.round)

    def _merged(self, members: tuple[int, ...], task: _Task) -> TaskGroup:
        if len(members) == 1:
            return self._group(members[0], task)
        jobs = [self.round.jobs[j] for j in members]
        return merged_task_groups(jobs, self.round.sharing)[task.group]

    @cached_property
    def _by_host(self) -> Mapping[str, list[int]]:
        """The jobs that run after the round on each host from which some job goes."""
        found: dict[str, list[int]] = {host: [] for host in self._near}
        for j, job in enumerate(self.round.jobs):
            if j in self._new:
                there = {task.host for task in self._new[j]}
            elif job.running is None or j in self.candidate.preempted:
                continue
            else:
                there = {task.host for task in job.running.tasks}
            for host in there & self._near:
                found[host].append(j)
        return found

    def _places(self, job: int) -> tuple[_Task, ...]:
        """Return the tasks of a job that runs after the round."""
        return self._new[job] if job in self._new else self._home(job)

    def _home(self, job: int) -> tuple[_Task, ...]:
        """Return the tasks of a running job in their places; none of a pending one."""
        if job not in self._homes:
            running = self.round.jobs[job].running
            self._homes[job] = tuple(
                _Task(t.group, t.index, t.host, frozenset(t.gpus), t.slot)
                for t in (() if running is None else running.tasks)
            )
        return self._homes[job]

    @cached_property
    def _borrowed(self) -> Mapping[int, tuple[int, ...]]:
        return borrowing_options(self.round)

    def _option(self, job: int) -> int:
        if job in self.candidate.starts:
            return self.candidate.starts[job][0]
        running = self.round.jobs[job].running
        return 0 if running is None else running.option

    def _group(self, job: int, task: _Task) -> TaskGroup:
        return self.round.jobs[job].options[self._option(job)].groups[task.group]

    def _asks(self, job: int) -> dict[str, int]:
        return resources_held(self.round.jobs[job].options[self._option(job)])

    def _rank(self, job: int) -> Rank:
        return job in self._promised, *self._level(job)[1:]

    def _level(self, job: int) -> Rank:
        borrows = self._option(job) in self._borrowed.get(job, ())
        return False, job in self._guaranteed, not borrows, self.round.jobs[job].priority

    def _hosts(self, job: int) -> set[str]:
        return {task.host for task in self._home(job)}

    def _on_away_hosts(self, job: int) -> bool:
        return not self._away.isdisjoint(self._hosts(job))

    def _arrivals(self, job: int) -> list[_Task]:
        before = set(self._home(job))
        return [task for task in self._new[job] if task not in before]

    def _arrives_on(self, job: int, hosts: Collection[str]) -> bool:
        return any(task.host in hosts for task in self._arrivals(job))

    def _same_label(self, job: int, others: Iterable[int]) -> bool:
        """Whether a job arrives in a domain of its label that one of others is in, back home."""
        asked = self.round.jobs[job].anti_affinity
        if asked is None:
            return False
        domain = self._domains(asked.level)
        come = {domain[task.host] for task in self._arrivals(job)}
        return any(
            other != job
            and self.round.jobs[other].anti_affinity == asked
            and not come.isdisjoint(domain[task.host] for task in self._home(other))
            for other in others
        )

    def _domains(self, level: str) -> Mapping[str, str]:
        if level not in self._of_level:
            self._of_level[level] = domains_of(self.round, level)
        return self._of_level[level]

    @cached_property
    def _of_level(self) -> dict[str, Mapping[str, str]]:
        return {}

    @cached_property
    def _limits(self) -> dict[Account, Mapping[str, int]]:
        limits: dict[Account, Mapping[str, int]] = {
            (t.name, ""): t.quota for t in self.round.tenants if t.quota
        }
        for region in self._regions:
            for tenant, quota in region.quotas.items():
                limits[tenant, region.name] = {"gpu": quota}
        return limits

    def _accounts(self, job: int, tasks: Sequence[_Task]) -> list[Account]:
        """Return the quotas that a job counts in, with its tasks in these places."""
        tenant = self.round.jobs[job].tenant
        if tenant is None or not self._limits:
            return []
        names = {""}
        if self._regions:
            names |= {self._domains(self.round.geo.level)[task.host] for task in tasks}
        return [(tenant, name) for name in sorted(names) if (tenant, name) in self._limits]

    @cached_property
    def _held_before(self) -> Mapping[Account, Counter[str]]:
        held: defaultdict[Account, Counter[str]] = defaultdict(Counter)
        owners = {tenant for tenant, _ in self._limits}
        for j, job in enumerate(self.round.jobs if owners else ()):
            if job.running is None or job.tenant not in owners:
                continue
            for account in self._accounts(j, self._home(j)):
                held[account].update(self._asks(j))
        return held

    @cached_property
    def _changes(self) -> Mapping[Account, list[int]]:
        """Jobs that start or stop, by quota."""
        found: defaultdict[Account, list[int]] = defaultdict(list)
        starts = {j: new for j, new in self._new.items() if self.round.jobs[j].running is None}
        stops = {j: self._home(j) for j in self.candidate.preempted}
        for j, tasks in (starts | stops).items():
            for account in self._accounts(j, tasks):
                found[account].append(j)
        return found

    def _over_quota(self, back: set[int], gone: set[int], owners: Iterable[int]) -> bool:
        for account in {a for j in owners for a in self._accounts(j, self._home(j))}:
            change: Counter[str] = Counter()
            for j in self._changes.get(account, ()):
                asks = self._asks(j)
                if self.round.jobs[j].running is None:
                    change.update(asks if j not in gone else {})
                elif j not in back:
                    change.subtract(asks)
            held = self._held_before.get(account, Counter())
            if any(
                held[name] + change[name] > max(limit, held[name])
                for name, limit in self._limits[account].items()
            ):
                return True
        return False


def lawful(round_: Round, hosts: Sequence[str], candidate: Candidate) -> Candidate | None:
    """Return a candidate whose needless victims are back in place; None if it is unlawful."""
    while candidate.preempted:
        found = Displacement(round_, hosts, candidate)
        victim = found.needless()
        if victim is None:
            return None if found.serves_lower_jobs() else candidate
        if any(victim in mates for mates in running_groups(round_)):
            # It would be back in a group, which the candidate does not have.
            return None
        left = {j: by for j, by in candidate.preempted.items() if j != victim}
        candidate = replace(candidate, preempted=left)
    return candidate


def displacers(
    round_: Round, hosts: Sequence[str], candidate: Candidate
) -> dict[int, tuple[int, ...]]:
    """Return who displaces each preempted job of a candidate."""
    if not candidate.preempted:
        return {}
    found = Displacement(round_, hosts, candidate)
    return {victim: found.displaced_by(victim) for victim in candidate.preempted}


def domains_of(round_: Round, level: str) -> dict[str, str]:
    """Return the domain of a level of each host, by name."""
    cluster = round_.cluster
    parents = {(entry.level, entry.name): entry.parent for entry in cluster.domains}
    found: dict[str, str] = {}
    for entry in cluster.hosts:
        above, levels = entry.parent, list(cluster.levels)
        while level in levels and levels and levels[-1] != level and above is not None:
            above = parents[levels.pop(), above]
        for name in expand(entry.name):
            found[name] = name if level not in cluster.levels or above is None else above
    return found


def _is_part(group: TaskGroup) -> bool:
    return group.mig is not None or bool(group.gpu_memory)
