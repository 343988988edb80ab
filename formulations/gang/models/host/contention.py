"""The term `contention`: load of links beyond their bandwidth, less that of the kept jobs alone.

    cross[t,d]    set t has a task in domain d and one outside    tasks of t in d <= n (cross + all)
    all[t,d]      all n tasks of t are in d                       n all <= tasks of t in d
    over[d]       >= pinned + sum of kept rates + sum_t rate[t] cross[t,d] - bandwidth
    before[d]     max(0, pinned + sum of kept rates - bandwidth)
    contention    sum_d over[d] - before[d]

"Tasks of t in d" are those of jobs that start or migrate. `before` counts in the wrong direction
for a minimum. So where kept jobs may exceed the bandwidth, but pinned ones alone do not, a 0/1
variable says whether they do.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from placewright.formulations.gang.models.host.domain_rows import add_domain_rows
from placewright.formulations.gang.models.host.entries import TaskSet
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.problem.jobs import ANY_JOB, Group
from placewright.formulations.gang.problem.terms import CONTENTION
from placewright.formulations.gang.problem.uplinks import pinned_loads, rates_in_place
from placewright.topology.uplinks import Uplinks, uplinks_of


def add_contention(m: HostModel) -> None:
    """Append the term, its variables and rows.

    The model has all jobs of the round, and their hosts.
    """
    m.model.term(CONTENTION, m.y[:0], np.zeros(0), sense="min")
    links = uplinks_of(m.problem.cluster)
    for one, pinned in zip(links, pinned_loads(m.problem, links), strict=True):
        kept = _kept_rates(m, one)
        crossing: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for t, task_set in enumerate(m.task_sets):
            group = task_set.group
            if group is not None and group.rate_mbps and group.required < one.level:
                for d, column in _crossing(m, one, t, task_set, group):
                    crossing[d].append((column, group.rate_mbps))
        for d, columns in crossing.items():
            _over(m, one.mbps - int(pinned[d]), columns, kept[d])


def _kept_rates(m: HostModel, one: Uplinks) -> dict[int, list[tuple[int, int]]]:
    """Return by domain (column of `kept`, rate) of the running jobs that cross its link."""
    rates: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for e, entry in enumerate(m.entries):
        if entry.job != ANY_JOB:
            for rate, hosts in rates_in_place(m.problem, entry.job):
                for d in one.crossed_from(hosts).tolist():
                    rates[d].append((int(m.kept[e]), rate))
    return rates


def _crossing(
    m: HostModel, one: Uplinks, t: int, task_set: TaskSet, group: Group
) -> list[tuple[int, int]]:
    """Append whether a set crosses the link of each domain; return (domain, column) pairs."""
    entry = task_set.users[0][0]
    at = np.append(m.x_host[m.x_set == t], m.stays.host[m.stays.set == t])
    if len(np.unique(one.domain[m.hosts[at]])) < 2:
        return []
    found = add_domain_rows(m, entry, [t], one.domain)
    count = float(group.count)
    cross = m.model.variables("cross", len(found.parts), upper=1)
    m.model.add(found.rows, cross, -np.minimum(found.most, group.count).astype(np.float64))
    holds_all = found.most >= group.count
    if holds_all.any():
        full = m.model.variables("all", int(holds_all.sum()), upper=1)
        m.model.add(found.rows[holds_all], full, -count)
        whole = add_domain_rows(m, entry, [t], one.domain, lower=0.0, upper=np.inf)
        m.model.add(whole.rows[holds_all], full, -count)
    counts = one.exists[found.parts]
    return list(zip(found.parts[counts].tolist(), cross[counts].tolist(), strict=True))


def _over(
    m: HostModel, room: int, crossing: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    """Append the load of a link beyond `room`, what pinned jobs leave of its bandwidth."""
    columns, rates = np.array([*crossing, *kept], dtype=np.int64).T
    # A whole number: backends that take integers alone may solve the model.
    over = m.model.variables("over", 1, upper=float(max(int(rates.sum()) - room, 0)))
    row = m.model.rows("link", 1, upper=float(room))
    m.model.add(row[[0] * len(columns)], columns, rates.astype(np.float64))
    m.model.add(row, over, -1.0)
    # What pinned jobs alone exceed counts on neither side.
    m.model.term(CONTENTION, over, 1.0, sense="min", constant=float(min(room, 0)))
    most = sum(rate for _, rate in kept)
    if most <= room or not kept:
        return
    held, each = np.array(kept, dtype=np.int64).T
    if room <= 0:
        m.model.term(CONTENTION, held, -each.astype(np.float64), sense="min")
        return
    before = m.model.variables("over before", 1, upper=float(most - room))
    exceeds = m.model.variables("exceeds", 1, upper=1)
    rows = m.model.rows("over before", 2, upper=0.0)
    m.model.add(rows[0], before, 1.0)
    m.model.add(rows[0], exceeds, -float(most - room))
    m.model.add(rows[1], before, 1.0)
    m.model.add(rows[[1] * len(held)], held, -each.astype(np.float64))
    m.model.add(rows[1], exceeds, float(room))
    m.model.term(CONTENTION, before, -1.0, sense="min")
