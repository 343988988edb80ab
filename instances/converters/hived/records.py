"""What is read of HiveD's scheduler configuration."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    AsMapping,
    NameText,
    OptionalName,
    Quantity,
    Record,
    Truth,
)
from placewright.instances.documents.base import MAX_COUNT


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
