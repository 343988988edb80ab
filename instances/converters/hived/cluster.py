"""The cluster of physical cells: a level for each layer of cells above the nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal

from placewright.instances.converters.hived.cells import Cell, Cells
from placewright.instances.converters.hived.records import SkuType
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import (
    MAX_GPUS_PER_HOST,
    ClusterDocument,
    DomainEntry,
    HostEntry,
)
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import HOST_LEVEL

CHAIN_LEVEL = "chain"
_MIB = 2**20


def level_names(cells: Cells) -> tuple[str, ...]:
    """Return the levels, from the host up: the cell type, where a layer has one only."""
    names = [HOST_LEVEL]
    for height in range(1, max((kind.node for kind in cells.chains.values()), default=0) + 1):
        types = {
            kind.types[kind.node - height] for kind in cells.chains.values() if height <= kind.node
        }
        single = next(iter(types)) if len(types) == 1 else ""
        taken = {*names, CHAIN_LEVEL, ""}
        names.append(single if single not in taken else f"cell-{height}")
    return tuple(names)


def cluster_of(
    cells: Cells, skus: Mapping[str, SkuType], levels: Sequence[str], apart: Collection[str]
) -> ClusterDocument:
    """Return the cluster.

    Parameters
    ----------
    cells
        The physical cells.
    skus
        Resources of a leaf cell; of one that is not named, one GPU.
    levels
        Levels from the host up.
    apart
        If there are any, chains are the domains of an outermost level.

    Raises
    ------
    InvalidInputError
        A node has more than a host can have.
    """
    domains: list[DomainEntry] = []
    hosts: list[HostEntry] = []
    if apart:
        domains += [DomainEntry(name=chain_domain(c), level=CHAIN_LEVEL) for c in cells.chains]
    for cell in cells.cells:
        parent = cell.above[-1] if cell.above else None
        if parent is None:
            parent = chain_domain(cell.nesting.chain) if apart else None
            for level in reversed(levels[cell.height + 1 :]):
                name = f"{level}:{cell.name}"
                domains.append(DomainEntry(name=name, level=level, parent=parent))
                parent = name
        if cell.height:
            level = levels[cell.height]
            domains.append(DomainEntry(name=cell.name, level=level, parent=parent))
        else:
            hosts.append(_host(cell, parent, skus.get(cell.nesting.model)))
    outermost_first = tuple(reversed(levels[1:]))
    return ClusterDocument(
        levels=(CHAIN_LEVEL, *outermost_first) if apart else outermost_first,
        domains=tuple(domains),
        hosts=tuple(hosts),
    )


def chain_domain(chain: str) -> str:
    """Return the domain that holds a whole chain."""
    return f"{CHAIN_LEVEL}:{chain}"


def gpus_of_leaf(sku: SkuType | None) -> int:
    """Return the GPUs of a leaf cell: one, unless its SKU says otherwise."""
    return 1 if sku is None else sku.gpu


def _host(cell: Cell, parent: str | None, sku: SkuType | None) -> HostEntry:
    leaves, model = cell.nesting.leaves, cell.nesting.model
    gpus = leaves * gpus_of_leaf(sku)
    if gpus > MAX_GPUS_PER_HOST:
        raise InvalidInputError(
            f"has {gpus:,} GPUs in a node; expected at most {MAX_GPUS_PER_HOST}",
            path=("physicalCluster", "cellTypes", cell.nesting.types[cell.nesting.node]),
            show_value=False,
        )
    cpu, memory = (Decimal(0), Decimal(0)) if sku is None else (sku.cpu, sku.memory)
    return HostEntry(
        name=cell.name,
        parent=parent,
        gpus=gpus,
        gpu_model=model if gpus else None,
        cpu=f"{_down(leaves * cpu * 1000)}m",
        memory=f"{_down(leaves * memory / _MIB)}Mi",
    )


def _down(value: Decimal) -> int:
    return min(MAX_AMOUNT, int(value.to_integral_value(ROUND_FLOOR)))
