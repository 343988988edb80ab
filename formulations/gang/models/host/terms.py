r"""The objective terms of the host-indexed model, and the blocks that give them meaning.

y - k is 1 for a job that starts or migrates; for a kept job nothing below counts.

z[t,d]         set t uses domain d              tasks of t in d - n k <= min(n, capacity) z[t,d]
               a required level                 sum_d z[t,d] <= y - k
opened[h], used[h]  a task arrives on host h    x[t,h] <= capacity u[h],  sum gpu x <= free u[h]
left[h]        milli-GPU left free on h         left[h] >= free[h] used[h] - what h holds
together[d,k]  k tasks of a job share d         sum_k k together[d,k] <= tasks of the job in d

value      sum of the values of jobs that run, less those of all running jobs; so progress, entitled
spread     sum over sets and charged levels of GPUs * weight * (sum_d z - y + k)
opened     sum of opened[h] over empty hosts
leftover   sum_h left[h]
proximity  per level, pairs of a job's tasks less pairs that share a domain
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.collectives import add_bottleneck
from placewright.formulations.gang.models.host.contention import add_contention
from placewright.formulations.gang.models.host.domain_rows import arrival_of
from placewright.formulations.gang.models.host.entries import TaskSet
from placewright.formulations.gang.models.host.model import NONE, HostModel, milli_each
from placewright.formulations.gang.models.host.move_terms import add_move_terms
from placewright.formulations.gang.models.host.topology import add_topology_rows
from placewright.formulations.gang.models.tenant_share_rows import add_share_terms
from placewright.formulations.gang.problem.jobs import ANY_JOB, NO_LEVEL, Group
from placewright.formulations.gang.problem.terms import (
    BOTTLENECK,
    CONTENTION,
    OPTION_SUMS,
    VALUE,
)


def add_terms(m: HostModel) -> None:
    """Append what the policy's terms need, and the levels that options require."""
    add_value(m)
    for term in m.problem.terms:
        if term in OPTION_SUMS and term != VALUE:
            _add_worth(m, term, [m.choice(entry).amount(term) for entry in m.entries])
    add_share_terms(m.model, m.problem, *m.y_columns, m.problem.shares)
    add_move_terms(m)
    add_topology_rows(m)
    m.model.term("spread", m.y[:0], np.zeros(0), sense="min")
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None and task_set.group.depends_on_levels:
            _levels(m, t, task_set, task_set.group)
    if "opened" in m.problem.terms:
        _opened(m)
    if "leftover" in m.problem.terms:
        _leftover(m)
    if "proximity" in m.problem.terms:
        _proximity(m)
    if BOTTLENECK in m.problem.terms:
        add_bottleneck(m)
    if CONTENTION in m.problem.terms:
        add_contention(m)


def add_value(m: HostModel) -> None:
    """Append the values of the jobs that run, less those of the running jobs of the model."""
    _add_worth(m, VALUE, [m.choice(entry).value for entry in m.entries])


def _add_worth(m: HostModel, term: str, each: list[int]) -> None:
    """Append a term: the worth of each entry that runs, less that of all running jobs."""
    worth = np.array(each, dtype=np.float64)
    before = worth[[entry.job != ANY_JOB for entry in m.entries]].sum()
    m.model.term(term, m.y, worth, sense="max", constant=-float(before))


def _levels(m: HostModel, t: int, task_set: TaskSet, group: Group) -> None:
    """Append the domains that a set uses: one of a required level, others at spread cost."""
    entry = task_set.users[0][0]
    mine, stays = np.flatnonzero(m.x_set == t), np.flatnonzero(m.stays.set == t)
    hosts = np.append(m.x_host[mine], m.stays.host[stays])
    columns = np.append(m.x[mine], m.stays.s[stays])
    most = np.append(m.capacity[t, m.x_host[mine]], np.ones(len(stays), dtype=np.int64))
    weights = dict(group.weights)
    for level in sorted(set(weights) | ({group.required} - {NO_LEVEL})):
        domain = m.problem.cluster.domain[level][m.hosts[hosts]]
        parts, part_of = np.unique(domain, return_inverse=True)
        held = np.bincount(part_of, weights=most, minlength=len(parts))
        z = m.model.variables("z", len(parts), upper=1)
        rows = m.model.rows("domain", len(parts), upper=0.0)
        m.model.add(rows[part_of], columns, 1.0)
        m.model.add(rows, z, -np.minimum(held, group.count))
        before = np.bincount(part_of[len(mine) :], minlength=len(parts))
        kept = np.flatnonzero(before)
        m.model.add(rows[kept], m.kept[[entry] * len(kept)], -before[kept])
        if level == group.required:
            row = m.model.rows("required level", 1, upper=0.0)
            m.model.add(row, z, 1.0)
            for column, sign in arrival_of(m, entry):
                m.model.add(row, [column], [-sign])
        if level in weights:
            cost = float(group.milli_gpu * weights[level])
            m.model.term("spread", z, cost, sense="min")
            for column, sign in arrival_of(m, entry):
                m.model.term("spread", [column], [-cost * sign], sense="min")


def _opened(m: HostModel) -> None:
    """Append the empty hosts where something arrives; hosts the placement uses are not empty."""
    busy = m.problem.state.busy | m.placement.arrivals.any(axis=1)
    columns = _host_uses(m, "opened", np.flatnonzero(~busy[m.hosts]))
    m.model.term("opened", columns, 1.0, sense="min")


def _leftover(m: HostModel) -> None:
    """Append the milli-GPU left free on the hosts where something arrives."""
    used = _host_uses(m, "used", np.arange(len(m.hosts)))
    free = _free_milli(m) + m.problem.reserved_free[m.hosts]
    left = m.model.variables("left", len(m.hosts), upper=free)
    rows = m.model.rows("left", len(m.hosts), upper=0.0)
    m.model.add(rows, used, free)
    m.model.add(rows, left, -1.0)
    m.model.add(rows[m.x_host], m.x, -m.problem.shape_gpu[m.x_shape])
    m.model.add(rows[m.stays.host], m.stays.s, -milli_each(m))
    m.model.term("leftover", left, 1.0, sense="min")


def _host_uses(m: HostModel, name: str, chosen: Ints) -> Ints:
    """Append 0/1 variables of chosen hosts that are 1 where a task arrives.

    The row on GPUs is implied for whole numbers; it makes the relaxation as strong as capacity.
    """
    columns = m.model.variables(name, len(chosen), upper=1)
    column_of = np.full(len(m.hosts), -1, dtype=np.int64)
    column_of[chosen] = columns
    mine = np.flatnonzero(column_of[m.x_host] >= 0)
    rows = m.model.rows(name, len(mine), upper=0.0)
    m.model.add(rows, m.x[mine], 1.0)
    m.model.add(rows, column_of[m.x_host[mine]], -m.capacity[m.x_set[mine], m.x_host[mine]])
    rows = m.model.rows(name, len(chosen), upper=0.0)
    row_of = np.full(len(m.hosts), -1, dtype=np.int64)
    row_of[chosen] = rows
    m.model.add(row_of[m.x_host[mine]], m.x[mine], m.problem.shape_gpu[m.x_shape[mine]])
    m.model.add(rows, columns, -_free_milli(m)[chosen])
    return columns


def _free_milli(m: HostModel) -> Ints:
    free: Ints = m.placement.free_milli_gpu[m.hosts]
    return free


def _proximity(m: HostModel) -> None:
    """Append the pairs of a job's tasks in different domains, summed over the levels.

    From n (n - 1) / 2 pairs those that share a domain are subtracted: together[d,k] = 1 claims k
    tasks in d, that is k (k - 1) / 2 pairs. One claim of all tasks in d is worth more than several
    of some.
    """
    m.model.term("proximity", m.y[:0], np.zeros(0), sense="min")
    sets_of: dict[int, list[int]] = {}
    for t, task_set in enumerate(m.task_sets):
        if task_set.group is not None:
            sets_of.setdefault(task_set.users[0][0], []).append(t)
    for entry, mine in sets_of.items():
        tasks = sum(n for t in mine for _, _, n in m.task_sets[t].users)
        pairs = float(tasks * (tasks - 1) // 2 * len(m.problem.cluster.levels))
        for column, sign in arrival_of(m, entry):
            m.model.term("proximity", [column], [pairs * sign], sense="min")
        at, stays = np.flatnonzero(np.isin(m.x_set, mine)), np.flatnonzero(m.stays.entry == entry)
        columns = np.append(m.x[at], m.stays.s[stays])
        hosts = np.append(m.x_host[at], m.stays.host[stays])
        most = np.append(m.capacity[m.x_set[at], m.x_host[at]], np.ones(len(stays), dtype=np.int64))
        for domain in m.problem.cluster.domain:
            _together(m, entry, columns, domain[m.hosts[hosts]], most, tasks)


def _together(
    m: HostModel, entry: int, columns: Ints, domain: np.ndarray, most: Ints, tasks: int
) -> None:
    """Append the claims of one job's tasks (a column each) in the domains of one level."""
    parts, part_of = np.unique(domain, return_inverse=True)
    held = np.bincount(part_of, weights=most, minlength=len(parts))
    claims = [(d, k) for d, h in enumerate(held) for k in range(2, min(int(h), tasks) + 1)]
    d, k = np.array(claims, dtype=np.int64).reshape(-1, 2).T
    together = m.model.variables("together", len(k), upper=1)
    rows = m.model.rows("count", len(parts), upper=0.0)
    m.model.add(rows[d], together, k)
    m.model.add(rows[part_of], columns, -1.0)
    if m.kept[entry] != NONE:
        # A kept job's pairs do not count: no claim on them.
        row = m.model.rows("count", 1, upper=0.0)
        m.model.add(row[[0] * len(k)], together, k)
        for column, sign in arrival_of(m, entry):
            m.model.add(row, [column], [-tasks * sign])
    m.model.term("proximity", together, -(k * (k - 1) // 2), sense="min")
