"""Running jobs of Slurm: what each holds of its nodes becomes its option, and where it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placewright.instances.converters.slurm.nodes import (
    NODE,
    WHOLE_NODE,
    Nodes,
    of_model,
    parts_per_gpu,
)
from placewright.instances.converters.slurm.records import HeldNode, SlurmJob, SlurmNode
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.converters.slurm.tres import Gres
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.topology.units import WHOLE_GPU


class _Hold(NamedTuple):
    """Milli-GPU, millicores, MiB and other resources that a task holds of one node."""

    milli_gpu: int
    cpu: int
    memory: int
    resources: tuple[tuple[str, int], ...] = ()


class Placed(NamedTuple):
    """Task groups and tasks of a running job, and the component that each group is of."""

    groups: tuple[TaskGroup, ...]
    tasks: tuple[Task, ...]
    components: tuple[SlurmJob, ...]


@dataclass(slots=True)
class Occupied:
    """What running jobs hold by host: milli-GPU of each GPU, millicores and MiB, resources."""

    gpus: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    amounts: dict[str, tuple[int, int]] = field(default_factory=dict)
    nodes: Counter[str] = field(default_factory=Counter)
    resources: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def place(jobs: Sequence[SlurmJob], nodes: Nodes, occupied: Occupied, *, alone: bool) -> Placed:
    """Return where a running job is, and note what it holds.

    Nodes of which it holds as much form a group. GPUs that the dump does not name, or names twice,
    are any that are free.

    Parameters
    ----------
    jobs
        The components of a job; all but heterogeneous ones have one.
    nodes
        All hosts.
    occupied
        What running jobs before it hold.
    alone
        Whether hosts have the resource `node`.

    Raises
    ------
    LeftOutError
        A node is not in the dump, or has too few GPUs for what its jobs hold.
    """
    groups: dict[tuple[int, _Hold], list[tuple[str, tuple[int, ...]]]] = {}
    taken: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for component, job in enumerate(jobs):
        for held, gres in _holdings(job):
            node = nodes.by_name.get(held.name)
            if node is None:
                raise LeftOutError("runs on a node that is not in the dump")
            used = occupied.gpus[held.name] + taken[held.name]
            cpus = held.cores * (node.threads or 1) if held.cpus is None else held.cpus
            whole = _indices(gres, node.gres.total, used)
            taken[held.name].update(dict.fromkeys(whole, WHOLE_GPU))
            typed = {m: gres.gpus[m] for m in sorted(nodes.counted & gres.models)}
            resources = tuple((of_model(model), number) for model, number in typed.items())
            hold = _Hold(len(whole) * WHOLE_GPU, cpus * 1000, held.memory, resources)
            shares = list(_shares(gres, node, occupied.gpus[held.name] + taken[held.name]))
            if shares and not whole:  # its first share has the cores and memory
                (index, share), *shares = shares
                taken[held.name][index] += share.milli_gpu
                hold, whole = share._replace(cpu=hold.cpu, memory=hold.memory), (index,)
            groups.setdefault((component, hold), []).append((held.name, whole))
            for index, share in shares:
                taken[held.name][index] += share.milli_gpu
                groups.setdefault((component, share), []).append((held.name, (index,)))
    if not groups:
        raise LeftOutError("runs, and the dump does not say where")
    amounts: dict[str, tuple[int, int]] = {}
    for (_, hold), places in groups.items():
        for host, _ in places:
            cpu, memory = amounts.get(host) or occupied.amounts.get(host, (0, 0))
            amounts[host] = cpu + hold.cpu, memory + hold.memory
    if any(max(amount) > MAX_AMOUNT for amount in amounts.values()):
        raise LeftOutError("holds more than a node can have")
    occupied.amounts |= amounts
    for (at, hold), places in groups.items():
        for host, _ in places:
            occupied.nodes[host] += _of_node(jobs[at])
            occupied.resources[host].update(dict(hold.resources))
    for host, used in taken.items():
        occupied.gpus[host].update(used)
    return Placed(
        tuple(
            TaskGroup(
                name=f"part-{g}" if len(groups) > 1 else "tasks",
                count=len(places),
                gpu=f"{hold.milli_gpu}m",
                cpu=f"{hold.cpu}m",
                memory=f"{hold.memory}Mi",
                resources=({NODE: _of_node(jobs[at])} if alone else {}) | dict(hold.resources),
            )
            for g, ((at, hold), places) in enumerate(groups.items())
        ),
        tuple(
            Task(group=g, index=i, host=host, gpus=indices)
            for g, places in enumerate(groups.values())
            for i, (host, indices) in enumerate(places)
        ),
        tuple(jobs[at] for at, _ in groups),
    )


def _of_node(job: SlurmJob) -> int:
    return WHOLE_NODE if job.exclusive else 1


def _holdings(job: SlurmJob) -> list[tuple[HeldNode, Gres]]:
    """Return the nodes of a running job, and the GRES that it holds of each."""
    held = job.job_resources or tuple(HeldNode(name, 0, 0, 0) for name in job.nodes)
    details = job.gres_detail
    if not details:
        asked = job.tres_per_node
        if job.tres_per_job.total or job.tres_per_task.total:
            raise LeftOutError("runs, and the dump does not say with which GPUs")
        return [(node, asked) for node in held]
    if len(details) != len(held):
        raise LeftOutError("runs, and the dump does not say with which GPUs")
    return list(zip(held, details, strict=True))


def _shares(gres: Gres, node: SlurmNode, used: Counter[int]) -> Iterator[tuple[int, _Hold]]:
    """Yield the GPUs of which a job holds parts, such as shards, and what it holds of each.

    Where Slurm does not say how many of a GPU, the first ones are full.
    """
    for part, number in gres.parts.items():
        each = parts_per_gpu(node, part)
        full = {index for index, milli in used.items() if milli >= WHOLE_GPU}
        free = [index for index in range(node.gres.total) if index not in full]
        for index in dict.fromkeys(gres.part_indices) or free:
            here = min(number, each + -used[index] * each // WHOLE_GPU)
            if number > 0 < here and index in free:
                yield index, _Hold(WHOLE_GPU * here // each, 0, 0, ((f"gres/{part}", here),))
                number -= here
        if number:
            raise LeftOutError("runs on a node with fewer parts of GPUs than its jobs hold")


def _indices(gres: Gres, has: int, used: Counter[int]) -> tuple[int, ...]:
    """Return GPU indices for what is held: those that are named, if they are free, or any."""
    number = gres.total
    named = tuple(dict.fromkeys(gres.indices))
    if len(named) == number and not any(used[i] for i in named) and max(named, default=0) < has:
        return named if number else ()
    free = [index for index in range(has) if not used[index]]
    if len(free) < number:
        raise LeftOutError("runs on a node with fewer GPUs than its jobs hold")
    return tuple(free[:number])
