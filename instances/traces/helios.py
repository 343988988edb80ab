"""The logs of clusters of SenseTime (Helios) and the Shanghai AI Laboratory (Acme).

References
----------
Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU
datacenters", SC 2021; "Characterization of large language model development in the datacenter",
NSDI 2024.
"""

from __future__ import annotations

from placewright.instances.converters.support.csv_table import Table
from placewright.instances.traces.left_out import (
    BACKWARDS,
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    NOT_ENDED,
    rows_kept,
)
from placewright.instances.traces.stamps import EXPECTED, UNKNOWN, stamps
from placewright.instances.traces.tables import MAX_GPUS, MAX_WORK_S, given_once, numbered
from placewright.instances.traces.trace import SECOND, Trace


def helios_trace(table: Table) -> Trace:
    """Read `cluster_log.csv` of Helios; virtual clusters are tenants."""
    return _log_trace(table, tenant="vc", model=None)


def acme_trace(table: Table) -> Trace:
    """Read `trace_seren.csv` or `trace_kalos.csv` of Acme; users are tenants, types models."""
    return _log_trace(table, tenant="user", model="type")


def _log_trace(table: Table, tenant: str, model: str | None) -> Trace:
    """Read a log: a job runs from start_time to end_time, however it ended.

    `duration` is not read: in Kalos it counts from submission.
    """
    names = given_once(table, "job_id")
    gpus = table.integers("gpu_num", MAX_GPUS)
    submit, start, end = (stamps(table, f"{name}_time") for name in ("submit", "start", "end"))
    if (submit == UNKNOWN).any():
        raise table.error(int((submit == UNKNOWN).argmax()), "submit_time", EXPECTED)
    work = end - start
    ran = (start != UNKNOWN) & (end != UNKNOWN)
    if (ran & (work > MAX_WORK_S)).any():
        row = int((ran & (work > MAX_WORK_S)).argmax())
        raise table.error(row, "end_time", f"expected at most {MAX_WORK_S} s of running")
    rows, left_out = rows_kept(
        len(gpus),
        {
            NO_GPU: gpus == 0,
            NEVER_RAN: start == UNKNOWN,
            NOT_ENDED: end == UNKNOWN,
            BACKWARDS: work < 0,
            NO_TIME: work == 0,
        },
    )
    tenants, tenant_of = numbered(table.columns[tenant], len(gpus))
    models, model_of = numbered(None if model is None else table.columns[model], len(gpus))
    return Trace.of(
        SECOND * submit[rows],
        gpus[rows],
        SECOND * work[rows],
        names=tuple(names[row] for row in rows.tolist()),
        tenant=tenant_of[rows],
        tenants=tenants,
        model=model_of[rows],
        models=models,
        left_out=left_out,
    )
