"""What a plan says of tenants: their shares of the cluster, and the cells that they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from placewright.instances.derived.phrases import count
from placewright.report.text import NONE, percent

if TYPE_CHECKING:
    from placewright.instances.documents.plan import Plan

PER_CLUSTER = 100_000
"""Units of a dominant share that are the whole cluster."""


def shares_of(plan: Plan) -> list[tuple[str, str, str]]:
    """Return tenant, dominant share and its resource of each tenant, the least share first."""
    found = sorted(_entries(plan, "shares", "tenants"), key=lambda entry: entry["share"])
    return [
        (entry["tenant"], percent(entry["share"] / PER_CLUSTER), entry["resource"] or NONE)
        for entry in found
    ]


def cells_of(plan: Plan) -> list[tuple[str, str, str, str]]:
    """Return tenant, kind of cell, domain and jobs inside of each cell in use."""
    return [
        (
            entry["tenant"],
            f"{entry['level']} (cell {entry['cell']})",
            entry["domain"],
            ", ".join(entry["jobs"])
            if len(entry["jobs"]) <= 2
            else count(len(entry["jobs"]), "job"),
        )
        for entry in _entries(plan, "cells", "bindings")
    ]


def _entries(plan: Plan, kind: str, key: str) -> Iterator[Mapping[str, Any]]:
    for section in plan.sections:
        if section["kind"] == kind:
            yield from section[key]
