"""The term `stranded`: free GPUs that the tasks to be expected cannot use.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 4; here with memory and other resources besides CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import TaskKind
from placewright.instances.verify.reading import Reading, demand
from placewright.topology.units import WHOLE_GPU


class TaskType(NamedTuple):
    """A task type of the mix: milli-GPU, other resources by name, GPU models (None: any)."""

    gpu: int
    wanted: tuple[tuple[str, int], ...]
    models: frozenset[str] | None


class FreeHosts(NamedTuple):
    """The hosts where tasks may arrive, after the round.

    `models` are their GPU models, `left` what each has left of a resource, `gpus` what each of its
    GPUs has left in milli-GPU (hosts, GPUs); `cut` says which of these hold MIG slices.
    """

    models: NDArray[np.str_]
    left: dict[str, Ints]
    gpus: Ints
    cut: NDArray[np.bool_]


def stranded(reading: Reading) -> int:
    """Free milli-GPU that task types cannot use, weighted by their frequency.

    Sum over the hosts where tasks may arrive and over the kinds of the mix of the kind's weight
    times: the free milli-GPU of the host's GPUs that each have less free than a task of the kind
    takes of one, if the host has room for such a task; all free milli-GPU of the host, if it has
    not, or if the kind takes no GPU. Reserved GPUs have nothing free, and what is free of a GPU
    with MIG slices is of use to no kind.
    """
    free = _free(reading)
    kinds = _task_types(reading)
    every = int(free.gpus.sum())
    return sum(weight * (every - _usable(free, kind)) for kind, weight in kinds.items())


def _usable(free: FreeHosts, kind: TaskType) -> int:
    """Free milli-GPU that a task type can use, on all hosts."""
    if not kind.gpu:
        return 0
    large = (free.gpus >= min(kind.gpu, WHOLE_GPU)) & ~free.cut
    fits = large.sum(axis=1) >= -(-kind.gpu // WHOLE_GPU)
    for name, amount in kind.wanted:
        fits &= free.left.get(name, np.zeros(len(fits), dtype=np.int64)) >= amount
    if kind.models is not None:
        fits &= np.isin(free.models, list(kind.models))
    return int(free.gpus[fits][large[fits]].sum())


def _task_types(reading: Reading) -> Counter[TaskType]:
    """Weights of the task types of the mix."""
    kinds: Counter[TaskType] = Counter()
    for kind, weight in _mix(reading):
        wanted = demand(kind) if isinstance(kind, TaskGroup) else _demand(kind)
        models = None if kind.gpu_models is None else frozenset(kind.gpu_models)
        kinds[TaskType(kind.gpu, tuple(w for w in wanted if w[1]), models)] += weight
    return kinds


def _demand(kind: TaskKind) -> tuple[tuple[str, int], ...]:
    return ("cpu", kind.cpu), ("memory", kind.memory)


def _mix(reading: Reading) -> Iterator[tuple[TaskKind | TaskGroup, int]]:
    """Yield the task types of the policy; without any those of all jobs, except for MIG slices."""
    if reading.round.policy.mix is not None:
        yield from ((kind, kind.weight) for kind in reading.round.policy.mix)
        return
    for job in reading.round.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        yield from ((group, group.count) for group in option.groups if group.mig is None)


def _free(reading: Reading) -> FreeHosts:
    """Return what the tasks of the plan leave on the hosts where tasks may arrive."""
    hosts = reading.cluster.hosts
    at = {name: i for i, name in enumerate(hosts)}
    names = sorted({name for host in hosts.values() for name in host.hardware.capacity})
    left = np.array(
        [[host.hardware.capacity.get(name, 0) for name in names] for host in hosts.values()],
        dtype=np.int64,
    ).reshape(len(hosts), len(names))
    counts = np.array([host.hardware.gpus for host in hosts.values()], dtype=np.int64)
    most = int(counts.max(initial=0))
    gpus = np.where(np.arange(most) < counts[:, None], WHOLE_GPU, 0)
    tasks = list(reading.placed_tasks())
    # Equal tasks mostly share their group.
    groups = {id(task.group): task.group for task in tasks}
    row = {key: i for i, key in enumerate(groups)}
    asked = [dict(demand(group)) for group in groups.values()]
    table = np.array(
        [[wanted.get(name, 0) for name in names] for wanted in asked], dtype=np.int64
    ).reshape(len(asked), len(names))
    mine = np.array([at[task.host.name] for task in tasks], dtype=np.int64)
    np.subtract.at(left, mine, table[[row[id(task.group)] for task in tasks]])
    number = np.array([len(task.task.gpus) for task in tasks], dtype=np.int64)
    host = np.repeat(mine, number)
    gpu = np.array(list(chain.from_iterable(t.task.gpus for t in tasks)), dtype=np.int64)
    milli = np.repeat(np.array([t.milli_per_gpu for t in tasks], dtype=np.int64), number)
    known = gpu < counts[host]
    np.subtract.at(gpus, (host[known], gpu[known]), milli[known])
    slices = np.repeat(np.array([t.group.mig is not None for t in tasks], dtype=np.bool_), number)
    cut = np.zeros(gpus.shape, dtype=np.bool_)
    cut[host[known & slices], gpu[known & slices]] = True
    closed = set(reading.vacated)
    for entry in reading.round.reservations:
        for name in expand(entry.host):
            if entry.gpus is None:
                closed.add(name)
            else:
                gpus[at[name], list(entry.gpus)] = 0
    open_ = [i for i, (name, one) in enumerate(hosts.items()) if one.healthy and name not in closed]
    models = np.array([host.hardware.gpu_model or "" for host in hosts.values()], dtype=np.str_)
    return FreeHosts(
        models[open_],
        {name: left[open_, r] for r, name in enumerate(names)},
        np.maximum(gpus[open_], 0),
        cut[open_],
    )
