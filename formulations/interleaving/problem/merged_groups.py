"""Merged task groups: what several jobs that share GPUs ask together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placewright.formulations.interleaving.problem.conflicts import size_in_group
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.sharing import Sharing


def merged_option(jobs: Sequence[Job], sharing: Sharing) -> Option:
    """Return the option of one job that takes what these jobs take together; of one its own.

    They share all their places, so that what each of them uses of pools adds up.
    """
    first = jobs[0]
    if len(jobs) == 1:
        return first.options[first.running.option if first.running is not None else 0]
    uses: Counter[str] = Counter()
    for job in jobs:
        uses.update(job.options[0].uses)
    update = {"groups": merged_task_groups(jobs, sharing), "uses": dict(uses)}
    return first.options[0].model_copy(update=update)


def merged_task_groups(jobs: Sequence[Job], sharing: Sharing) -> tuple[TaskGroup, ...]:
    """Return the task groups of one job that takes what these jobs take together.

    CPU is taken in turns, so that the most that one of them asks is enough; everything else adds
    up. Their first options ask alike tasks; one job is returned as it is.
    """
    if len(jobs) == 1:
        return jobs[0].options[0].groups
    options = [job.options[0].groups for job in jobs]
    groups = []
    for number, first in enumerate(options[0]):
        mine = [task_groups[number] for task_groups in options]
        sizes = (size_in_group(job, group, sharing) for job, group in zip(jobs, mine, strict=True))
        resources: Counter[str] = Counter()
        for group in mine:
            resources.update(group.resources)
        asked = {
            "cpu": max(group.cpu for group in mine),
            "memory": sum(group.memory for group in mine),
            "resources": dict(resources),
            "gpu_memory": sum(sizes),
        }
        groups.append(first.model_copy(update=asked))
    return tuple(groups)
