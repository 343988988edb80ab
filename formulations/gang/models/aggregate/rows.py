"""Rows of the aggregate model that sum over a host class: `capacity`, `gpus`, `floor`, `share`.

Hosts in use have their free amounts together; empty hosts add what each has when they are opened.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.topology.units import WHOLE_GPU


def add_class_sums(m: AggregateModel) -> None:
    """Append the rows, and record their indices in `m`."""
    _capacity(m)
    _gpus(m)
    _floor(m)
    _shares(m)


def _per_class(m: AggregateModel, name: str, coefficient: Ints, total: Ints, each: Ints) -> Ints:
    """Append rows  sum coefficient x <= total  per class; <= each * opened for empty hosts.

    `coefficient` is per x, `total` and `each` (largest amount of one host) per class. Returns the
    row of each class to which further columns may be added, -1 for classes without one.
    """
    used = np.zeros(len(m.host_classes), dtype=np.bool_)
    used[m.x_class[coefficient > 0]] = True
    row_of = np.full(len(m.host_classes), -1, dtype=np.int64)
    entries = np.flatnonzero(coefficient)
    by_host = used & m.host_classes.idle
    # Hosts of one class may differ in what the key leaves out: then the sum is a row of its own.
    by_sum = used & ~(by_host & (each * m.host_classes.size <= total))
    for chosen, upper in ((by_sum, total), (by_host, np.zeros_like(total))):
        index = np.flatnonzero(chosen)
        row_of[index] = m.model.rows(name, len(index), upper=upper[index], keys=index.tolist())
        mine = entries[chosen[m.x_class[entries]]]
        m.model.add(row_of[m.x_class[mine]], m.x[mine], coefficient[mine])
        if chosen is by_host:
            m.model.add(row_of[index], m.opened[index], -each[index])
    return row_of


def _capacity(m: AggregateModel) -> None:
    for r in np.flatnonzero(m.problem.limited).tolist():
        demand = m.problem.shape_demand[m.x_shape, r]
        _per_class(m, "capacity", demand, m.host_classes.free[:, r], m.host_classes.most_free[:, r])


def _gpus(m: AggregateModel) -> None:
    whole = m.problem.shape_gpu[m.x_shape] // WHOLE_GPU
    # A class that takes shares needs the row too, for the GPUs that patterns cut.
    row_of = _per_class(
        m, "gpus", whole, m.host_classes.whole * m.host_classes.size, m.host_classes.whole
    )
    missing = np.flatnonzero((row_of < 0) & (m.host_classes.whole > 0))
    idle = m.host_classes.idle[missing]
    upper = np.where(idle, 0, (m.host_classes.whole * m.host_classes.size)[missing])
    row_of[missing] = m.model.rows("gpus", len(missing), upper=upper, keys=missing.tolist())
    opened = missing[idle]
    m.model.add(row_of[opened], m.opened[opened], -m.host_classes.whole[opened])
    m.gpu_row[:] = row_of


def _floor(m: AggregateModel) -> None:
    whole = m.problem.shape_gpu[m.x_shape] // WHOLE_GPU
    t = 2
    while t <= whole.max(initial=0):
        each = m.host_classes.whole // t
        _per_class(m, "floor", whole // t, each * m.host_classes.size, each)
        t *= 2


def _shares(m: AggregateModel) -> None:
    """Append rows: tasks of a part <= places in patterns (gpu_columns.py adds those)."""
    part = m.part_of(m.x_shape, m.x_class)
    for f in range(len(m.parts)):
        mine = np.flatnonzero(part == f)
        index = np.unique(m.x_class[mine])
        m.share_row[f, index] = m.model.rows("share", len(index), upper=0.0)
        m.model.add(m.share_row[f, m.x_class[mine]], m.x[mine], 1.0)
