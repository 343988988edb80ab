"""Plans in which preempted jobs are back in their places: whether anything breaks in them.

A plan without some starts, and with some running jobs where they were before, is asked of a few
hosts only: their capacity, their GPUs and parts of GPUs, the labels of the jobs that are back,
quotas and pools.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision
from placewright.instances.verify.reading import (
    Group,
    Member,
    Placed,
    PlacedTask,
    Reading,
)
from placewright.instances.verify.rules.gang.accounts import (
    Account,
    Held,
    Resource,
    accounts_of,
    asked_in,
    limits_of,
    text_of,
)
from placewright.instances.verify.rules.gang.capacity import RULES_OF_CAPACITY
from placewright.instances.verify.rules.gang.gpu_parts import RULES_OF_GPU_PARTS
from placewright.instances.verify.rules.gang.pools import Pools
from placewright.instances.verify.shared_gpus import held, ran_together

_Asked: TypeAlias = dict[str, Mapping[Resource, int]]
"""What jobs count, by name."""

_LOCAL = (*RULES_OF_CAPACITY, *(r for r in RULES_OF_GPU_PARTS if r.id != "slot"))


class PutBack:
    """A plan, and what would break if running jobs were back where they were.

    In all methods `back` are running jobs that are in their places before the round instead of
    where the plan has them, if it has them anywhere, and `gone` are started jobs that wait.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._taking_turns = "groups" in reading.round.policy.spec.plan_sections
        self.pools = Pools(reading)
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
        left = [p for p in there.values() if p.job.name not in back and p.job.name not in gone]
        kept = [p for p in left if not p.arrivals] + [self.home(job) for job in back]
        anew = [p for p in left if p.arrivals]
        return self._local(kept, anew, {*back, *gone}, hosts)

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
        for placed in self._reading.placed_anew if labelled else ():
            name = placed.job.name
            if name not in back and name not in gone and self.shares_label(placed, labelled):
                return f"job {name!r} comes to a domain that its label shares"
        return ""

    def _quotas(self, back: Collection[str], gone: Collection[str], owners: Collection[str]) -> str:
        for account in {a for job in owners for a in self._accounts(self._reading.jobs[job])}:
            starts, victims = self._changes.get(account, ({}, {}))
            after: Held = Counter(self._after.get(account, Counter()))
            for job in set(gone):
                after.subtract(starts.get(job, {}))
            for job in set(back):
                after.update(victims.get(job, {}))
            for resource, limit in self._limits[account].items():
                most = max(limit, self._before[account][resource])
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

    @cached_property
    def _limits(self) -> Mapping[Account, Mapping[Resource, int]]:
        return limits_of(self._reading.round, by_region=self._reading.data is not None)

    def _accounts(self, job: Job, hosts: Iterable[str] | None = None) -> list[Account]:
        """Return the accounts that a running job counts in, or one on some hosts."""
        found = accounts_of(job)
        if job.tenant is not None and (data := self._reading.data) is not None:
            there = self.hosts(job.name) if hosts is None else hosts
            facts = self._reading.cluster.hosts
            regions = sorted({facts[h].domains[data.facts.position] for h in there})
            found += [Account("tenant", job.tenant, region) for region in regions]
        return [account for account in found if account in self._limits]

    @cached_property
    def _before(self) -> Mapping[Account, Held]:
        """What is held of each account before the round."""
        before: defaultdict[Account, Held] = defaultdict(Counter)
        for name in self._reading.running if self._limits else ():
            for account in self._accounts(self._reading.jobs[name]):
                before[account].update(asked_in(account, self._reading.option_run(name)))
        return before

    @cached_property
    def _after(self) -> Mapping[Account, Held]:
        """What is held of each account after the round."""
        found: dict[Account, Held] = dict(self._before)
        for account, (starts, victims) in self._changes.items():
            found[account] = Counter(self._before.get(account, Counter()))
            for asked in starts.values():
                found[account].update(asked)
            for asked in victims.values():
                found[account].subtract(asked)
        return found

    @cached_property
    def _changes(self) -> Mapping[Account, tuple[_Asked, _Asked]]:
        """What each start and each preempted job counts, by account."""
        found: dict[Account, tuple[_Asked, _Asked]] = {}
        for placed in self._reading.started:
            hosts = {task.host.name for task in placed.tasks}
            for account in self._accounts(placed.job, hosts):
                asked = asked_in(account, placed.option)
                found.setdefault(account, ({}, {}))[0][placed.job.name] = asked
        for victim in self._reading.preempted:
            name = victim.job.name
            for account in self._accounts(victim.job):
                asked = asked_in(account, self._reading.option_run(name))
                found.setdefault(account, ({}, {}))[1][name] = asked
        return found


def _on(jobs: Iterable[Placed], hosts: Collection[str]) -> tuple[Placed, ...]:
    """Return jobs with their tasks on some hosts."""
    return tuple(
        placed._replace(tasks=tuple(task for task in placed.tasks if task.host.name in hosts))
        for placed in jobs
    )


def _takes_part(task: PlacedTask) -> bool:
    return task.group.mig is not None or bool(task.group.gpu_memory)
