"""Topology rows: slices of tasks, failure domains, hosts, joint levels, anti-affinity.

"Tasks in d" are those of a set that arrive or stay in domain d, less those of a kept job.

slices   tasks of t in d  =  size m[t,d]                          d of the slices' level
         s[p] - k <= g[i,d]        p of slice i in d;             sum_d g[i,d] <= 1
         sum_i g[i,d] <= m[t,d]    the index of tasks that stay is fixed, that of others is free
apart    tasks of t in d  <=  most                                d of the level
hosts    used[t,h] <= tasks of t on h  <=  n used[t,h]
         least (y[j] - k[j])  <=  sum_h used[t,h]  <=  most (y[j] - k[j]);     or of all sets of j
joint    tasks of all sets of entry j in d  <=  most Z[j,d],      sum_d Z[j,d] <= y[j] - k[j]
labels   x[t,h] <= capacity Q[j,d]     h in d;    sum_j Q[j,d] <= 1,
         Q[j,d] + s[p] <= 1        p of another job in d
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.domain_rows import add_domain_rows, arrival_of
from placewright.formulations.gang.models.host.model import NONE, HostModel
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LABEL,
    NO_LEVEL,
    HostRange,
    TaskSlices,
)


def add_topology_rows(m: HostModel) -> None:
    """Append the rows of all entries with tied options."""
    sets_of: defaultdict[int, list[int]] = defaultdict(list)
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None:
            sets_of[task_set.users[0][0]].append(t)
    by_label: defaultdict[int, list[int]] = defaultdict(list)
    domain = m.problem.cluster.domain
    for e, entry in enumerate(m.entries):
        choice = m.choice(entry)
        if choice.label != NO_LABEL:
            by_label[choice.label].append(e)
        if choice.joint_level != NO_LEVEL:
            _joint(m, e, sets_of[e], choice.joint_level)
        if choice.num_hosts is not None:
            _num_hosts(m, e, sets_of[e], choice.num_hosts)
        for t in sets_of[e]:
            group = m.task_sets[t].group
            if group is not None and group.slices is not None:
                _slices(m, e, t, group.slices)
            if group is not None and group.domain_limit is not None:
                add_domain_rows(
                    m, e, [t], domain[group.domain_limit.level], upper=group.domain_limit.max_tasks
                )
            if group is not None and group.num_hosts is not None:
                _num_hosts(m, e, [t], group.num_hosts)
    for label, entries in by_label.items():
        _anti_affinity(m, label, entries, sets_of)


def _joint(m: HostModel, entry: int, sets: list[int], level: int) -> None:
    """All tasks of a job in one domain."""
    total = sum(n for t in sets for _, _, n in m.task_sets[t].users)
    found = add_domain_rows(m, entry, sets, m.problem.cluster.domain[level])
    chosen = m.model.variables("joint", len(found.parts), upper=1)
    m.model.add(found.rows, chosen, -float(total))
    row = m.model.rows("joint", 1, upper=0.0)
    m.model.add(row[[0] * len(chosen)], chosen, 1.0)
    for column, sign in arrival_of(m, entry):
        m.model.add(row, [column], [-sign])


def _num_hosts(m: HostModel, entry: int, sets: list[int], asked: HostRange) -> None:
    """All tasks of some sets of a job on so many hosts."""
    total = sum(n for t in sets for _, _, n in m.task_sets[t].users)
    hosts = m.problem.cluster.domain[-1]
    found = add_domain_rows(m, entry, sets, hosts)
    used = m.model.variables("hosts", len(found.parts), upper=1)
    m.model.add(found.rows, used, -np.minimum(found.most, total))
    if asked.least > 1:
        m.model.add(add_domain_rows(m, entry, sets, hosts, lower=0.0, upper=np.inf).rows, used, -1)
    for number, sign in ((asked.most, 1.0), (asked.least, -1.0)):
        row = m.model.rows("hosts", 1, upper=0.0)
        m.model.add(row[[0] * len(used)], used, sign)
        for column, arrives in arrival_of(m, entry):
            m.model.add(row, [column], [-sign * number * arrives])


def _slices(m: HostModel, entry: int, t: int, slices: TaskSlices) -> None:
    """Whole slices in each domain; the domains of slices with tasks that stay are fixed."""
    count = m.task_sets[t].users[0][2]
    domain = m.problem.cluster.domain[slices.level]
    found = add_domain_rows(m, entry, [t], domain, lower=0.0)
    number = m.model.variables("slices", len(found.parts), upper=count // slices.size)
    m.model.add(found.rows, number, -float(slices.size))
    job = m.entries[entry].job
    if job == ANY_JOB:
        return
    _, group, _ = m.task_sets[t].users[0]
    index = [i for g, i, _, _ in m.problem.running[job].places if g == group]
    stays = np.flatnonzero(m.stays.set == t)
    there = domain[m.hosts[m.stays.host[stays]]].tolist()
    pairs = list(zip((i // slices.size for i in index), there, strict=True))
    known = sorted(set(pairs))
    g = m.model.variables("staying slice", len(known), upper=1)
    of_pair = [known.index(pair) for pair in pairs]
    rows = m.model.rows("staying slice", len(stays), upper=0.0)
    m.model.add(rows, m.stays.s[stays], 1.0)
    m.model.add(rows, m.kept[[entry] * len(stays)], -1.0)
    m.model.add(rows, g[of_pair], -1.0)
    each, of_slice = np.unique([i for i, _ in known], return_inverse=True)
    m.model.add(m.model.rows("staying slice", len(each), upper=1.0)[of_slice], g, 1.0)
    rows = m.model.rows("staying slice", len(found.parts), upper=0.0)
    m.model.add(rows, number, -1.0)
    m.model.add(rows[np.searchsorted(found.parts, [d for _, d in known])], g, 1.0)


def _anti_affinity(
    m: HostModel, label: int, entries: list[int], sets_of: dict[int, list[int]]
) -> None:
    """No task of a job arrives in a domain where another job with its label has one."""
    level, homes = m.problem.labels[label].level, m.problem.labels[label].running_domains
    domain = m.problem.cluster.domain[level][m.hosts]
    mine = {m.entries[e].job for e in entries}
    fixed = {d for job, home in homes.items() if job not in mine for d in home}
    number = len(m.problem.cluster.names[level])
    one = m.model.rows("label", number, upper=np.array([d not in fixed for d in range(number)]))
    comes: dict[int, Ints] = {}
    for e in entries:
        at = np.flatnonzero(np.isin(m.x_set, sets_of[e]))
        parts, part_of = np.unique(domain[m.x_host[at]], return_inverse=True)
        q = m.model.variables("comes", len(parts), upper=1)
        rows = m.model.rows("comes", len(at), upper=0.0)
        m.model.add(rows, m.x[at], 1.0)
        m.model.add(rows, q[part_of], -m.capacity[m.x_set[at], m.x_host[at]].astype(np.float64))
        m.model.add(one[parts], q, 1.0)
        comes[e] = np.full(number, NONE, dtype=np.int64)
        comes[e][parts] = q
    for p in np.flatnonzero(np.isin(m.stays.entry, entries)).tolist():
        d = int(domain[m.stays.host[p]])
        others = [int(comes[e][d]) for e in entries if e != m.stays.entry[p]]
        others = [column for column in others if column != NONE]
        rows = m.model.rows("label", len(others), upper=1.0)
        m.model.add(rows, others, 1.0)
        m.model.add(rows, m.stays.s[[p] * len(others)], 1.0)
