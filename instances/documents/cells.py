"""Cells that tenants own, and which cells of the cluster these are bound to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from placewright.instances.documents.base import Count, Document, Index, Name


class OwnedCells(Document):
    """`count` whole domains of a level that a tenant may always claim: hosts, racks ...

    A cell is what a domain has of hosts of one GPU model: `gpu_model`, which may be left out where
    the cluster has one only. Such hosts are a chain; up to the outermost level that anybody owns,
    its cells of a level must be alike. `within` names a domain that is a chain of its own: these
    cells lie in it, and no others do.
    """

    level: Name
    gpu_model: Name | None = None
    within: Name | None = None
    count: Count = 1


class Binding(Document):
    """A cell of a tenant in use: one of those that `tenant.cells[cell]` counts is this `domain`."""

    tenant: Name
    cell: Index = 0
    domain: Name


def bindings_in(sections: Iterable[Mapping[str, Any]]) -> tuple[Binding, ...]:
    """Return the bindings that the sections of a valid plan have, for the next round."""
    return tuple(
        Binding(tenant=one["tenant"], cell=one["cell"], domain=one["domain"])
        for section in sections
        if section["kind"] == "cells"
        for one in section["bindings"]
    )
