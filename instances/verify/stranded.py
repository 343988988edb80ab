"""The term `stranded`: free GPUs that the tasks to be expected cannot use.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 4; here with memory and other resources besides CPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from placewright.instances.documents import WHOLE_GPU
from placewright.instances.job import TaskGroup
from placewright.instances.policy import TaskKind
from placewright.instances.ranges import expand
from placewright.instances.verify.facts import HostFacts
from placewright.instances.verify.reading import Reading, demand

Demand: TypeAlias = tuple[tuple[str, int], ...]
Fitting: TypeAlias = tuple[Demand, frozenset[str] | None]
"""What a kind needs besides GPUs, and the GPU models that it allows (None: any)."""


class Need(NamedTuple):
    """What a kind needs of GPUs: so many of which each has at least so much free."""

    gpus: int
    milli: int


def stranded(reading: Reading) -> int:
    """Milli-GPU that are free for nothing, weighted by the kinds that cannot use them.

    Sum over the hosts where tasks may arrive and over the kinds of the mix of the kind's weight
    times: the free milli-GPU of the host's GPUs that each have less free than a task of the kind
    takes of one, if the host has room for such a task; all free milli-GPU of the host, if it has
    not, or if the kind takes no GPU. Reserved GPUs have nothing free.
    """
    kinds = _kinds(reading)
    total = sum(sum(fitting.values()) for fitting in kinds.values())
    known: dict[tuple[object, ...], int] = {}
    answer = 0
    for host, left, gpus in _free(reading):
        key = (host.hardware.gpu_model, gpus, *sorted(left.items()))
        if key not in known:
            useful = sum(
                _useful(need, fitting, host, left, gpus) for need, fitting in kinds.items()
            )
            known[key] = total * sum(gpus) - useful
        answer += known[key]
    return answer


def _useful(
    need: Need,
    fitting: Mapping[Fitting, int],
    host: HostFacts,
    left: Mapping[str, int],
    gpus: Sequence[int],
) -> int:
    """Weight times useful milli-GPU of the kinds that need the same of GPUs."""
    large = [free for free in gpus if free >= need.milli]
    if not need.gpus or len(large) < need.gpus:
        return 0
    model = host.hardware.gpu_model
    return sum(large) * sum(
        weight
        for (wanted, models), weight in fitting.items()
        if (models is None or model in models)
        and all(left.get(name, 0) >= amount for name, amount in wanted)
    )


def _kinds(reading: Reading) -> dict[Need, Counter[Fitting]]:
    """Weights of the kinds of the mix, by what they need."""
    kinds: defaultdict[Need, Counter[Fitting]] = defaultdict(Counter)
    for kind, weight in _mix(reading):
        if isinstance(kind, TaskGroup):
            wanted = demand(kind)
        else:
            wanted = ("cpu", kind.cpu), ("memory", kind.memory)
        models = None if kind.gpu_models is None else frozenset(kind.gpu_models)
        need = Need(-(-kind.gpu // WHOLE_GPU), min(kind.gpu, WHOLE_GPU))
        fitting = tuple((name, amount) for name, amount in wanted if amount), models
        kinds[need][fitting] += weight
    return dict(kinds)


def _mix(reading: Reading) -> Iterator[tuple[TaskKind | TaskGroup, int]]:
    """Yield the kinds of the policy; without any the tasks of all jobs of the round."""
    if reading.round.policy.mix is not None:
        yield from ((kind, kind.weight) for kind in reading.round.policy.mix)
        return
    for job in reading.round.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        yield from ((group, group.count) for group in option.groups)


def _free(reading: Reading) -> Iterator[tuple[HostFacts, dict[str, int], tuple[int, ...]]]:
    """Yield the hosts where tasks may arrive: what is left of resources, and of GPUs, ascending."""
    closed = set(reading.vacated)
    reserved: defaultdict[str, set[int]] = defaultdict(set)
    for entry in reading.round.reservations:
        for name in expand(entry.host):
            if entry.gpus is None:
                closed.add(name)
            else:
                reserved[name].update(entry.gpus)
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    held_gpus: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for placed in reading.placed_tasks():
        held[placed.host.name].update(dict(demand(placed.group)))
        for gpu in placed.task.gpus:
            held_gpus[placed.host.name][gpu] += placed.milli_per_gpu
    for name, host in reading.cluster.hosts.items():
        if not host.healthy or name in closed:
            continue
        mine, taken = held[name], held_gpus[name]
        left = {resource: has - mine[resource] for resource, has in host.hardware.capacity.items()}
        free = (
            max(0, WHOLE_GPU - taken[gpu])
            for gpu in range(host.hardware.gpus)
            if gpu not in reserved[name]
        )
        yield host, left, tuple(sorted(free))
