"""Running groups: jobs that take turns on the same GPUs, and what they hold together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from placewright.instances.derived.compatibility import grouping_key
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round


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
