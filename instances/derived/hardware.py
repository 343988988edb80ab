"""The hardware of a host entry of the Cluster document, completed from the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.topology import CATALOGUE
from placewright.topology.mig import NO_MIG, memory_in_name, product_of
from placewright.topology.units import UNLIMITED


@dataclass(frozen=True, slots=True)
class Hardware:
    """GPUs of one host, their model (None without GPUs), and its other resources by name.

    `gpu_memory` is the MiB of one GPU (None: unknown), `product` what MIG can cut its GPUs into, an
    index in `topology.mig.PRODUCTS` (`NO_MIG`: nothing).
    """

    gpus: int
    gpu_model: str | None
    capacity: Mapping[str, int]
    gpu_memory: int | None = None
    product: int = NO_MIG


def pooled_resources(cluster: ClusterDocument) -> tuple[str, ...]:
    """Return the resources that hosts share in pools and tasks ask for, each once."""
    return tuple(dict.fromkeys(pool.resource for pool in cluster.pools if pool.per == "task"))


def hardware(entry: HostEntry, pooled: Collection[str] = ()) -> Hardware:
    """Return what each host of an entry has; what the entry leaves out is its model's, or 0.

    Of `pooled` resources (`pooled_resources`) a host that does not list them has no limit.
    """
    known = CATALOGUE[entry.model] if entry.model is not None else None
    gpus, gpu_model, cpu, memory = entry.gpus, entry.gpu_model, entry.cpu, entry.memory
    if known is not None:
        gpus = known.gpus if gpus is None else gpus
        gpu_model = known.gpu_model if gpu_model is None else gpu_model
        cpu = known.cpu_milli if cpu is None else cpu
        memory = known.memory_mib if memory is None else memory
    gpu_model = gpu_model if gpus else None
    gpu_memory = _gpu_memory(entry, gpu_model)
    return Hardware(
        gpus or 0,
        gpu_model,
        {
            "cpu": cpu or 0,
            "memory": memory or 0,
            **dict.fromkeys(pooled, UNLIMITED),
            **entry.resources,
        },
        gpu_memory,
        product_of(gpu_model, gpu_memory) if gpu_model and entry.mig else NO_MIG,
    )


def _gpu_memory(entry: HostEntry, gpu_model: str | None) -> int | None:
    """Return the MiB of a GPU: what is given, else what the model's name or the catalogue says."""
    if gpu_model is None or entry.gpu_memory is not None:
        return entry.gpu_memory if gpu_model else None
    named = memory_in_name(gpu_model)
    if named is None and entry.model is not None:
        known = CATALOGUE[entry.model]
        return known.gpu_memory_mib if gpu_model == known.gpu_model else None
    return named
