"""Rules about hosts: capacity per resource and per GPU, health, GPU models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from placewright.instances.documents import WHOLE_GPU
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule


def host_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that kept and started tasks ask no more of a resource than their host has."""
    used: defaultdict[tuple[str, str], int] = defaultdict(int)
    last: dict[tuple[str, str], tuple[str | int, ...]] = {}
    for path, _, group, host in reading.placed_tasks():
        for resource, amount in demand(group):
            if amount:
                used[host.name, resource] += amount
                last[host.name, resource] = path
    for (name, resource), amount in used.items():
        capacity = reading.cluster.hosts[name].hardware.capacity.get(resource, 0)
        if amount > capacity:
            yield Finding(
                last[name, resource],
                f"tasks on host {name!r} ask {amount} of {resource} together; "
                f"expected at most {capacity}",
            )


def gpu_capacity(reading: Reading) -> Iterator[Finding]:
    """Require that kept and started tasks take at most 1000 milli-GPU of each GPU."""
    used: defaultdict[tuple[str, int], int] = defaultdict(int)
    last: dict[tuple[str, int], tuple[str | int, ...]] = {}
    for placed in reading.placed_tasks():
        taken, name = placed.milli_per_gpu, placed.host.name
        for gpu in placed.task.gpus:
            used[name, gpu] += taken
            last[name, gpu] = placed.path
    for (name, gpu), amount in used.items():
        if amount > WHOLE_GPU:
            yield Finding(
                (*last[name, gpu], "gpus"),
                f"tasks on GPU {gpu} of host {name!r} take {amount} milli-GPU together; "
                f"expected at most {WHOLE_GPU}",
            )


def healthy(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks that start on an unhealthy host."""
    for path, _, _, host in reading.started_tasks():
        if not host.healthy:
            yield Finding(
                (*path, "host"),
                f"host {host.name!r} is unhealthy; expected started tasks on healthy hosts",
            )


def gpu_model(reading: Reading) -> Iterator[Finding]:
    """Require of each started task a host of a GPU model that its group allows."""
    for path, _, group, host in reading.started_tasks():
        if group.gpu_models is not None and host.hardware.gpu_model not in group.gpu_models:
            yield Finding(
                (*path, "host"),
                f"host {host.name!r} has GPU model {host.hardware.gpu_model or 'none'}; "
                f"expected one of {', '.join(group.gpu_models)}",
            )


RULES: tuple[Rule[Reading], ...] = (
    Rule("host_capacity", host_capacity),
    Rule("gpu_capacity", gpu_capacity),
    Rule("healthy", healthy),
    Rule("gpu_model", gpu_model),
)
