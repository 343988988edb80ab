"""A plan resolved against its round: decisions with their jobs, options, groups and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.plan_leases import LeaseSection, Promised
from placewright.instances.documents.round import Round
from placewright.instances.verify.cluster_facts import ClusterFacts, HostFacts, read_cluster
from placewright.instances.verify.data_facts import Data
from placewright.instances.verify.named_hosts import NamedHosts
from placewright.topology.units import WHOLE_GPU


class PlacedTask(NamedTuple):
    """A task whose group and host exist, and the indices that lead to it in the Plan document."""

    decision: int
    number: int
    task: Task
    group: TaskGroup
    host: HostFacts

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the task stands in the Plan document."""
        return "decisions", self.decision, "tasks", self.number

    @property
    def milli_per_gpu(self) -> int:
        """What the task takes of each of its GPUs, in milli-GPU."""
        return min(self.group.gpu, WHOLE_GPU)


class Placed(NamedTuple):
    """A start, keep or migration whose job and option exist; `tasks` are those that can be read.

    `arrivals` are the tasks that come to a place: all of a started job, those of a migrated job
    that change host or GPUs, none of a kept job.
    """

    position: int
    job: Job
    chosen: int
    option: Option
    decision: Decision
    tasks: tuple[PlacedTask, ...]
    arrivals: tuple[PlacedTask, ...]

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the decision stands in the Plan document."""
        return "decisions", self.position


class Member(NamedTuple):
    """A job of a group, and its offset in the slots of the period."""

    placed: Placed
    offset: int


class Group(NamedTuple):
    """Two jobs or more, all with a profile, that the plan lets take turns on the same GPUs.

    `period` is what the plan claims, in microseconds, None if that is no whole number. The group
    `stays` if its members are all kept, and ran together before, nobody else with them.
    """

    path: tuple[str | int, ...]
    members: tuple[Member, ...]
    period: int | None
    stays: bool


class Spans(NamedTuple):
    """Intervals of leases, as flat arrays: whose each is, its first lease, the one after its last.

    Those of one owner lie together, in the order of the plan.
    """

    owner: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


class Promises(NamedTuple):
    """The section `leases` of a plan.

    `numbers` says which of its promises is that of a job, and `spans` have them as their owners.
    `timely` are the jobs of those whose intervals are in order and in reach, by the same numbers.
    """

    path: tuple[str | int, ...]
    section: LeaseSection
    numbers: Mapping[str, int]
    spans: Spans
    timely: Mapping[int, Job]

    def of(self, job: str) -> Promised | None:
        """Return the promise of a job, None if it has none."""
        number = self.numbers.get(job)
        return None if number is None else self.section.jobs[number]


class Preempted(NamedTuple):
    """A running job that is stopped."""

    path: tuple[str | int, ...]
    job: Job
    decision: Decision


@dataclass(frozen=True, slots=True)
class Reading:
    """The resolved plan that rules and terms look at.

    Whatever the plan names and the round does not have is left out here; the rules `known_job`,
    `legal_decision`, `option`, `gang` and `known_host` report it, and no other rule stumbles over
    it. `round` is without the invalid jobs of the one `given`. `running` says by job name what runs
    before the round; every migrated and preempted job is in it. `named` tells which hosts groups
    name; `vacated` are the hosts that the policy empties. `sliced`: some job has or gets a MIG
    slice; `parted`: or asks for memory of GPUs. `groups` are those of the plan, and `held` what all
    tasks hold if there are some. `promises` are None where the plan has none that can be read, and
    `data` where the policy has no regions.
    """

    round: Round
    given: Round
    plan: Plan
    jobs: Mapping[str, Job]
    running: Mapping[str, Running]
    cluster: ClusterFacts
    named: NamedHosts
    vacated: frozenset[str]
    kept: tuple[Placed, ...]
    migrated: tuple[Placed, ...]
    started: tuple[Placed, ...]
    preempted: tuple[Preempted, ...]
    sliced: bool
    parted: bool
    groups: tuple[Group, ...] = ()
    held: tuple[PlacedTask, ...] | None = None
    promises: Promises | None = None
    data: Data | None = None

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Kept, migrated and started jobs: all that run after the round."""
        return *self.kept, *self.migrated, *self.started

    def promise_of(self, job: str) -> Promised | None:
        """Return what a job is promised after the round, None for nothing."""
        return None if self.promises is None else self.promises.of(job)

    @property
    def placed_anew(self) -> tuple[Placed, ...]:
        """Migrated and started jobs: those whose place the plan chooses."""
        return *self.migrated, *self.started

    def arrivals(self) -> Iterator[PlacedTask]:
        """Yield the tasks that come to a place, those of migrated jobs first."""
        for placed in self.placed_anew:
            yield from placed.arrivals

    def placed_tasks(self) -> Iterator[PlacedTask]:
        """Yield all tasks that hold something after the round, those of kept jobs first."""
        for placed in (*self.kept, *self.placed_anew):
            yield from placed.tasks

    def held_tasks(self) -> Iterable[PlacedTask]:
        """Return the tasks with what they hold, so that it can be summed over a host or GPU."""
        return self.placed_tasks() if self.held is None else self.held

    def busy(self) -> set[str]:
        """Return the hosts on which some task runs before the round."""
        return {task.host for running in self.running.values() for task in running.tasks}

    def option_run(self, job: str) -> Option:
        """Return the option that a running job runs."""
        return self.jobs[job].options[self.running[job].option]


def demand(group: TaskGroup) -> tuple[tuple[str, int], ...]:
    """Return what one task of a group asks of its host besides GPUs, as (resource, amount)."""
    return ("cpu", group.cpu), ("memory", group.memory), *group.resources.items()


def read(round: Round, plan: Plan) -> Reading:  # noqa: A002
    """Resolve everything that the plan names."""
    given, round = round, round.valid_part()  # noqa: A001
    jobs = {job.name: job for job in round.jobs}
    running = {job.name: job.running for job in round.jobs if job.running is not None}
    cluster = read_cluster(round.cluster)
    kept: list[Placed] = []
    migrated: list[Placed] = []
    started: list[Placed] = []
    preempted: list[Preempted] = []
    hosts = cluster.hosts
    keep, start = DecisionKind.KEEP, DecisionKind.START
    migrate, preempt = DecisionKind.MIGRATE, DecisionKind.PREEMPT
    for index, decision in enumerate(plan.decisions):
        job, chosen, kind = jobs.get(decision.job), decision.option, decision.decision
        if job is None:
            continue
        if kind is preempt:
            if job.running is not None:
                preempted.append(Preempted(("decisions", index), job, decision))
            continue
        if chosen is None or chosen >= len(job.options):
            continue
        option = job.options[chosen]
        groups = option.groups
        read_tasks = []
        for number, task in enumerate(decision.tasks):
            host = hosts.get(task.host)
            if host is not None and task.group < len(groups):
                read_tasks.append(PlacedTask(index, number, task, groups[task.group], host))
        tasks = tuple(read_tasks)
        if kind is keep:
            kept.append(Placed(index, job, chosen, option, decision, tasks, ()))
        elif kind is start:
            started.append(Placed(index, job, chosen, option, decision, tasks, tasks))
        elif kind is migrate and job.running is not None:
            moved = _moved(tasks, job.running)
            migrated.append(Placed(index, job, chosen, option, decision, tasks, moved))
    held = [jobs[name].options[now.option].groups for name, now in running.items()]
    held += [placed.option.groups for placed in (*kept, *migrated, *started)]
    # Jobs share groups, so few are looked at.
    asked = {id(group): group for groups in held for group in groups}.values()
    sliced = any(group.mig for group in asked)
    return Reading(
        round=round,
        given=given,
        plan=plan,
        jobs=jobs,
        running=running,
        cluster=cluster,
        named=NamedHosts(round, cluster.hosts),
        vacated=frozenset(host for name in round.policy.vacate for host in expand(name)),
        kept=tuple(kept),
        migrated=tuple(migrated),
        started=tuple(started),
        preempted=tuple(preempted),
        sliced=sliced,
        parted=sliced or any(group.gpu_memory for group in asked),
    )


def _moved(tasks: tuple[PlacedTask, ...], running: Running) -> tuple[PlacedTask, ...]:
    """Return the tasks that are not where they run: on the same host, GPUs and slot."""
    before = {_place(task) for task in running.tasks}
    return tuple(placed for placed in tasks if _place(placed.task) not in before)


def _place(task: Task) -> tuple[int, int, str, frozenset[int], int | None]:
    return task.group, task.index, task.host, frozenset(task.gpus), task.slot
