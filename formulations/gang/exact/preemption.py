r"""Who may be preempted: only for tasks of strictly higher priority, on the victim's hosts.

x[t,h] <= room y[v]                            tasks of rank at most v's level, h where v runs
1 - y[v] <= sum over those above it x[t,h]     something does arrive
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.exact.model import Exact
from placewright.formulations.gang.problem import ANY


def add_preemption(m: Exact) -> None:
    """Append the rows of every running job of the model."""
    rank = m.problem.shape_rank[m.x_shape]
    for e, entry in enumerate(m.entries):
        if entry.job == ANY:
            continue
        level = m.problem.running[entry.job].level
        there = np.isin(m.x_host, m.stays.host[m.stays.entry == e])
        below = np.flatnonzero(there & (rank <= level))
        rows = m.model.rows("no profit", len(below), upper=0.0)
        m.model.add(rows, m.x[below], 1.0)
        m.model.add(rows, m.y[[e] * len(below)], -m.room[m.x_set[below], m.x_host[below]])
        above = np.flatnonzero(there & (rank > level))
        row = m.model.rows("victim", 1, lower=1.0)
        m.model.add(row, m.y[[e]], 1.0)
        m.model.add(row[[0] * len(above)], m.x[above], 1.0)
