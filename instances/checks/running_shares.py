"""Checks of running tasks that share GPUs: MIG slices, and the memory of GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import memory_in_gi
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, Path
from placewright.topology.mig import NO_MIG, PRODUCTS, SLICES, Slice


def check_parts(round_: Round, hosts: Mapping[str, Hardware]) -> None:
    """Refuse running tasks whose slices overlap or cannot be, or that overfill a GPU's memory.

    Parameters
    ----------
    round_
        Its running tasks are on GPUs of the cluster, which have the milli-GPU that they hold.
    hosts
        What each host of the cluster has, by name.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    slices: defaultdict[tuple[str, int], list[tuple[Slice, int]]] = defaultdict(list)
    others: dict[tuple[str, int], Path] = {}
    memory: defaultdict[tuple[str, int], int] = defaultdict(int)
    for task, group, path in _tasks(round_):
        host = hosts[task.host]
        if group.mig is None:
            others |= {(task.host, gpu): path for gpu in task.gpus}
            if group.gpu_memory:
                _hold_memory(task, group, host, memory, path)
            continue
        kind = _kind(task, group.mig, host, path)
        gpu = (task.host, task.gpus[0])
        for other, start in slices[gpu]:
            first, last = (task.slot or 0) - other.size, (task.slot or 0) + kind.size
            if first < start < last or (kind.media and other.media):
                what = "both have media extensions" if kind.media and other.media else "overlap"
                raise InvalidInputError(
                    f"two slices of GPU {gpu[1]} of host {gpu[0]} {what}; "
                    "expected slices that can be on one GPU",
                    path=(*path, "slot"),
                    value=task.slot,
                )
        slices[gpu].append((kind, task.slot or 0))
    for gpu in slices:
        if gpu in others:
            raise InvalidInputError(
                f"GPU {gpu[1]} of host {gpu[0]} holds MIG slices; expected a GPU without any",
                path=(*others[gpu], "gpus"),
                show_value=False,
            )


def _tasks(round_: Round) -> Iterator[tuple[Task, TaskGroup, Path]]:
    """Yield all running tasks if any of them asks for a slice or for GPU memory."""
    grouped = {job for jobs in running_groups(round_) for job in jobs}
    running = [
        (i, job.running.tasks, _sized(round_, job) if i in grouped else _groups(job))
        for i, job in enumerate(round_.jobs)
        if job.running is not None
    ]
    if any(group.mig or group.gpu_memory for _, _, groups in running for group in groups):
        for i, tasks, groups in running:
            for j, task in enumerate(tasks):
                yield task, groups[task.group], ("jobs", i, "running", "tasks", j)


def _groups(job: Job) -> tuple[TaskGroup, ...]:
    return job.options[job.running.option if job.running else 0].groups


def _sized(round_: Round, job: Job) -> tuple[TaskGroup, ...]:
    """Return the task groups of a job in a group, with the GPU memory that it takes there."""
    size = job.profile.memory_at(round_.sharing.percentile) if job.profile else None
    if size is None:
        return _groups(job)
    return tuple(
        group.model_copy(update={"gpu_memory": size if group.gpu else 0}) for group in _groups(job)
    )


def _kind(task: Task, profile: str, host: Hardware, path: Path) -> Slice:
    profiles = PRODUCTS[host.product].profiles if host.product != NO_MIG else {}
    if profile not in profiles:
        known = f"one of {', '.join(profiles)}" if profiles else "a host whose GPUs can be cut"
        raise InvalidInputError(
            f"has no MIG profile {profile}; expected {known}",
            path=(*path, "host"),
            value=task.host,
        )
    kind = SLICES[profiles[profile]]
    if task.slot not in kind.starts:
        missing = "missing; " if task.slot is None else ""
        raise InvalidInputError(
            f"{missing}expected a start of {profile}: {', '.join(map(str, kind.starts))}",
            path=(*path, "slot"),
            value=task.slot,
            show_value=task.slot is not None,
        )
    return kind


def _hold_memory(
    task: Task, group: TaskGroup, host: Hardware, held: dict[tuple[str, int], int], path: Path
) -> None:
    """Add a task's memory to what is held of each of its GPUs, or refuse it."""
    for k, gpu in enumerate(task.gpus):
        key = (task.host, gpu)
        held[key] = held.get(key, 0) + group.gpu_memory
        if held[key] > (host.gpu_memory or 0):
            has = "unknown memory" if host.gpu_memory is None else memory_in_gi(host.gpu_memory)
            raise InvalidInputError(
                f"running tasks hold {memory_in_gi(held[key])} of this GPU of host {task.host}, "
                f"which has {has}; expected no more than it has",
                path=(*path, "gpus", k),
                value=gpu,
            )
