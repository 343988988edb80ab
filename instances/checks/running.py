"""Checks of running jobs: their tasks fit the hosts and GPUs that they hold.

A running job on an unhealthy host is legal: the host failed under it. Jobs of one group hold their
GPUs and CPU together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from placewright.instances.checks.running_shares import check_parts
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.running_groups import MarginalUsage, running_groups
from placewright.instances.documents.job import Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology.units import WHOLE_GPU


def check_running(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse running jobs whose tasks are not all placed, not where they may be, or do not fit.

    Parameters
    ----------
    round_
        Its cluster must have passed `check_cluster`.
    hosts
        What each host of the cluster has, by name.

    Raises
    ------
    InvalidInputError
        The first fault of each job, with its path in the Round document.
    """
    together = MarginalUsage(round_)
    held: defaultdict[str, dict[str, int]] = defaultdict(dict)
    held_gpus: defaultdict[str, dict[int, int]] = defaultdict(dict)
    errors = Errors()
    for i, job in enumerate(round_.jobs):
        if job.running is None:
            continue
        path: Path = ("jobs", i, "running")
        with errors:
            if job.running.option >= len(job.options):
                raise InvalidInputError(
                    f"expected the index of an option, at most {len(job.options) - 1}",
                    path=(*path, "option"),
                    value=job.running.option,
                )
            checkpoint = job.running.checkpoint
            if checkpoint is not None and checkpoint > round_.now:
                raise InvalidInputError(
                    f"is later than now; expected at most {round_.now}",
                    path=(*path, "checkpoint"),
                    value=checkpoint,
                )
            started = job.running.started
            if started is not None and started > round_.now:
                raise InvalidInputError(
                    f"is later than now; expected at most {round_.now}",
                    path=(*path, "started"),
                    value=started,
                )
            option = job.options[job.running.option]
            _check_tasks(job.running, option, path)
            for j, task in enumerate(job.running.tasks):
                task_path: Path = (*path, "tasks", j)
                group = option.groups[task.group]
                host = hosts.get(task.host)
                if host is None:
                    raise InvalidInputError(
                        "unknown host; expected a host of the cluster",
                        path=(*task_path, "host"),
                        value=task.host,
                        unknown=(task.host, hosts),
                    )
                _check_gpus(task, group, host, task_path)
                beside = together.of(i, task, group)
                _hold(task, beside, host, held[task.host], task_path)
                _hold_gpus(task, beside, held_gpus[task.host], task_path)
    errors.refuse()
    _check_groups(round_)
    check_parts(round_, hosts)


def _check_tasks(running: Running, option: Option, path: Path) -> None:
    """Refuse tasks that are not each task of each group of the option, once."""
    seen: set[tuple[int, int]] = set()
    for j, task in enumerate(running.tasks):
        if task.group >= len(option.groups):
            raise InvalidInputError(
                f"expected the index of a task group, at most {len(option.groups) - 1}",
                path=(*path, "tasks", j, "group"),
                value=task.group,
            )
        count = option.groups[task.group].count
        if task.index >= count or (task.group, task.index) in seen:
            raise InvalidInputError(
                f"expected each of 0 to {count - 1} once in group {task.group}",
                path=(*path, "tasks", j, "index"),
                value=task.index,
            )
        seen.add((task.group, task.index))
    expected = sum(group.count for group in option.groups)
    if len(seen) < expected:
        raise InvalidInputError(
            f"{len(seen)} tasks; expected all {expected} of the option",
            path=(*path, "tasks"),
            show_value=False,
        )


def _check_gpus(task: Task, group: TaskGroup, host: Hardware, path: Path) -> None:
    if group.gpu_models is not None and host.gpu_model not in group.gpu_models:
        raise InvalidInputError(
            f"has GPU model {host.gpu_model}; expected {' or '.join(group.gpu_models)}",
            path=(*path, "host"),
            value=task.host,
        )
    asked = -(-group.gpu // WHOLE_GPU)
    if len(task.gpus) != asked or len(set(task.gpus)) != asked:
        raise InvalidInputError(
            f"expected {asked} different GPU indices", path=(*path, "gpus"), value=task.gpus
        )
    if task.slot is not None and group.mig is None:
        raise InvalidInputError(
            "given for a task that asks for no MIG slice; expected none",
            path=(*path, "slot"),
            value=task.slot,
        )
    for k, gpu in enumerate(task.gpus):
        if gpu >= host.gpus:
            raise InvalidInputError(
                f"expected a GPU of host {task.host}, which has {host.gpus} (from 0)",
                path=(*path, "gpus", k),
                value=gpu,
            )


def _hold(task: Task, group: TaskGroup, host: Hardware, held: dict[str, int], path: Path) -> None:
    """Add a task's resources to what its host holds, or refuse it for those it lacks."""
    for resource, amount in _demand(group):
        total = held.get(resource, 0) + amount
        capacity = host.capacity.get(resource, 0)
        if total > capacity:
            raise InvalidInputError(
                f"running tasks hold {amount_text(resource, total)} there; "
                f"expected at most {amount_text(resource, capacity)}",
                path=(*path, "host"),
                value=task.host,
            )
        held[resource] = total


def _hold_gpus(task: Task, group: TaskGroup, held: dict[int, int], path: Path) -> None:
    """Add a task's share of each of its GPUs to what is held of it, or refuse it."""
    share = min(group.gpu, WHOLE_GPU)
    for k, gpu in enumerate(task.gpus):
        total = held.get(gpu, 0) + share
        if total > WHOLE_GPU:
            raise InvalidInputError(
                f"running tasks hold {amount_text('gpu', total)} on this GPU of host {task.host}; "
                "expected at most 1",
                path=(*path, "gpus", k),
                value=gpu,
            )
        held[gpu] = total


def _demand(group: TaskGroup) -> Iterator[tuple[str, int]]:
    if group.cpu:
        yield "cpu", group.cpu
    if group.memory:
        yield "memory", group.memory
    for resource, amount in group.resources.items():
        if amount:
            yield resource, amount


def _check_groups(round_: Round) -> None:
    """Refuse groups that run with more jobs than a group may have.

    Raises
    ------
    InvalidInputError
        For the first job that is too many.
    """
    most = min(round_.sharing.most, round_.sharing.slots)
    for jobs in running_groups(round_):
        if len(jobs) > most:
            raise InvalidInputError(
                f"runs on the GPUs of {len(jobs) - 1} others; expected at most {most} jobs in a "
                "group",
                path=("jobs", jobs[most], "running"),
                show_value=False,
            )
