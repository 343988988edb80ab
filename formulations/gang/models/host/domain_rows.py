"""Tasks of a job per domain: arrivals and tasks that stay, less those of a kept job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import NONE, HostModel


@dataclass(frozen=True, eq=False, slots=True)
class DomainRows:
    """A row per domain that counts tasks of an entry there.

    Attributes
    ----------
    rows : tasks in the domain, less those of a kept job
    parts : the domains, ascending
    most : how many tasks could be there
    """

    rows: Ints
    parts: Ints
    most: Ints


def add_domain_rows(
    m: HostModel,
    entry: int,
    sets: Sequence[int],
    domain: np.ndarray,
    *,
    lower: float = -np.inf,
    upper: float = 0.0,
) -> DomainRows:
    """Append a row for each domain that tasks of some sets of an entry may be in.

    `domain` has the domain of each host of the cluster; `lower` and `upper` bound every row.
    """
    mine, stays = np.flatnonzero(np.isin(m.x_set, sets)), np.flatnonzero(np.isin(m.stays.set, sets))
    hosts = np.append(m.x_host[mine], m.stays.host[stays])
    capacity = np.append(
        m.capacity[m.x_set[mine], m.x_host[mine]], np.ones(len(stays), dtype=np.int64)
    )
    parts, part_of = np.unique(domain[m.hosts[hosts]], return_inverse=True)
    rows = m.model.rows("in domain", len(parts), lower=lower, upper=upper)
    m.model.add(rows[part_of], np.append(m.x[mine], m.stays.s[stays]), 1.0)
    if m.kept[entry] != NONE:
        before = np.bincount(part_of[len(mine) :], minlength=len(parts))
        there = np.flatnonzero(before)
        m.model.add(rows[there], m.kept[[entry] * len(there)], -before[there])
    most = np.bincount(part_of, weights=capacity, minlength=len(parts)).astype(np.int64)
    return DomainRows(rows, parts.astype(np.int64), most)


def arrival_of(m: HostModel, entry: int) -> list[tuple[int, float]]:
    """Return y - k of an entry, 1 if it starts or migrates, as (column, coefficient) pairs."""
    kept = m.kept[entry]
    return [(int(m.y[entry]), 1.0)] + ([(int(kept), -1.0)] if kept != NONE else [])
