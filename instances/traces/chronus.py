"""The traces of Chronus: minutes, and deadlines that count from submission, worth less one by one.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC 2021.
"""

from __future__ import annotations

import numpy as np

from placewright.instances.converters.support.csv_table import Table
from placewright.instances.converters.traces.chronus import MAX_MINUTES, due_minutes
from placewright.instances.traces.tables import MAX_GPUS, given_once, numbered
from placewright.instances.traces.trace import NEVER, SECOND, Trace

_COLUMNS = ("job_id", "num_gpu", "submit_time", "duration", "model_name")
_DEADLINES = ("expect_time_list", "expect_value_list", "best_effort")
_MINUTE_US = 60 * SECOND


def chronus_trace(table: Table) -> Trace:
    """Read job_id, user, num_gpu, submit_time, duration, model_name and the columns of deadlines.

    Of a job with several deadlines the first counts, with its value: until then it is worth most.
    Best-effort jobs have none. Users are tenants. Jobs that ask no GPU or run no time are left out.
    """
    table.require(*_COLUMNS, *_DEADLINES)
    gpus = table.integers("num_gpu", MAX_GPUS)
    submit = table.integers("submit_time", MAX_MINUTES)
    work = table.integers("duration", MAX_MINUTES)
    deadline, value = np.full(len(work), NEVER), np.zeros(len(work), dtype=np.int64)
    for row in np.flatnonzero(table.integers("best_effort", 1) == 0).tolist():
        after, value[row] = due_minutes(table, row)[0]
        deadline[row] = (submit[row] + after) * _MINUTE_US
    names = given_once(table, "job_id")
    models, model = numbered(table.columns["model_name"], len(work))
    tenants, tenant = numbered(table.columns.get("user"), len(work))
    rows = np.flatnonzero((gpus > 0) & (work > 0))
    return Trace.of(
        submit[rows] * _MINUTE_US,
        gpus[rows],
        work[rows] * _MINUTE_US,
        names=tuple(names[row] for row in rows.tolist()),
        deadline_us=deadline[rows],
        value=value[rows],
        tenant=tenant[rows],
        model=model[rows],
        tenants=tenants,
        models=models,
    )
