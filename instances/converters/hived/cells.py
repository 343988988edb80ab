"""Physical cells of HiveD: those above the nodes are domains, nodes are hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.hived.cell_types import MAX_HOSTS, Nesting, nesting
from placewright.instances.converters.hived.records import CellType, PhysicalCell
from placewright.instances.documents.base import NAME
from placewright.instances.errors import InvalidInputError, Path

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

    Attributes
    ----------
    cells : list of Cell
        Outer ones before those that they hold.
    chains : dict of str to Nesting
        By the outermost cell type.
    pinned : dict of str to Cell
        By pinnedCellId; `below` has those that are smaller than a node.
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

    Raises
    ------
    InvalidInputError
        A cell is not what its type says, or has no address of its own.
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
