"""Preemption rows: a job stops only for tasks of strictly higher precedence on its hosts.

x[t,h] <= capacity y[v]                            tasks of rank at most v's level, h where v runs
1 - y[v] <= sum over those above it x[t,h]     something does arrive from another host

Tasks that have arrived in the placement already count, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.jobs import ANY_JOB


def add_preemption(m: HostModel) -> None:
    """Append the rows of every running job of the model."""
    rank = m.problem.shape_rank[m.x_shape]
    away_rank = m.problem.shape_rank[m.set_shape[m.away_set]]
    at_home = _at_home(m)
    for e, entry in enumerate(m.entries):
        if entry.job == ANY_JOB:
            continue
        level = m.problem.running[entry.job].level
        places = m.stays.host[m.stays.entry == e]
        arrived = m.placement.arrivals[m.hosts[places]].sum(axis=0)
        if arrived[: level + 1].any():
            m.model.add(m.model.rows("no profit", 1, lower=1.0), m.y[[e]], 1.0)
            continue
        there = np.isin(m.x_host, places)
        below = np.flatnonzero(there & (rank <= level))
        rows = m.model.rows("no profit", len(below), upper=0.0)
        m.model.add(rows, m.x[below], 1.0)
        m.model.add(rows, m.y[[e] * len(below)], -m.capacity[m.x_set[below], m.x_host[below]])
        if arrived.any():
            continue
        above = np.flatnonzero(there & (rank > level) & ~at_home)
        row = m.model.rows("victim", 1, lower=1.0)
        m.model.add(row, m.y[[e]], 1.0)
        m.model.add(row[[0] * len(above)], m.x[above], 1.0)
        movers = np.flatnonzero(away_rank > level)
        m.model.add(row[[0] * len(movers)], m.away[movers], 1.0)


def _at_home(m: HostModel) -> NDArray[np.bool_]:
    """Return for each x whether a task of its set runs on its host already, bool (x,)."""
    homes = set(zip(m.stays.set.tolist(), m.stays.host.tolist(), strict=True))
    pairs = zip(m.x_set.tolist(), m.x_host.tolist(), strict=True)
    return np.array([pair in homes for pair in pairs], dtype=np.bool_)
