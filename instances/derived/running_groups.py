"""Running groups: jobs that take turns on the same GPUs, what they hold, and who could join."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

# Compatibility: jobs can take turns on GPUs if their first options ask for the same places.


def asks_whole_gpus(option: Option) -> bool:
    """Whether an option asks for GPUs, and for whole ones only."""
    return option.milli_gpu > 0 and all(
        group.mig is None and group.gpu % WHOLE_GPU == 0 for group in option.groups
    )


def grouping_key(job: Job) -> Hashable | None:
    """Return the grouping key, equal for all jobs of a group; None if this job is never in one.

    That is the first option but for names, `cpu`, `memory`, `resources`, `gpu_memory`, value and
    progress. Jobs without a profile, with an anti-affinity, or with parts of GPUs are in no group.
    """
    first = job.options[0]
    if job.profile is None or job.anti_affinity is not None or not asks_whole_gpus(first):
        return None
    return (
        first.required,
        first.hosts,
        tuple(
            (
                group.count,
                group.gpu,
                group.gpu_models,
                group.hosts,
                group.host_sets,
                group.required,
                group.preferred,
                group.slices,
                group.apart,
                group.num_hosts,
                group.communication,
            )
            for group in first.groups
        ),
    )


# Running groups: jobs that take turns on the same GPUs, and what they hold together.


def running_groups(round_: Round) -> list[tuple[int, ...]]:
    """Return the indices of the jobs of each group that runs, in the order of the round.

    A group is two or more jobs of one grouping key that run their first option with their tasks,
    one by one, on the same hosts and GPUs. There are none if the policy has no groups.
    """
    if "sharing" not in round_.policy.spec.sections:
        return []
    together: defaultdict[Hashable, list[int]] = defaultdict(list)
    for i, job in enumerate(round_.jobs):
        if job.running is not None and job.running.option == 0:
            key = grouping_key(job)
            if key is not None:
                places = ((t.group, t.index, t.host, frozenset(t.gpus)) for t in job.running.tasks)
                together[key, frozenset(places)].append(i)
    return [tuple(jobs) for jobs in together.values() if len(jobs) > 1]


class MarginalUsage:
    """What each task of a running job holds beyond the jobs before it in its group.

    Tasks have to be asked for in the round's order.
    """

    def __init__(self, round_: Round) -> None:
        self._group = {
            job: number for number, jobs in enumerate(running_groups(round_)) for job in jobs
        }
        self._cpu: dict[tuple[int, int, int], int] = {}

    def of(self, job: int, task: Task, group: TaskGroup) -> TaskGroup:
        """Return what a task adds to what its group holds, as a task group of its own.

        The first job of a group holds its GPUs; each further one adds only the CPU that it asks
        beyond what one before it asks, as they take turns, and all that it asks of anything else.
        """
        number = self._group.get(job)
        if number is None:
            return group
        key = (number, task.group, task.index)
        before = self._cpu.get(key)
        self._cpu[key] = max(group.cpu, before or 0)
        if before is None:
            return group
        return group.model_copy(update={"gpu": 0, "cpu": max(group.cpu - before, 0)})
