"""The openb trace of Alibaba: pods, some of which share a GPU, with times of Kubernetes.

References
----------
Weng et al., "Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient
descent", USENIX ATC 2023.
"""

from __future__ import annotations

import numpy as np

from placewright.instances.converters.support.csv_table import Table
from placewright.instances.converters.traces.openb import pod_gpus
from placewright.instances.traces.tables import MAX_S, MAX_WORK_S, given_once
from placewright.instances.traces.trace import SECOND, Trace

_BLANK = -1


def openb_trace(table: Table) -> Trace:
    """Read name, num_gpu, gpu_milli, creation_time, deletion_time and scheduled_time, in seconds.

    A pod runs from when it was scheduled until it was deleted. Those that ask no GPU, were never
    scheduled or not deleted are left out. A pod that shares a GPU has one of its own here; the
    column `gpu_milli` says how much of each GPU a pod asks.
    """
    table.require("name", "creation_time", "deletion_time", "scheduled_time")
    names = given_once(table, "name")
    gpus, milli = pod_gpus(table)
    created = table.integers("creation_time", MAX_S)
    scheduled = table.integers("scheduled_time", MAX_S, blank=_BLANK)
    deleted = table.integers("deletion_time", MAX_S, blank=_BLANK)
    ran = (scheduled != _BLANK) & (deleted != _BLANK)
    work = np.where(ran, deleted - scheduled, 0)
    for row in np.flatnonzero(ran & (scheduled < created)).tolist():
        raise table.error(row, "scheduled_time", "expected no time before creation_time")
    for row in np.flatnonzero(work < 0).tolist():
        raise table.error(row, "deletion_time", "expected no time before scheduled_time")
    for row in np.flatnonzero(work > MAX_WORK_S).tolist():
        raise table.error(row, "deletion_time", f"expected at most {MAX_WORK_S} s of running")
    rows = np.flatnonzero((gpus > 0) & (work > 0))
    return Trace.of(
        created[rows] * SECOND,
        gpus[rows],
        work[rows] * SECOND,
        names=tuple(names[row] for row in rows.tolist()),
        extra={"gpu_milli": milli[rows]},
    )
