"""Rules about tasks: all of a gang or none, on hosts that exist, with the GPUs that they ask.

Kept tasks are compared with the round by `decisions.kept_in_place`; these rules judge the tasks of
started and migrated jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.topology.units import WHOLE_GPU


def gang(reading: Reading) -> Iterator[Finding]:
    """Require each task of each group of the chosen option exactly once."""
    for placed in reading.placed_anew:
        groups = placed.option.groups
        seen: set[tuple[int, int]] = set()
        for number, task in enumerate(placed.decision.tasks):
            key = (task.group, task.index)
            path = (*placed.path, "tasks", number)
            if task.group >= len(groups):
                yield Finding(
                    (*path, "group"),
                    f"job {placed.job.name!r} has no group {task.group} in this option; "
                    f"expected an index from 0 to {len(groups) - 1}",
                )
            elif task.index >= groups[task.group].count:
                yield Finding(
                    (*path, "index"),
                    f"job {placed.job.name!r} has no task {task.index} in group {task.group}; "
                    f"expected an index from 0 to {groups[task.group].count - 1}",
                )
            elif key in seen:
                yield Finding(
                    path,
                    f"task {task.index} of group {task.group} of job {placed.job.name!r} "
                    "is placed twice; expected each task once",
                )
            else:
                seen.add(key)
        missing = sum(group.count for group in groups) - len(seen)
        if missing:
            yield Finding(
                (*placed.path, "tasks"),
                f"{missing} tasks of job {placed.job.name!r} are not placed; "
                f"expected all {missing + len(seen)}",
            )


def known_host(reading: Reading) -> Iterator[Finding]:
    """Require hosts of the cluster."""
    hosts = reading.cluster.hosts
    named = {task.host for decision in reading.plan.decisions for task in decision.tasks}
    if named <= hosts.keys():
        return
    for index, decision in enumerate(reading.plan.decisions):
        for number, task in enumerate(decision.tasks):
            if task.host not in hosts:
                yield Finding(
                    ("decisions", index, "tasks", number, "host"),
                    f"host {task.host!r} of job {decision.job!r} is not in the cluster; "
                    "expected one of its hosts",
                )


def gpus(reading: Reading) -> Iterator[Finding]:
    """Require as many GPUs as a task asks (a share: one), distinct, of its host."""
    for placed in (task for job in reading.placed_anew for task in job.tasks):
        group, host, given = placed.group, placed.host, placed.task.gpus
        asked = -(-group.gpu // WHOLE_GPU)
        if len(given) != asked:
            problem = f"{len(given)} GPUs for a task that asks {amount_text('gpu', group.gpu)}"
            expected = f"{asked}"
        elif len(set(given)) != asked:
            problem = f"GPUs {list(given)} name one twice"
            expected = f"{asked} different ones"
        elif given and max(given) >= host.hardware.gpus:
            problem = f"GPU {max(given)} is not on host {host.name!r}"
            expected = f"an index below its {host.hardware.gpus} GPUs"
        else:
            continue
        yield Finding((*placed.path, "gpus"), f"{problem}; expected {expected}")


RULES_OF_TASKS: tuple[Rule[Reading], ...] = (
    Rule("gang", gang),
    Rule("known_host", known_host),
    Rule("gpus", gpus),
)
