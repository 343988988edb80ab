"""What a host entry of the Cluster document stands for, filled from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placewright.instances.cluster import HostEntry
from placewright.topology import CATALOGUE


@dataclass(frozen=True, slots=True)
class Hardware:
    """GPUs of one host, their model (None without GPUs), and its other resources by name."""

    gpus: int
    gpu_model: str | None
    capacity: Mapping[str, int]


def hardware(entry: HostEntry) -> Hardware:
    """Return what each host of an entry has; what the entry leaves out is its model's, or 0."""
    known = CATALOGUE[entry.model] if entry.model is not None else None
    gpus, gpu_model, cpu, memory = entry.gpus, entry.gpu_model, entry.cpu, entry.memory
    if known is not None:
        gpus = known.gpus if gpus is None else gpus
        gpu_model = known.gpu_model if gpu_model is None else gpu_model
        cpu = known.cpu_milli if cpu is None else cpu
        memory = known.memory_mib if memory is None else memory
    return Hardware(
        gpus or 0,
        gpu_model if gpus else None,
        {"cpu": cpu or 0, "memory": memory or 0, **entry.resources},
    )
