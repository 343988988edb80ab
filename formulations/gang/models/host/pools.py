"""Rows of pools: what the tasks and jobs of a domain take together <= what it has.

sum_t demand[t] x[t,h in d] + sum_p demand[p] s[p in d] + sum_j amount[j] use[j,d]  <=  left[d]
use[j,d] <= tasks of j in d <= n use[j,d]    jobs of several tasks, where the pool counts per job
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.pools import Pool


@dataclass(frozen=True, eq=False, slots=True)
class PoolColumns:
    """What takes something of a pool of the model: columns, and what is known of each.

    Attributes
    ----------
    pool : Pool
    left : int64 (domains,)
        What may be taken of each domain.
    columns, domain, amount : columns, and where and what each takes
    entry : entry of each column; the first one of a task set
    stays : whether each is a running task in its place
    """

    pool: Pool
    left: Ints
    columns: Ints
    domain: Ints
    amount: Ints
    entry: Ints
    stays: NDArray[np.bool_]


def add_pools(m: HostModel) -> list[PoolColumns]:
    """Append the rows of all pools of levels; return what takes of each."""
    found = []
    for pool, left in zip(m.problem.pools, m.placement.pools.left, strict=True):
        taking = _taking(m, pool, left)
        parts, row = np.unique(taking.domain, return_inverse=True)
        rows = m.model.rows("pool", len(parts), upper=left[parts])
        m.model.add(rows[row], taking.columns, taking.amount.astype(np.float64))
        found.append(taking)
    return found


def _taking(m: HostModel, pool: Pool, left: Ints) -> PoolColumns:
    """Append which domains jobs of several tasks use; return all that takes of a pool."""
    entry_of_set = np.array([s.users[0][0] for s in m.task_sets], dtype=np.int64)
    x, stays = np.flatnonzero(pool.demand[m.x_shape]), np.flatnonzero(pool.demand[m.stay_shape])
    columns, domains = [m.x[x], m.stays.s[stays]], [*_domains(m, pool, x, stays)]
    amounts = [pool.demand[m.x_shape[x]], pool.demand[m.stay_shape[stays]]]
    entries = [entry_of_set[m.x_set[x]], m.stays.entry[stays]]
    for e, choice in enumerate(map(m.choice, m.entries)):
        amount = pool.used_by(choice.uses) if choice.num_tasks > 1 else 0
        if amount:
            parts, use = _use(m, e, choice.num_tasks, pool)
            columns.append(use)
            domains.append(parts)
            amounts.append(np.full(len(use), amount))
            entries.append(np.full(len(use), e))
    in_place = np.zeros(sum(map(len, columns)), dtype=np.bool_)
    in_place[len(x) : len(x) + len(stays)] = True
    taking, where, each, of = (
        np.concatenate(part).astype(np.int64) for part in (columns, domains, amounts, entries)
    )
    return PoolColumns(pool, left, taking, where, each, of, in_place)


def _domains(m: HostModel, pool: Pool, x: Ints, stays: Ints) -> tuple[Ints, Ints]:
    """Return the domains of some x and of some places."""
    return pool.domain[m.hosts[m.x_host[x]]], pool.domain[m.hosts[m.stays.host[stays]]]


def _use(m: HostModel, entry: int, tasks: int, pool: Pool) -> tuple[Ints, Ints]:
    """Append whether a job of several tasks uses each domain; return the domains and columns."""
    sets = [t for t, one in enumerate(m.task_sets) if one.users[0][0] == entry]
    x, stays = np.flatnonzero(np.isin(m.x_set, sets)), np.flatnonzero(np.isin(m.stays.set, sets))
    parts, row = np.unique(np.concatenate(_domains(m, pool, x, stays)), return_inverse=True)
    use = m.model.variables("use", len(parts), upper=1)
    there = np.append(m.x[x], m.stays.s[stays])
    places = np.append(m.capacity[m.x_set[x], m.x_host[x]], np.ones(len(stays), dtype=np.int64))
    most = np.minimum(np.bincount(row, weights=places, minlength=len(parts)), tasks)
    at_most = m.model.rows("in domain", len(parts), upper=0.0)
    at_least = m.model.rows("in domain", len(parts), lower=0.0)
    for rows, each in ((at_most, most), (at_least, np.ones(len(parts)))):
        m.model.add(rows[row], there, 1.0)
        m.model.add(rows, use, -each)
    return parts.astype(np.int64), use
