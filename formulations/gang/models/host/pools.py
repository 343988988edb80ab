"""Rows of pools: what the tasks and jobs of a domain take together <= what it has.

sum_t demand[t] x[t,h in d] + sum_p demand[p] s[p in d] + sum_j amount[j] use[j,d]  <=  left[d]
tasks of j in d <= n use[j,d]                jobs of several tasks, where the pool counts per job
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.pools import Pool


@dataclass(frozen=True, eq=False, slots=True)
class PoolColumns:
    """What takes something of a pool of the model: columns, domain and amount of each."""

    columns: Ints
    domain: Ints
    amount: Ints


def add_pools(m: HostModel) -> list[PoolColumns]:
    """Append the rows of all pools of levels; return what takes of each."""
    found = []
    for pool, left in zip(m.problem.pools, m.placement.pools.left, strict=True):
        taking = _taking(m, pool)
        parts, row = np.unique(taking.domain, return_inverse=True)
        rows = m.model.rows("pool", len(parts), upper=left[parts])
        m.model.add(rows[row], taking.columns, taking.amount.astype(np.float64))
        found.append(taking)
    return found


def _taking(m: HostModel, pool: Pool) -> PoolColumns:
    """Append which domains jobs of several tasks use; return all that takes of a pool."""
    x, stays = pool.demand[m.x_shape], pool.demand[m.stay_shape]
    x_domain, stay_domain = pool.domain[m.hosts[m.x_host]], pool.domain[m.hosts[m.stays.host]]
    columns = [m.x[x > 0], m.stays.s[stays > 0]]
    domains = [x_domain[x > 0], stay_domain[stays > 0]]
    amounts = [x[x > 0], stays[stays > 0]]
    for e, entry in enumerate(m.entries):
        choice = m.choice(entry)
        amount = pool.used_by(choice.uses) if choice.num_tasks > 1 else 0
        if amount:
            parts, use = _use(m, e, choice.num_tasks, pool.domain)
            columns.append(use)
            domains.append(parts)
            amounts.append(np.full(len(use), amount))
    return PoolColumns(
        *(np.concatenate(part).astype(np.int64) for part in (columns, domains, amounts))
    )


def _use(m: HostModel, entry: int, tasks: int, domain: Ints) -> tuple[Ints, Ints]:
    """Append whether a job of several tasks uses each domain; return the domains and columns."""
    sets = [t for t, one in enumerate(m.task_sets) if one.users[0][0] == entry]
    x, stays = np.flatnonzero(np.isin(m.x_set, sets)), np.flatnonzero(np.isin(m.stays.set, sets))
    hosts = np.append(m.x_host[x], m.stays.host[stays])
    parts, row = np.unique(domain[m.hosts[hosts]], return_inverse=True)
    use = m.model.variables("use", len(parts), upper=1)
    rows = m.model.rows("in domain", len(parts), upper=0.0)
    m.model.add(rows[row], np.append(m.x[x], m.stays.s[stays]), 1.0)
    m.model.add(rows, use, -float(tasks))
    return parts.astype(np.int64), use
