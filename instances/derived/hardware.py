"""The hardware of a host entry of the Cluster document, completed from the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placewright.instances.documents.cluster import ClusterDocument, HostEntry, LinkMatrix
from placewright.topology import LINK_MATRICES, GpuLinks
from placewright.topology.catalogue import host_hardware
from placewright.topology.gpu_links import links_of_words
from placewright.topology.mig import NO_MIG
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
    given = entry.gpus, entry.gpu_model, entry.gpu_memory, entry.cpu, entry.memory
    has = host_hardware(entry.model, *given, entry.mig)
    capacity = {"cpu": has.cpu, "memory": has.memory, **dict.fromkeys(pooled, UNLIMITED)}
    return Hardware(
        has.gpus, has.gpu_model, {**capacity, **entry.resources}, has.gpu_memory, has.product
    )


def link_matrix(matrix: LinkMatrix) -> GpuLinks:
    """Return a link matrix of the document as numbers."""
    return links_of_words(matrix.model_dump())


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
