"""What a pending job of Slurm asks for, as shapes: so many equal tasks, each of one host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.tres import Gres
from placewright.instances.documents.base import MAX_COUNT

MAX_OPTIONS = 16
"""Numbers of nodes, of a range of them, that become options: the least, the most, some between."""


class Shape(NamedTuple):
    """Tasks with GPUs of some model ("": any), millicores and MiB each; `apart`: a host each."""

    tasks: int
    gpus: int
    model: str
    cpu: int
    memory: int
    apart: bool


class LeftOutError(Exception):
    """A job cannot be in the round; its text says why."""


def shapes(job: SlurmJob) -> list[Shape]:
    """Return the shapes of a pending job, one for each number of nodes that it may have.

    GPUs per node are one task per node; GPUs per task are one task each, or one per node if the
    tasks per node are given. GPUs per job are one task on a job's only node, else tasks of one GPU
    on any nodes, since Slurm may divide them as it likes.

    Raises
    ------
    LeftOutError
        It asks for what a round does not know, or for too much.
    """
    kinds = (job.tres_per_node, job.tres_per_task, job.tres_per_job, job.tres_per_socket)
    others = sorted({name for gres in kinds for name in gres.others})
    if others:
        raise LeftOutError(f"asks for a resource that a round does not know ({others[0]})")
    if job.tres_per_socket.total:
        raise LeftOutError("asks for GPUs per socket")
    nodes = max(1, job.node_count or 1)
    tasks = max(1, job.tasks or 1)
    if max(nodes, tasks, job.max_nodes or 0) > MAX_COUNT:
        raise LeftOutError(f"asks for more than {MAX_COUNT:,} nodes or tasks")
    if job.tres_per_node.total:
        gpus, model = _gpus(job.tres_per_node)
        return _per_node(job, nodes, gpus, model)
    if job.tres_per_task.total:
        gpus, model = _gpus(job.tres_per_task)
        if job.tasks_per_node:
            return _per_node(job, nodes, gpus * job.tasks_per_node, model)
        cpu, memory = _total(job, nodes, gpus * tasks)
        return [Shape(tasks, gpus, model, _share(cpu, tasks), _share(memory, tasks), False)]
    gpus, model = _gpus(job.tres_per_job)
    cpu, memory = _total(job, nodes, gpus)
    if nodes == 1 or not gpus:
        return [Shape(nodes, gpus, model, _share(cpu, nodes), _share(memory, nodes), nodes > 1)]
    if gpus > MAX_COUNT:
        raise LeftOutError(f"asks for more than {MAX_COUNT:,} GPUs")
    return [Shape(gpus, 1, model, _share(cpu, gpus), _share(memory, gpus), False)]


def _gpus(gres: Gres) -> tuple[int, str]:
    if len(gres.gpus) > 1:
        raise LeftOutError("asks for several GPU models")
    return next(((count, model) for model, count in gres.gpus.items()), (0, ""))


def _per_node(job: SlurmJob, nodes: int, gpus: int, model: str) -> list[Shape]:
    """Return a shape for each number of nodes from `nodes` to the most that the job may have."""
    cpu, memory = _total(job, nodes, gpus * nodes)
    cpus = max(_share(cpu, nodes * 1000), job.minimum_cpus_per_node or 0)
    # Of a range of nodes Slurm may count what one of them needs.
    each = max(_share(memory, nodes), job.memory_per_node or 0, (job.memory_per_cpu or 0) * cpus)
    numbers = node_numbers(job)
    if len(numbers) > MAX_OPTIONS:
        last = len(numbers) - 1
        numbers = [numbers[i * last // (MAX_OPTIONS - 1)] for i in range(MAX_OPTIONS)]
    return [Shape(n, gpus, model, cpus * 1000, each, n > 1) for n in numbers]


def node_numbers(job: SlurmJob) -> Sequence[int]:
    """Return the numbers of nodes that a pending job may have."""
    least = max(1, job.node_count or 1)
    implicit = "JOB_IMPLICIT_MAX_NODES" in job.flags
    most = least if implicit else max(least, job.max_nodes or 0)
    return range(least, most + 1)


def _total(job: SlurmJob, nodes: int, gpus: int) -> tuple[int, int]:
    """Return the millicores and MiB of all nodes together."""
    cpus, memory = job.tres_req_str
    cpus = max(cpus, job.cpus or 0, job.cpus_per_tres.total * gpus)
    if not memory:
        per_node = job.memory_per_node or 0
        memory = max(per_node * nodes, (job.memory_per_cpu or 0) * cpus)
    return cpus * 1000, max(memory, job.memory_per_tres.total * gpus)


def _share(amount: int, parts: int) -> int:
    return -(-amount // parts)
