r"""The objective terms of the host-indexed model, and the blocks that give them meaning.

z[t,d]         set t uses domain d              sum_{h in d} x[t,h] <= min(n, room) z[t,d]
               a required level                 sum_d z[t,d] <= y
opened[h], used[h]  host h takes a task         x[t,h] <= room u[h],  sum gpu x <= free u[h]
together[d,k]  k tasks of a job share d         sum_k k together[d,k] <= tasks of the job in d

value      sum of the started options' values
spread     sum over sets and charged levels of GPUs * weight * (sum_d z - y)
opened     sum of opened[h] over empty hosts
leftover   sum_h free[h] used[h]  less the GPUs taken
proximity  per level, pairs of a job's tasks less pairs that share a domain
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.gang.exact.entries import Ints, TaskSet
from placewright.formulations.gang.exact.model import Exact
from placewright.formulations.gang.problem import NO_LEVEL, Group
from placewright.instances.documents import WHOLE_GPU


def add_terms(m: Exact) -> None:
    """Append what the policy's terms need, and the required levels."""
    add_value(m)
    m.model.term("spread", m.y[:0], np.zeros(0), sense="min")
    for t, task_set in enumerate(m.sets):
        if task_set.group is not None and task_set.group.bound_to_levels:
            _levels(m, t, task_set, task_set.group)
    if "opened" in m.problem.terms:
        _opened(m)
    if "leftover" in m.problem.terms:
        _leftover(m)
    if "proximity" in m.problem.terms:
        _proximity(m)


def add_value(m: Exact) -> None:
    """Append the values of the started options."""
    values = [m.choice(entry).value for entry in m.entries]
    m.model.term("value", m.y, np.array(values, dtype=np.float64), sense="max")


def _levels(m: Exact, t: int, task_set: TaskSet, group: Group) -> None:
    """Domains that a set uses: at most one of a required level, others at the cost of spread."""
    y = m.y[task_set.users[0][0]]
    mine = np.flatnonzero(m.x_set == t)
    weights = dict(group.weights)
    for level in sorted(set(weights) | ({group.required} - {NO_LEVEL})):
        domain = m.problem.cluster.domain[level][m.hosts[m.x_host[mine]]]
        parts, part_of = np.unique(domain, return_inverse=True)
        held = np.bincount(part_of, weights=m.room[t, m.x_host[mine]], minlength=len(parts))
        z = m.model.variables("z", len(parts), upper=1)
        rows = m.model.rows("domain", len(parts), upper=0.0)
        m.model.add(rows[part_of], m.x[mine], 1.0)
        m.model.add(rows, z, -np.minimum(held, group.count))
        if level == group.required:
            row = m.model.rows("required level", 1, upper=0.0)
            m.model.add(row, z, 1.0)
            m.model.add(row, y, -1.0)
        if level in weights:
            cost = float(group.milli_gpu * weights[level])
            m.model.term("spread", z, cost, sense="min")
            m.model.term("spread", [y], [-cost], sense="min")


def _opened(m: Exact) -> None:
    """Empty hosts that become used; what the placement has started counts as use."""
    busy = m.problem.state.busy.copy()
    for _, _, _, puts in m.placement.started():
        busy[[put.host for put in puts]] = True
    columns = _host_uses(m, "opened", np.flatnonzero(~busy[m.hosts]))
    m.model.term("opened", columns, 1.0, sense="min")


def _leftover(m: Exact) -> None:
    """Milli-GPU left free on the hosts that take a task."""
    columns = _host_uses(m, "used", np.arange(len(m.hosts)))
    m.model.term("leftover", columns, _free_milli(m), sense="min")
    m.model.term("leftover", m.x, -m.problem.shape_gpu[m.x_shape], sense="min")


def _host_uses(m: Exact, name: str, chosen: Ints) -> Ints:
    """Append 0/1 variables of chosen hosts that are 1 where a task is.

    The row on GPUs is implied for integers and makes the relaxation as strong as capacity.
    """
    columns = m.model.variables(name, len(chosen), upper=1)
    column_of = np.full(len(m.hosts), -1, dtype=np.int64)
    column_of[chosen] = columns
    mine = np.flatnonzero(column_of[m.x_host] >= 0)
    rows = m.model.rows(name, len(mine), upper=0.0)
    m.model.add(rows, m.x[mine], 1.0)
    m.model.add(rows, column_of[m.x_host[mine]], -m.room[m.x_set[mine], m.x_host[mine]])
    rows = m.model.rows(name, len(chosen), upper=0.0)
    row_of = np.full(len(m.hosts), -1, dtype=np.int64)
    row_of[chosen] = rows
    m.model.add(row_of[m.x_host[mine]], m.x[mine], m.problem.shape_gpu[m.x_shape[mine]])
    m.model.add(rows, columns, -_free_milli(m)[chosen])
    return columns


def _free_milli(m: Exact) -> Ints:
    whole, partial = m.placement.whole[m.hosts], m.placement.partial[m.hosts]
    free: Ints = whole * WHOLE_GPU + partial.sum(axis=1)
    return free


def _proximity(m: Exact) -> None:
    """Pairs of a job's tasks that are apart, summed over the levels.

    Of n (n - 1) / 2 pairs those that share a domain are taken off: together[d,k] = 1 claims k tasks
    in d, worth k (k - 1) / 2 pairs. One claim of all tasks in d is worth more than several of some.
    """
    m.model.term("proximity", m.y[:0], np.zeros(0), sense="min")
    sets_of: dict[int, list[int]] = {}
    for t, task_set in enumerate(m.sets):
        if task_set.group is not None:
            sets_of.setdefault(task_set.users[0][0], []).append(t)
    for entry, mine in sets_of.items():
        tasks = sum(n for t in mine for _, _, n in m.sets[t].users)
        apart = float(tasks * (tasks - 1) // 2 * len(m.problem.cluster.levels))
        m.model.term("proximity", [m.y[entry]], [apart], sense="min")
        at = np.flatnonzero(np.isin(m.x_set, mine))
        for domain in m.problem.cluster.domain:
            _together(m, at, domain, tasks)


def _together(m: Exact, at: Ints, domain: np.ndarray, tasks: int) -> None:
    """Claims of one job's x variables `at` in the domains of one level."""
    parts, part_of = np.unique(domain[m.hosts[m.x_host[at]]], return_inverse=True)
    held = np.bincount(part_of, weights=m.room[m.x_set[at], m.x_host[at]], minlength=len(parts))
    claims = [(d, k) for d, h in enumerate(held) for k in range(2, min(int(h), tasks) + 1)]
    d, k = np.array(claims, dtype=np.int64).reshape(-1, 2).T
    together = m.model.variables("together", len(k), upper=1)
    rows = m.model.rows("count", len(parts), upper=0.0)
    m.model.add(rows[d], together, k)
    m.model.add(rows[part_of], m.x[at], -1.0)
    m.model.term("proximity", together, -(k * (k - 1) // 2), sense="min")
