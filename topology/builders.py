"""Regular clusters: a tree of regions, datacenters, blocks, racks and hosts, and NVL72 racks.

The default links are round figures for a cluster of today, not measurements: they give paths an
order and a first estimate of bandwidth. Hosts whose model has NIC rails use those instead of the
host link.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from placewright.topology.catalogue import CATALOGUE, HostModel, Link
from placewright.topology.cluster import Cluster
from placewright.topology.mig import product_of

TREE_LINKS: Mapping[str, Link] = MappingProxyType(
    {
        "host": Link(100_000, 2.0),
        "rack": Link(1_600_000, 3.0),
        "block": Link(12_800_000, 5.0),
        "datacenter": Link(1_600_000, 100.0),
    }
)
"""By level, the uplink of one domain; a datacenter's is the metropolitan network of its region."""

WAN_LINK = Link(100_000, 30_000.0)
"""Between two regions: 100 Gbit/s, 30 ms one way."""

_LETTERS = {"region": "r", "datacenter": "d", "block": "b", "rack": "k", "host": "h"}


def tree(
    name: str,
    *,
    regions: int = 1,
    datacenters: int = 1,
    blocks: int,
    racks: int,
    hosts: int,
    host_model: HostModel | Sequence[HostModel] = CATALOGUE["dgx-h100"],
    links: Mapping[str, Link] = TREE_LINKS,
    wan: Link = WAN_LINK,
) -> Cluster:
    """Build a tree in which all domains of a level hold equally many; names read r0-d0-b1-k2-h3.

    `regions`, `datacenters`, `blocks`, `racks`, `hosts`: regions in
    all, datacenters per region, blocks per datacenter, racks per block, hosts per rack.
    `host_model` (HostModel or sequence of HostModel (hosts of the whole cluster,)): the hardware of
    all hosts, or of each host in order of the tree. `links`: uplink by level. `wan`: joins each two
    regions. Raises ValueError if a count is below 1 or the number of host models does not fit.
    """
    counts = {
        "region": regions,
        "datacenter": datacenters,
        "block": blocks,
        "rack": racks,
        "host": hosts,
    }
    parents = []
    total = 1
    for level, count in counts.items():
        if count < 1:
            raise ValueError(f"number of {level}s {count} is too small; expected at least 1")
        parents.append(np.repeat(np.arange(total, dtype=np.int32), count))
        total *= count
    return _named(name, tuple(counts), parents, host_model, links, wan)


def nvl72_racks(
    name: str, racks: int, *, racks_per_block: int = 8, links: Mapping[str, Link] = TREE_LINKS
) -> Cluster:
    """Build one datacenter of GB200 NVL72 racks, each 18 trays of 4 GPUs.

    `racks_per_block`: racks per block; the last
    block holds the rest. 8 is a scalable unit of the NVIDIA DGX SuperPOD with DGX GB200 reference
    architecture. `links`: uplink by level. Raises ValueError if a count is below 1.
    """
    for what, count in (("racks", racks), ("racks per block", racks_per_block)):
        if count < 1:
            raise ValueError(f"number of {what} {count} is too small; expected at least 1")
    tray = CATALOGUE["gb200-nvl72-tray"]
    block_of = np.arange(racks, dtype=np.int32) // racks_per_block
    parents = [
        np.zeros(1, dtype=np.int32),
        np.zeros(int(block_of[-1]) + 1, dtype=np.int32),
        block_of,
        np.repeat(np.arange(racks, dtype=np.int32), tray.nvlink_hosts),
    ]
    levels = ("datacenter", "block", "rack", "host")
    return _named(name, levels, parents, tray, links, WAN_LINK)


def _named(
    name: str,
    levels: tuple[str, ...],
    parents: Sequence[NDArray[np.int32]],
    host_model: HostModel | Sequence[HostModel],
    links: Mapping[str, Link],
    wan: Link,
) -> Cluster:
    """Name the domains after their place in the tree and fill in the hosts' hardware."""
    names: list[tuple[str, ...]] = []
    for level, parent in zip(levels, parents, strict=True):
        within = np.arange(len(parent)) - np.searchsorted(parent, parent)
        prefixes = [f"{above}-" for above in names[-1]] if names else [""]
        letter = _LETTERS[level]
        names.append(
            tuple(
                f"{prefixes[p]}{letter}{i}"
                for p, i in zip(parent.tolist(), within.tolist(), strict=True)
            )
        )

    num_hosts = len(parents[-1])
    each = [host_model] * num_hosts if isinstance(host_model, HostModel) else list(host_model)
    if len(each) != num_hosts:
        raise ValueError(f"{len(each)} host models do not fit; expected {num_hosts}, one per host")
    models = tuple(dict.fromkeys(each))
    place = {model: m for m, model in enumerate(models)}
    model_of = np.array([place[model] for model in each], dtype=np.int32)
    gpu_models = tuple(dict.fromkeys(model.gpu_model for model in models if model.gpus))
    gpu_model = [gpu_models.index(model.gpu_model) if model.gpus else -1 for model in models]
    return Cluster(
        name=name,
        levels=levels,
        names=tuple(names),
        parent=tuple(parents),
        resources=("cpu", "memory"),
        capacity=np.array([(m.cpu_milli, m.memory_mib) for m in models])[model_of],
        gpu_count=np.array([m.gpus for m in models])[model_of],
        gpu_models=gpu_models,
        gpu_model=np.array(gpu_model)[model_of],
        host_models=models,
        host_model=model_of,
        links=links,
        wan=dict.fromkeys(combinations(names[0], 2), wan),
        gpu_memory=np.array([m.gpu_memory_mib for m in models])[model_of],
        product=np.array([product_of(m.gpu_model, m.gpu_memory_mib) for m in models])[model_of],
    )
