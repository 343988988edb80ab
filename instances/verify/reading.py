"""Round and plan side by side: each decision with the job, option, groups and hosts it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from placewright.instances.documents import WHOLE_GPU
from placewright.instances.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.round import Job, Option, Round, TaskGroup
from placewright.instances.verify.facts import ClusterFacts, HostFacts, read_cluster


class PlacedTask(NamedTuple):
    """A task whose group and host exist; `path` leads to it in the Plan document."""

    path: tuple[str | int, ...]
    task: Task
    group: TaskGroup
    host: HostFacts

    @property
    def milli_per_gpu(self) -> int:
        """What the task takes of each of its GPUs, in milli-GPU."""
        return min(self.group.gpu, WHOLE_GPU)


class Placed(NamedTuple):
    """A start or keep whose job and option exist; `tasks` are those that can be read."""

    path: tuple[str | int, ...]
    job: Job
    chosen: int
    decision: Decision
    tasks: tuple[PlacedTask, ...]

    @property
    def option(self) -> Option:
        """The option chosen."""
        return self.job.options[self.chosen]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the rules and terms look at.

    Whatever the plan names and the round does not have is left out here; the rules `known_job`,
    `option`, `gang` and `known_host` report it, and no other rule stumbles over it.
    """

    round: Round
    plan: Plan
    jobs: Mapping[str, Job]
    cluster: ClusterFacts
    kept: tuple[Placed, ...]
    started: tuple[Placed, ...]

    def placed_tasks(self) -> Iterator[PlacedTask]:
        """Yield all tasks that hold something after the round, those of kept jobs first."""
        for placed in (*self.kept, *self.started):
            yield from placed.tasks

    def started_tasks(self) -> Iterator[PlacedTask]:
        """Yield the tasks of started jobs."""
        for placed in self.started:
            yield from placed.tasks


def demand(group: TaskGroup) -> tuple[tuple[str, int], ...]:
    """Return what one task of a group asks of its host besides GPUs, as (resource, amount)."""
    return ("cpu", group.cpu), ("memory", group.memory), *group.resources.items()


def read(round: Round, plan: Plan) -> Reading:  # noqa: A002
    """Look up everything that the plan names."""
    jobs = {job.name: job for job in round.jobs}
    cluster = read_cluster(round.cluster)
    placed: dict[DecisionKind, list[Placed]] = {kind: [] for kind in DecisionKind}
    for index, decision in enumerate(plan.decisions):
        job, chosen = jobs.get(decision.job), decision.option
        if job is None or chosen is None or chosen >= len(job.options):
            continue
        path = ("decisions", index)
        groups = job.options[chosen].groups
        tasks = tuple(
            PlacedTask((*path, "tasks", number), task, groups[task.group], host)
            for number, task in enumerate(decision.tasks)
            if task.group < len(groups) and (host := cluster.hosts.get(task.host)) is not None
        )
        placed[decision.decision].append(Placed(path, job, chosen, decision, tasks))
    return Reading(
        round=round,
        plan=plan,
        jobs=jobs,
        cluster=cluster,
        kept=tuple(placed[DecisionKind.KEEP]),
        started=tuple(placed[DecisionKind.START]),
    )
