"""Cell types of HiveD: what a cell is made of, down to its leaf cells, and where its nodes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from placewright.instances.converters.hived.records import CellType
from placewright.instances.errors import InvalidInputError, Path

MAX_TYPES = 16
"""Most cell types inside each other."""

MAX_HOSTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Nesting:
    """The cell types inside one that has nodes, itself included.

    Attributes
    ----------
    types : tuple of str
        Cell types, outermost first; the last one is the leaf cell.
    numbers : tuple of int
        How many cells of the next type make one of each, but for the leaf cell.
    node : int
        Position of the type that is a node.
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

    Raises
    ------
    InvalidInputError
        The type is not described, is inside itself, or has no node or several.
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
