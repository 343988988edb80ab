"""Hosts of 8 GPUs for traces that do not say what they ran on, and jobs in tasks that fit them."""

from __future__ import annotations

from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.option import TaskGroup

GPUS_PER_HOST = 8


def hosts_of_eight(name: str, gpus: int, model: str) -> ClusterDocument:
    """Return hosts of 8 GPUs and one with what is left, without levels."""
    full, rest = divmod(gpus, GPUS_PER_HOST)
    entries = []
    if full:
        entries.append(
            HostEntry(name=ranges.of_size("node-", full), gpus=GPUS_PER_HOST, gpu_model=model)
        )
    if rest:
        entries.append(HostEntry(name=f"node-{full}", gpus=rest, gpu_model=model))
    return ClusterDocument(name=name, hosts=tuple(entries))


def largest_task(gpus: int, most: int = GPUS_PER_HOST) -> int:
    """Return the GPUs of tasks of equal size, as large as hosts of `most` GPUs allow."""
    return next(size for size in range(min(gpus, most), 0, -1) if gpus % size == 0)


def whole_tasks(gpus: int, most: int = GPUS_PER_HOST) -> TaskGroup:
    """Return a group of tasks of equal size, as large as hosts of `most` GPUs allow."""
    per_task = largest_task(gpus, most)
    return TaskGroup(count=gpus // per_task, gpu=per_task)
