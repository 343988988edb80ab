"""Places of jobs before and after a candidate, in named domains, and their precedence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

from placewright.formulations.gang.problem.jobs import NOBODY, Leave
from placewright.formulations.gang.problem.limits import borrowing_options
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU


class DomainNames:
    """Domain of each host, level by level; the arrays are made once somebody asks."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._known: dict[str, Mapping[str, str]] = {}

    def of(self, level: str) -> Mapping[str, str]:
        """Return the domain of a level of each host, by name."""
        if level not in self._known:
            cluster, depth = self._cluster, self._cluster.level_index(level)
            names = [cluster.names[depth][d] for d in cluster.domain[depth].tolist()]
            self._known[level] = dict(zip(cluster.hosts, names, strict=True))
        return self._known[level]

    @cached_property
    def _cluster(self) -> Cluster:
        return build_cluster(self._round.cluster)


Rank: TypeAlias = tuple[bool, bool, bool, int]
"""Promised the current lease, guaranteed by cells, entitled, priority."""
LOWEST: Rank = (False, False, False, -(10**10))


class PlacedTask(NamedTuple):
    """A task: its option, its group, its number there, host, GPUs, and the start of a MIG slice."""

    option: int
    group: int
    number: int
    host: str
    gpus: frozenset[int]
    slot: int | None


class Changes:
    """What a candidate changes: the places of its jobs before and after the round.

    `hosts`: names of the hosts, as the indices of places count them. `new`: tasks of the jobs that
    start or move. `guaranteed`: jobs that cells guarantee.
    """

    def __init__(self, round_: Round, hosts: Sequence[str], candidate: Candidate) -> None:
        self.round, self.candidate = round_, candidate
        self.new: dict[int, tuple[PlacedTask, ...]] = {}
        for j, (option, places) in candidate.starts.items():
            slots = candidate.slots.get(j) or (None,) * len(places)
            self.new[j] = tuple(
                PlacedTask(option, g, i, hosts[h], frozenset(gpus), slot)
                for (g, i, h, gpus), slot in zip(places, slots, strict=True)
            )
        self.guaranteed = set(guaranteed(round_)) if any(t.cells for t in round_.tenants) else set()
        self._homes: dict[int, tuple[PlacedTask, ...]] = {}
        self._promised = {promise.job for promise in candidate.promises}

    def home(self, job: int) -> tuple[PlacedTask, ...]:
        """Return the tasks of a running job in their places; none of a pending one."""
        if job not in self._homes:
            running = self.round.jobs[job].running
            self._homes[job] = (
                tuple(
                    PlacedTask(running.option, t.group, t.index, t.host, frozenset(t.gpus), t.slot)
                    for t in running.tasks
                )
                if running is not None
                else ()
            )
        return self._homes[job]

    def home_hosts(self, job: int) -> set[str]:
        """Return the hosts that a job is on before the round."""
        return {task.host for task in self.home(job)}

    def places(self, job: int) -> tuple[PlacedTask, ...]:
        """Return the tasks of a job that runs after the round."""
        return self.new[job] if job in self.new else self.home(job)

    def arrivals(self, job: int) -> list[PlacedTask]:
        """Return the tasks of a job that starts or moves which are not where they were."""
        before = set(self.home(job))
        return [task for task in self.new[job] if task not in before]

    def arrives_on(self, job: int, hosts: Collection[str]) -> bool:
        """Whether a task of a job arrives on some of these hosts.

        One that resizes arrives where it takes more of something than before.
        """
        if self.resizes(job):
            return not self._grown(job).isdisjoint(hosts)
        return any(task.host in hosts for task in self.arrivals(job))

    def _grown(self, job: int) -> set[str]:
        """Return the hosts of which a job that resizes takes more of something than before."""
        more: Counter[tuple[str, object]] = Counter()
        for tasks, sign in ((self.new[job], 1), (self.home(job), -1)):
            for task in tasks:
                group = self.group(job, task)
                amounts = {"cpu": group.cpu, "memory": group.memory, **group.resources}
                for name, amount in amounts.items():
                    more[task.host, name] += sign * amount
                for gpu in task.gpus:
                    more[task.host, gpu] += sign * min(group.gpu, WHOLE_GPU)
                    more[task.host, (gpu, "memory")] += sign * group.gpu_memory
                    part = None if group.mig is None else (group.mig, task.slot)
                    more[task.host, (gpu, part)] += sign
        return {where[0] for where, amount in more.items() if amount > 0}

    @cached_property
    def near(self) -> set[str]:
        """The hosts from which some job may go: only what is on these is looked at."""
        return {
            task.host
            for j in (*self.candidate.preempted, *self.candidate.starts)
            if (running := self.round.jobs[j].running) is not None
            for task in running.tasks
        }

    @cached_property
    def by_host(self) -> Mapping[str, list[int]]:
        """The jobs that run after the round on each host from which some job goes."""
        found: dict[str, list[int]] = {host: [] for host in self.near}
        for j, job in enumerate(self.round.jobs):
            if j in self.new:
                there = {task.host for task in self.new[j]}
            elif job.running is None or j in self.candidate.preempted:
                continue
            else:
                there = {task.host for task in job.running.tasks}
            for host in there & self.near:
                found[host].append(j)
        return found

    @cached_property
    def arriving(self) -> Mapping[str, list[int]]:
        """The jobs that arrive on each host from which some job goes."""
        found: dict[str, list[int]] = {host: [] for host in self.near}
        for j in self.new:
            for host in {task.host for task in self.arrivals(j)} & self.near:
                found[host].append(j)
        return found

    def group(self, job: int, task: PlacedTask) -> TaskGroup:
        """Return the task group of a task."""
        return self.round.jobs[job].options[task.option].groups[task.group]

    def option(self, job: int, tasks: Sequence[PlacedTask]) -> Option:
        """Return the option with which a job has some tasks, all before or all after the round."""
        return self.round.jobs[job].options[tasks[0].option]

    def resizes(self, job: int) -> bool:
        """Whether a running job changes its option."""
        running = self.round.jobs[job].running
        return running is not None and job in self.new and self._option(job) != running.option

    def rank(self, job: int) -> Rank:
        """Return the precedence of a job that starts or moves, the lowest if it preempts nobody."""
        if self._leave.ruled and self._number(job) == NOBODY:
            return LOWEST
        return job in self._promised, *self.level(job)[1:]

    def over(self, victim: int, jobs: Iterable[int] | None = None) -> set[int]:
        """Return the jobs that start or move and may preempt a victim, all or of some."""
        level = self.level(victim)
        higher = {j for j in (self.new if jobs is None else jobs) if self.rank(j) > level}
        if not self._leave.ruled:
            return higher
        kind = self._leave.kind(self.round.jobs[victim], entitled=level[2])
        return {j for j in higher if self._leave.has(self._number(j), kind)}

    def _number(self, job: int) -> int:
        return self._leave.number(self.round.jobs[job], entitled=self.level(job)[2])

    @property
    def ruled(self) -> bool:
        """Whether the round says more than precedence does of who may preempt whom."""
        return self._leave.ruled

    @cached_property
    def _leave(self) -> Leave:
        return Leave(self.round, self._borrowed)

    def level(self, job: int) -> Rank:
        """Return the precedence of a job apart from promises: what must be above a victim's."""
        borrows = self._option(job) in self._borrowed.get(job, ())
        return False, job in self.guaranteed, not borrows, self.round.jobs[job].priority

    def _option(self, job: int) -> int:
        if job in self.candidate.starts:
            return self.candidate.starts[job][0]
        running = self.round.jobs[job].running
        return 0 if running is None else running.option

    @cached_property
    def _borrowed(self) -> Mapping[int, tuple[int, ...]]:
        return borrowing_options(self.round)
