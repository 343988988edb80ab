"""The hardware of a host entry of the Cluster document, completed from the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from placewright.instances.documents.cluster import ClusterDocument, HostEntry, LinkMatrix
from placewright.topology import CATALOGUE, LINK_MATRICES, GpuLinks
from placewright.topology.gpu_links import LINK_KINDS
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


def link_matrix(matrix: LinkMatrix) -> GpuLinks:
    """Return a link matrix of the document as numbers."""
    kind = {name: LINK_KINDS.index(one.kind) + 1 for name, one in matrix.classes.items()}
    mbps = {name: one.bandwidth_mbps for name, one in matrix.classes.items()}

    def numbers(rows: Sequence[str], of: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(of.get(word, 0) for word in row.split()) for row in rows)

    return GpuLinks(
        matrix.name,
        numbers(matrix.gpus, kind),
        numbers(matrix.gpus, mbps),
        numbers(matrix.nics, kind),
        numbers(matrix.nics, mbps),
        matrix.numa,
        matrix.source,
    )


def links_of_hosts(document: ClusterDocument) -> list[GpuLinks | None]:
    """Return the links inside each host of every entry, None where nothing is known of them."""
    known = {matrix.name: link_matrix(matrix) for matrix in document.gpu_links}
    found: list[GpuLinks | None] = []
    for entry in document.hosts:
        name = entry.gpu_links or entry.model
        links = None if name is None else known.get(name) or LINK_MATRICES.get(name)
        gpus = hardware(entry).gpus
        found.append(links.first(gpus) if links is not None and gpus else None)
    return found
