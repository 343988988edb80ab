"""Rows of the aggregate model for gangs on few hosts: some of these have to hold many tasks.

Of n tasks on at most k hosts, none of which holds more than c of them, a hosts or more hold t or
more each, a (c - t + 1) >= n - k (t - 1). So, for each number w of GPUs and t the tasks that take w
or more,

    sum over jobs of a y  <=  sum over hosts of floor(free whole GPUs / w)

What else is asked of numbers of hosts is left out, but for gangs that fit no domain (gangs.py) and
`least` hosts as a domain limit (failure_domains.py).
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.topology.units import WHOLE_GPU


def add_wide_hosts(m: AggregateModel, capacity: Ints, whole: Ints) -> None:
    """Append the rows of pending jobs whose groups are on few hosts.

    `capacity` and `whole` are as in `build_aggregate_model`.
    """
    options = m.problem.options
    # Running jobs may stay where they are.
    pending = np.flatnonzero(m.problem.num_pending[m.y_class])
    which, group = options.groups_of(m.y_option[pending])
    gpus = m.problem.shape_gpu[options.group_shape[group]] // WHOLE_GPU
    ranges = [options.groups[g].num_hosts for g in group.tolist()]
    asked = np.array([one is not None for one in ranges], dtype=np.bool_)
    some = np.flatnonzero(asked & (gpus > 0))
    if not len(some):
        return
    shape, each = options.group_shape[group[some]], gpus[some]
    most = np.array([0 if r is None else r.most for r in ranges], dtype=np.int64)[some]
    least = np.array([0 if r is None else r.least for r in ranges], dtype=np.int64)[some]
    count = options.group_count[group[some]]
    largest = np.minimum(capacity[shape].max(axis=1, initial=0), count - least + 1)
    free = whole[(capacity[np.unique(shape)] > 0).any(axis=0)]
    for width in range(2, int(free.max(initial=0)) + 1):
        tasks = -(-width // each)
        rest = count - most * (tasks - 1)
        number = np.where(
            (rest > 0) & (largest >= tasks), -(-rest // np.maximum(largest - tasks + 1, 1)), 0
        )
        used = np.flatnonzero(number)
        if len(used):
            row = m.model.rows("wide hosts", 1, upper=float((free // width).sum()))
            columns = m.y[pending[which[some[used]]]]
            m.model.add(row[np.zeros(len(used), dtype=np.int64)], columns, number[used])
