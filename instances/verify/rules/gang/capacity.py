"""Rules about capacity: of each host per resource, and of each GPU.

Jobs of a group, which take turns, hold their GPUs and CPU together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.topology.units import WHOLE_GPU


def host_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a host ask no more of a resource together than it has."""
    used: defaultdict[str, dict[str, int]] = defaultdict(dict)
    asked: dict[int, list[tuple[str, int]]] = {}  # by group, each of which the round keeps alive
    for placed in reading.held_tasks():
        asks = asked.get(id(placed.group))
        if asks is None:
            asks = asked[id(placed.group)] = [ask for ask in demand(placed.group) if ask[1]]
        on_host = used[placed.host.name]
        for resource, amount in asks:
            on_host[resource] = on_host.get(resource, 0) + amount
    over: dict[tuple[str, str], int] = {}
    for name, on_host in used.items():
        capacity = reading.cluster.hosts[name].hardware.capacity
        for resource, amount in on_host.items():
            if amount > capacity.get(resource, 0):
                over[name, resource] = amount
    if not over:
        return
    last = {
        (placed.host.name, resource): placed.path
        for placed in reading.held_tasks()
        for resource, amount in demand(placed.group)
        if amount
    }
    for (name, resource), amount in over.items():
        capacity = reading.cluster.hosts[name].hardware.capacity
        yield Finding(
            last[name, resource],
            f"tasks on host {name!r} ask {amount_text(resource, amount)} together; "
            f"expected at most {amount_text(resource, capacity.get(resource, 0))}",
        )


def gpu_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that all tasks on a GPU take at most 1000 milli-GPU of it together."""
    used: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for _, _, task, group, host in reading.held_tasks():
        taken, on_host = min(group.gpu, WHOLE_GPU), used[host.name]
        for gpu in task.gpus:
            on_host[gpu] = on_host.get(gpu, 0) + taken
    over = {
        (name, gpu): amount
        for name, on_host in used.items()
        for gpu, amount in on_host.items()
        if amount > WHOLE_GPU
    }
    if not over:
        return
    last = {
        (placed.host.name, gpu): placed.path
        for placed in reading.held_tasks()
        for gpu in placed.task.gpus
    }
    for (name, gpu), amount in over.items():
        yield Finding(
            (*last[name, gpu], "gpus"),
            f"tasks on GPU {gpu} of host {name!r} take {amount_text('gpu', amount)} together; "
            "expected at most 1",
        )


RULES_OF_CAPACITY: tuple[Rule[Reading], ...] = (
    Rule("host_capacity", host_capacity),
    Rule("gpu_capacity", gpu_capacity),
)
