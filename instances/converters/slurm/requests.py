"""What a pending job of Slurm asks for, as shapes: equal tasks, each of one host.

| sbatch | shapes |
|---|---|
| `--gpus-per-node`, `--gres`, of N nodes | N tasks, a host each |
| the same of `-N2-4` | a choice for each number of nodes |
| the same of `-n` alone | a choice for the fewest nodes that have the CPUs, and for some more |
| `--gpus-per-task` | its tasks, on as many hosts as it allows |
| `--gpus-per-task`, `--ntasks-per-node` | the fewest nodes that have all tasks, each with so many |
| `--gpus`, `--ntasks-per-gpu` | one task on a job's only node, else tasks of one GPU each |
| the same with `--exclusive` | the fewest nodes that have the GPUs, and some more |
| `--gres=shard` | parts of one GPU of each node |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from placewright.instances.converters.slurm.nodes import Room
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.documents.base import MAX_COUNT
from placewright.topology.units import WHOLE_GPU

MAX_OPTIONS = 16
"""Numbers of nodes, of a range of them, that become options: the least, the most, some between."""

MAX_MORE = 3
"""Numbers of nodes beyond the fewest that become options where the user names no most."""

DIVIDED = "how its CPUs and memory divide among its nodes, which Slurm decides: shares are a guess"
FEWEST = f"more than {MAX_MORE} nodes beyond the fewest that have what it asks for"
LONG = f"ranges of more than {MAX_OPTIONS} numbers of nodes, of which some are options"
ALONE = "how its GPUs divide among nodes that it has alone: equal numbers are a guess"


class Shape(NamedTuple):
    """Tasks with GPUs by model ("": any), millicores and MiB each; `apart`: a host each.

    They are on `least` to `most` hosts together (None: on any more). `parts` are of one GPU, by
    their GRES, with the milli-GPU that they are.
    """

    tasks: int
    gpus: Mapping[str, int]
    cpu: int
    memory: int
    apart: bool = False
    least: int = 1
    most: int | None = None
    parts: tuple[str, int, int] | None = None

    @property
    def milli_gpu(self) -> int:
        """What each task has of GPUs."""
        return self.parts[2] if self.parts else sum(self.gpus.values()) * WHOLE_GPU


class Counts(NamedTuple):
    """The fewest and the most nodes (None: any number) that a job may have where it may start."""

    least: int
    most: int | None


class Asked(NamedTuple):
    """Choices of shapes, each of which a job has together, and what of them is not as it is.

    `alike`: they are worth the same, as Slurm takes the first one that it can.
    """

    choices: Sequence[tuple[Shape, ...]]
    guesses: tuple[str, ...] = ()
    alike: bool = False


class LeftOutError(Exception):
    """A job cannot be in the round; its text says why."""


def asked_of(job: SlurmJob, room: Room, nodes: Counts) -> Asked:
    """Return what a pending job asks for.

    Parameters
    ----------
    job
        A pending job.
    room
        What there is on the nodes that it may use.
    nodes
        How many of them it may have, by what it asks for and its partitions and limits allow.

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
    least, tasks = nodes.least, max(1, job.tasks or 1)
    if max(least, tasks, nodes.most or 0, *(gres.total for gres in kinds)) > MAX_COUNT:
        raise LeftOutError(f"asks for more than {MAX_COUNT:,} nodes, tasks or GPUs")
    if any(gres.parts for gres in kinds):
        return _parts(job, room, nodes)
    if gpus := job.tres_per_node.gpus:
        return _per_node(job, gpus, room, nodes)
    if gpus := job.tres_per_task.gpus:
        if job.tasks_per_node:
            return _per_node(job, _times(gpus, job.tasks_per_node), room, nodes)
        if job.exclusive:
            return _alone(job, _times(gpus, tasks), room, nodes)
        cpu, memory = _total(job, least, gpus.total() * tasks)
        return _on_some(nodes, [Shape(tasks, gpus, _share(cpu, tasks), _share(memory, tasks))])
    gpus = _per_job(job)
    if not gpus:
        return _per_node(job, gpus, room, nodes)
    if nodes.most == 1:
        return Asked([(Shape(1, gpus, *_total(job, 1, gpus.total()), most=1),)])
    if job.exclusive:
        return _alone(job, gpus, room, nodes)
    number = gpus.total()
    cpu, memory = (_share(all_, number) for all_ in _total(job, least, number))
    shapes = [Shape(count, {model: 1}, cpu, memory) for model, count in sorted(gpus.items())]
    every = job.cpus_per_tres.total and job.memory_per_tres.total
    guess = number > 1 and not every and not job.tasks_per_tres
    return _on_some(nodes, shapes)._replace(guesses=(DIVIDED,) * guess)


def _per_job(job: SlurmJob) -> Counter[str]:
    """Return the GPUs of all nodes together; of tasks per GPU Slurm may say the sum alone."""
    if gpus := job.tres_per_job.gpus or job.tres_req_str.gpus.gpus:
        return gpus
    each = job.tasks_per_tres or 0
    return Counter({"": _share(job.tasks or 1, each)}) if each else Counter()


def _on_some(nodes: Counts, shapes: Iterable[Shape]) -> Asked:
    """Return shapes of which the tasks divide in any way among the nodes that a job may have."""
    made = tuple(one._replace(least=nodes.least, most=nodes.most) for one in shapes)
    if sum(one.tasks for one in made) < nodes.least:
        raise LeftOutError("asks for more nodes than GPUs")
    return Asked([made])


def _per_node(job: SlurmJob, gpus: Mapping[str, int], room: Room, nodes: Counts) -> Asked:
    """Return a shape for each number of nodes that a job may have, each with so many GPUs."""
    per_node, tasks = job.tasks_per_node or 0, max(1, job.tasks or 1)
    least = nodes.least
    guesses: list[str] = []
    cpus = max(job.tres_req_str.cpus, job.cpus or 0)
    if per_node:
        numbers: Sequence[int] = [max(least, _share(tasks, per_node))]
    else:
        fewest = max(least, min(tasks, _share(cpus, max(1, room.cpus))))
        numbers = range(fewest, max(fewest, min(tasks, fewest + MAX_MORE) * bool(gpus)) + 1)
    if job.names_most_nodes:
        numbers = range(least, (nodes.most or least) + 1)
    elif gpus and not per_node and tasks > numbers[-1]:
        guesses.append(FEWEST)
    if nodes.most is not None and len(numbers) > 1:
        numbers = [number for number in numbers if number <= nodes.most] or numbers[:1]
    if len(numbers) > MAX_OPTIONS:
        last = len(numbers) - 1
        numbers = [numbers[i * last // (MAX_OPTIONS - 1)] for i in range(MAX_OPTIONS)]
        guesses.append(LONG)
    guesses += [DIVIDED] * (not per_node and 1 < numbers[-1] < tasks)
    return Asked(
        [(_node(job, n, gpus),) for n in numbers], tuple(guesses), not job.names_most_nodes
    )


def _node(job: SlurmJob, nodes: int, gpus: Mapping[str, int]) -> Shape:
    """Return the shape of a number of nodes with equal GPUs, CPUs and memory."""
    number = sum(gpus.values())
    all_cpus = max(job.tres_req_str.cpus, job.cpus or 0)  # of a range Slurm may count one node
    fixed = max(job.minimum_cpus_per_node or 0, job.cpus_per_tres.total * number)
    cpus = max(_share(all_cpus, nodes), fixed)
    per_gpu, per_node = job.memory_per_tres.total * number, job.memory_per_node or 0
    memory = per_gpu or max(per_node, (job.memory_per_cpu or 0) * cpus)
    if not memory:
        of = nodes if job.most_nodes is None else job.least_nodes
        memory = _share(job.tres_req_str.memory, of)
    return Shape(nodes, gpus, cpus * 1000, memory, nodes > 1, nodes, nodes)


def _alone(job: SlurmJob, gpus: Counter[str], room: Room, nodes: Counts) -> Asked:
    """Return shapes of whole nodes that have the GPUs of a job together."""
    number = gpus.total()
    fewest = max(nodes.least, _share(number, max(1, room.gpus)))
    last = fewest + MAX_MORE if nodes.most is None else nodes.most
    numbers = range(fewest, max(fewest, min(number, last, fewest + MAX_MORE)) + 1)
    if len(gpus) > 1:
        raise LeftOutError("asks for several GPU models, on nodes that it has alone")
    model = next(iter(gpus))
    made = [(_node(job, n, {model: _share(number, n)}),) for n in numbers]
    return Asked(made, (ALONE,) if number > 1 else (), alike=True)


def _parts(job: SlurmJob, room: Room, nodes: Counts) -> Asked:
    """Return the shapes of a job that asks for parts of a GPU of each of its nodes."""
    gres = job.tres_per_node
    others = (job.tres_per_task, job.tres_per_job, job.tres_per_socket)
    if gres.total or len(gres.parts) != 1 or any(one.parts or one.total for one in others):
        raise LeftOutError("asks for shards of GPUs other than so many per node")
    ((part, number),) = gres.parts.items()
    cut = {each for name, each in room.parts if name == part}
    if len(cut) != 1 or not (each := next(iter(cut))) or WHOLE_GPU // each * (each + 1) < WHOLE_GPU:
        raise LeftOutError("asks for shards of GPUs that its nodes do not cut alike")
    if number > each:
        raise LeftOutError("asks for more shards than a GPU has")
    share = (part, number, WHOLE_GPU * number // each)
    asked = _per_node(job, {}, room, nodes)
    return asked._replace(
        choices=[tuple(one._replace(parts=share) for one in made) for made in asked.choices]
    )


def _total(job: SlurmJob, nodes: int, gpus: int) -> tuple[int, int]:
    """Return the millicores and MiB of all nodes together."""
    cpus = max(job.tres_req_str.cpus, job.cpus or 0, job.cpus_per_tres.total * gpus)
    if job.memory_per_tres.total:
        return cpus * 1000, job.memory_per_tres.total * gpus
    per_node, per_cpu = job.memory_per_node or 0, job.memory_per_cpu or 0
    return cpus * 1000, max(job.tres_req_str.memory, per_node * nodes, per_cpu * cpus)


def _times(gpus: Counter[str], number: int) -> Counter[str]:
    return Counter({model: count * number for model, count in gpus.items()})


def _share(amount: int, parts: int) -> int:
    return -(-amount // parts)


def names_of(shapes: Sequence[Shape], name: str) -> Iterator[tuple[str, Shape]]:
    """Yield shapes that a job has together with the names of their groups."""
    for shape in shapes:
        model = next(iter(shape.gpus), "")
        yield (f"{name}-{model}" if len(shapes) > 1 and model else name), shape
