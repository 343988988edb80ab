"""Rows of the count model that sum over the hosts of a class: `capacity`, `gpus`, `floor`, `share`.

Hosts in use share what is free of them; empty ones bring what each has when they are opened.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.topology.units import WHOLE_GPU


def add_class_sums(m: AggregateModel) -> None:
    """Append the rows, and say in `m` which they are."""
    _capacity(m)
    _gpus(m)
    _floor(m)
    _shares(m)


def _per_class(m: AggregateModel, name: str, coefficient: Ints, total: Ints, each: Ints) -> Ints:
    """Rows sum coefficient x <= total per class; for empty hosts <= each * opened.

    `coefficient` is per entry of x, `total` and `each` (most of one host) per class. Returns the
    row of each class to which further columns may be charged, -1 for classes without one.
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
    for r in range(m.problem.shape_demand.shape[1]):
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
    """Rows that patterns.py fills: tasks of a part <= places that patterns offer."""
    part = m.part_of(m.x_shape, m.x_class)
    for f in range(len(m.parts)):
        mine = np.flatnonzero(part == f)
        index = np.unique(m.x_class[mine])
        m.share_row[f, index] = m.model.rows("share", len(index), upper=0.0)
        m.model.add(m.share_row[f, m.x_class[mine]], m.x[mine], 1.0)
