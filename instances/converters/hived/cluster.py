"""The cluster of HiveD's configuration: cell types, physical cells, levels and hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from math import prod
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.records import (
    AsList,
    AsMapping,
    NameText,
    OptionalName,
    Quantity,
    Record,
    Truth,
)
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT, NAME
from placewright.instances.documents.cluster import (
    MAX_GPUS_PER_HOST,
    ClusterDocument,
    DomainEntry,
    HostEntry,
)
from placewright.instances.errors import InvalidInputError, Path
from placewright.topology.units import HOST_LEVEL


def _number(value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 0 <= value <= MAX_COUNT:
        raise ValueError(f"expected a whole number from 0 to {MAX_COUNT}")
    return int(value)


def _address(value: Any) -> Any:
    """Return an address as a text: those of GPUs and racks are numbers."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Number = Annotated[int, BeforeValidator(_number)]
Address = Annotated[OptionalName, BeforeValidator(_address)]


class SkuType(Record):
    """Resources of one leaf cell."""

    gpu: Number = 0
    cpu: Quantity = Decimal(0)
    memory: Quantity = Decimal(0)


class CellType(Record):
    """What a cell is made of; a type that is not described is a leaf cell, one device."""

    child: NameText = Field(alias="childCellType")
    number: Number = Field(alias="childCellNumber")
    is_node: Truth = Field(alias="isNodeLevel", default=False)


class PhysicalCell(Record):
    """A cell of the cluster; of one inside another the cell type is known."""

    type: OptionalName = Field(alias="cellType", default=None)
    address: Address = Field(alias="cellAddress", default=None)
    pinned: OptionalName = Field(alias="pinnedCellId", default=None)
    children: Annotated[tuple[PhysicalCell, ...], AsList] = Field(alias="cellChildren", default=())


class VirtualCells(Record):
    """Cells of a virtual cluster: `CHAIN.….TYPE`, and how many."""

    type: NameText = Field(alias="cellType")
    number: Number = Field(alias="cellNumber")


class PinnedCell(Record):
    """A cell of a virtual cluster that is this physical one."""

    id: NameText = Field(alias="pinnedCellId")


class VirtualCluster(Record):
    """What a virtual cluster owns."""

    cells: Annotated[tuple[VirtualCells, ...], AsList] = Field(alias="virtualCells", default=())
    pinned: Annotated[tuple[PinnedCell, ...], AsList] = Field(alias="pinnedCells", default=())


class PhysicalCluster(Record):
    """Types of cells, and the outermost cells that there are."""

    skus: Annotated[Mapping[NameText, SkuType], AsMapping] = Field(
        alias="skuTypes", default_factory=dict
    )
    types: Annotated[Mapping[NameText, CellType], AsMapping] = Field(
        alias="cellTypes", default_factory=dict
    )
    cells: Annotated[tuple[PhysicalCell, ...], AsList] = Field(alias="physicalCells")


class Configuration(Record):
    """The configuration; what says nothing about cells is not read."""

    physical: PhysicalCluster = Field(alias="physicalCluster")
    virtual: Annotated[Mapping[NameText, VirtualCluster], AsMapping] = Field(
        alias="virtualClusters", default_factory=dict
    )


# Cell types of HiveD: what a cell is made of, down to its leaf cells, and where its nodes are.


MAX_TYPES = 16
"""Most cell types inside each other."""

MAX_HOSTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Nesting:
    """The cell types inside one that has nodes, itself included.

    `types`: cell types, outermost first; the last one is the leaf cell. `numbers`: how many cells
    of the next type make one of each, but for the leaf cell. `node`: position of the type that is a
    node.
    """

    types: tuple[str, ...]
    numbers: tuple[int, ...]
    node: int

    @property
    def chain(self) -> str:
        """The outermost type, by which HiveD names the chain."""
        return self.types[0]

    @property
    def model(self) -> str:
        """The leaf cell type."""
        return self.types[-1]

    @property
    def leaves(self) -> int:
        """Leaf cells of a node."""
        return prod(self.numbers[self.node :])

    def height(self, cell_type: str) -> int:
        """Return how many levels above the node a type is; negative below it."""
        return self.node - self.types.index(cell_type)


def nesting(types: Mapping[str, CellType], outermost: str, path: Path) -> Nesting:
    """Return what is inside a cell type.

    Raises `InvalidInputError`: the type is not described, is inside itself, or has no node or
    several.
    """
    if outermost not in types:
        raise InvalidInputError(
            "unknown cell type; expected one of cellTypes", path=path, value=outermost
        )
    found, numbers, nodes = [outermost], [], []
    while (kind := types.get(found[-1])) is not None:
        where: Path = ("physicalCluster", "cellTypes", found[-1])
        if kind.child in found or len(found) == MAX_TYPES:
            raise InvalidInputError(
                f"expected a cell type that is not inside itself, at most {MAX_TYPES} deep",
                path=(*where, "childCellType"),
                value=kind.child,
            )
        if not kind.number:
            raise InvalidInputError(
                "expected at least 1", path=(*where, "childCellNumber"), value=kind.number
            )
        if kind.is_node:
            nodes.append(len(found) - 1)
        numbers.append(kind.number)
        found.append(kind.child)
    if len(nodes) != 1:
        raise InvalidInputError(
            f"has {len(nodes)} node levels in it; expected one cell type with isNodeLevel",
            path=path,
            value=outermost,
        )
    if prod(numbers[: nodes[0]]) > MAX_HOSTS:
        raise InvalidInputError(
            f"expected at most {MAX_HOSTS:,} nodes in a cell", path=path, value=outermost
        )
    return Nesting(tuple(found), tuple(numbers), nodes[0])


# Physical cells of HiveD: those above the nodes are domains, nodes are hosts.


_NAME = re.compile(NAME)
_MAX_NAME = 253
_UNNAMED = PhysicalCell()


class Cell(NamedTuple):
    """A cell of at least a node: its domain, the domains that hold it, how far above a node."""

    name: str
    above: tuple[str, ...]
    height: int
    nesting: Nesting


@dataclass(slots=True)
class Cells:
    """The physical cells.

    `cells`: outer ones before those that they hold. `chains`: by the outermost cell type. `pinned`:
    by pinnedCellId; `below` has those that are smaller than a node.
    """

    cells: list[Cell] = field(default_factory=list)
    chains: dict[str, Nesting] = field(default_factory=dict)
    pinned: dict[str, Cell] = field(default_factory=dict)
    below: dict[str, Cell] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _nodes: set[tuple[str, str]] = field(default_factory=set)

    def roots(self, chain: str) -> list[str]:
        """Return the outermost cells of a chain."""
        return [one.name for one in self.cells if not one.above and one.nesting.chain == chain]

    def add(self, spec: PhysicalCell, kind: Nesting, index: int, book: Bookkeeping) -> None:
        """Add an outermost cell with all that it holds, `index` of physicalCells."""
        self.chains.setdefault(kind.chain, kind)
        path: Path = ("physicalCluster", "physicalCells", index)
        self._add(spec, kind, 0, index, "", (), path, book)

    def _add(
        self,
        spec: PhysicalCell,
        kind: Nesting,
        at: int,
        index: int,
        prefix: str,
        above: tuple[str, ...],
        path: Path,
        book: Bookkeeping,
    ) -> None:
        address = f"{prefix}{spec.address or index}"
        name = self._name(spec, kind, at, address, (*path, "cellAddress"), book)
        if spec.type is not None and spec.type != kind.types[at]:
            raise InvalidInputError(
                f"expected {kind.types[at]}", path=(*path, "cellType"), value=spec.type
            )
        cell = Cell(name, above, kind.node - at, kind)
        self.cells.append(cell)
        if len(self.cells) > 2 * MAX_HOSTS:
            raise InvalidInputError("expected fewer cells", path=path, show_value=False)
        self._pin(spec, cell, self.pinned, path)
        if at == kind.node:
            for inner, where in _inside(spec, path):
                self._pin(inner, cell, self.below, where)
            return
        number = kind.numbers[at]
        if spec.children and len(spec.children) != number:
            raise InvalidInputError(
                f"has {len(spec.children)} cells; expected {number} in a {kind.types[at]}",
                path=(*path, "cellChildren"),
                show_value=False,
            )
        for i, child in enumerate(spec.children or (_UNNAMED,) * number):
            where = (*path, "cellChildren", i)
            nested = (*above, name)
            self._add(child, kind, at + 1, index * number + i, f"{address}/", nested, where, book)

    def _name(
        self,
        spec: PhysicalCell,
        kind: Nesting,
        at: int,
        address: str,
        path: Path,
        book: Bookkeeping,
    ) -> str:
        """Return the node, or for a domain and a node without address its chain and place."""
        name = f"{kind.chain}/{address}"
        if at == kind.node and spec.address is not None:
            name = spec.address.rpartition("/")[2]
            if (name, kind.model) in self._nodes:
                raise InvalidInputError("is the node of two cells", path=path, value=name)
            self._nodes.add((name, kind.model))
            if name in self._names:
                name = f"{name}:{kind.model}"
                book.cannot_say("that hosts with GPUs of different models are one node", name)
        if name in self._names or len(name) > _MAX_NAME or _NAME.fullmatch(name) is None:
            raise InvalidInputError(
                f"expected an address of its own, at most {_MAX_NAME} characters with its chain",
                path=path,
                value=name,
            )
        self._names.add(name)
        return name

    def _pin(self, spec: PhysicalCell, cell: Cell, among: dict[str, Cell], path: Path) -> None:
        if spec.pinned is None:
            return
        if spec.pinned in self.pinned or spec.pinned in self.below:
            raise InvalidInputError(
                "pinned twice; expected one cell", path=(*path, "pinnedCellId"), value=spec.pinned
            )
        holders = {one.name for one in self.pinned.values()}
        if not holders.isdisjoint(cell.above if among is self.pinned else (*cell.above, cell.name)):
            raise InvalidInputError(
                "lies in a pinned cell; expected one that does not",
                path=(*path, "pinnedCellId"),
                value=spec.pinned,
            )
        among[spec.pinned] = cell


def read_cells(
    types: Mapping[str, CellType], specs: tuple[PhysicalCell, ...], book: Bookkeeping
) -> Cells:
    """Return the physical cells; addresses and children that are left out are as HiveD has them.

    Raises `InvalidInputError`: a cell is not what its type says, or has no address of its own.
    """
    found = Cells()
    for index, spec in enumerate(specs):
        path: Path = ("physicalCluster", "physicalCells", index)
        if spec.type is None:
            raise InvalidInputError(
                "missing; expected one of cellTypes", path=(*path, "cellType"), show_value=False
            )
        kind = found.chains.get(spec.type) or nesting(types, spec.type, (*path, "cellType"))
        found.add(spec, kind, index, book)
    return found


def _inside(spec: PhysicalCell, path: Path) -> Iterator[tuple[PhysicalCell, Path]]:
    for i, child in enumerate(spec.children):
        where = (*path, "cellChildren", i)
        yield child, where
        yield from _inside(child, where)


# The cluster of physical cells: a level for each layer of cells above the nodes.


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

    `cells`: the physical cells. `skus`: resources of a leaf cell; of one that is not named, one
    GPU. `levels`: levels from the host up. `apart`: if there are any, chains are the domains of an
    outermost level. Raises `InvalidInputError`: a node has more than a host can have.
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
