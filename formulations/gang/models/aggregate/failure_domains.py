"""Rows of the aggregate model for failure domains: what is left outside the fullest of them.

A gang of n tasks, at most q of them in one domain, has at least n - k q tasks outside any k
domains. So, for the k domains that hold most,

    sum over jobs of max(0, n - k q) * what a task takes * y  <=  what all other domains hold

whatever jobs there are. For gangs of one kind the least of these rows over k is exact, and taking
the tasks of each gang from the fullest domains reaches it (placement/gang_tree.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.problem.jobs import DomainLimit, Group
from placewright.topology.units import WHOLE_GPU


def add_failure_domains(m: AggregateModel, capacity: Ints, whole: Ints) -> None:
    """Append the rows of pending jobs whose groups have a domain limit.

    Parameters
    ----------
    capacity : int64 (shapes, hosts)
        How many tasks fit each cleared host.
    whole : int64 (hosts,)
        Free whole GPUs of each cleared host.
    """
    problem, options = m.problem, m.problem.options
    limits = [_limit(group, len(problem.cluster.levels) - 1) for group in options.groups]
    level_of = np.array([-1 if limit is None else limit.level for limit in limits], dtype=np.int64)
    most_of = np.array(
        [0 if limit is None else limit.max_tasks for limit in limits], dtype=np.int64
    )
    # Running jobs may stay where they are.
    pending = np.flatnonzero(problem.num_pending[m.y_class])
    which, group = options.groups_of(m.y_option[pending])
    for level in np.unique(level_of[level_of >= 0]).tolist():
        mine = np.flatnonzero(level_of[group] == level)
        column, of = m.y[pending[which[mine]]], group[mine]
        count, most = options.group_count[of], most_of[of]
        domain = problem.cluster.domain[level]
        number = len(problem.cluster.names[level])
        for takes, holds in _measures(m, options.group_shape[of], capacity, whole):
            total = np.zeros(number, dtype=np.int64)
            np.add.at(total, domain, holds)
            outside = np.concatenate([[0], np.cumsum(np.sort(total))])[::-1]
            for k in _tightest(outside, count[takes > 0], most[takes > 0]):
                coefficient = np.maximum(count - k * most, 0) * takes
                some = np.flatnonzero(coefficient)
                row = m.model.rows("failure domains", 1, upper=float(outside[k]))
                m.model.add(
                    row[np.zeros(len(some), dtype=np.int64)], column[some], coefficient[some]
                )


def _limit(group: Group, host_level: int) -> DomainLimit | None:
    """Return the domain limit of a group: on several hosts one does not hold all its tasks."""
    number = group.num_hosts
    if group.domain_limit is not None or number is None or number.least == 1:
        return group.domain_limit
    return DomainLimit(host_level, group.count - number.least + 1)


def _measures(
    m: AggregateModel, shape: Ints, capacity: Ints, whole: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Yield what a task of each entry takes, and what each host holds, in units of their own.

    Tasks of one shape; of several shapes whole GPUs, in tasks of each size, and other resources.
    """
    shapes = np.unique(shape)
    for s in shapes.tolist():
        yield (shape == s).astype(np.int64), capacity[s]
    if len(shapes) == 1:
        return
    usable = (capacity[shapes] > 0).any(axis=0)
    gpus = m.problem.shape_gpu[shape] // WHOLE_GPU
    for size in np.unique(gpus[gpus > 0]).tolist():
        yield gpus // size, np.where(usable, whole // size, 0)
    free = m.problem.within_asked(m.problem.cleared.free)
    for r in np.flatnonzero(m.problem.limited).tolist():
        demand = m.problem.shape_demand[shape, r]
        if demand.any():
            yield demand, np.where(usable, free[:, r], 0)


def _tightest(outside: Ints, count: Ints, most: Ints) -> list[int]:
    """Return, for each kind of gang, how many domains to leave out for the least gangs of it."""
    found: set[int] = set()
    for n, q in np.unique(np.column_stack([count, most]), axis=0).tolist():
        k = np.arange(min(-(-n // q), len(outside)))
        found.add(int((outside[k] / (n - k * q)).argmin()))
    return sorted(found)
