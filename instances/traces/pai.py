"""The tasks of Alibaba's Platform for AI (2020): jobs of several tasks, which ask parts of GPUs.

References
----------
Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale heterogeneous GPU
clusters", NSDI 2022.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.traces.first_line import first_line
from placewright.instances.traces.left_out import (
    BACKWARDS,
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    NOT_ENDED,
    rows_kept,
)
from placewright.instances.traces.tables import MAX_GPUS, MAX_S, MAX_WORK_S, given_once, numbered
from placewright.instances.traces.trace import NEVER, SECOND, Trace

TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
"""Columns of `pai_task_table.csv`, which is published without a header."""

JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
"""Columns of `pai_job_table.csv`, in which submissions and users are."""

JOB_FILES = ("pai_job_table.csv", "pai_job_table.csv.gz")
"""One of these may be in the folder of the trace."""

PERCENT = "gpu_percent"
"""The further column: what a job asked, in hundredths of a GPU, before it was rounded up."""

_READ = {"job_name", "inst_num", "start_time", "end_time", "plan_gpu", "user"}
_PLACES, _UNIT = 6, 10**6
_MAX_PERCENT, _GPU_PLACES = 10**5, 6
_UNKNOWN = -1
_NUMBER = r"([0-9]+(\.[0-9]+)?)?"
_LINE = re.compile(rf"[^,]+,[^,]*,{_NUMBER},[A-Z][a-z]+(,{_NUMBER}){{5}},[^,]*")


def is_pai(path: str | os.PathLike[str]) -> bool:
    """Whether the first line is that of a table of tasks, with its header or without."""
    line = first_line(path)
    return line == ",".join(TASKS) or _LINE.fullmatch(line) is not None


def pai_trace(path: str | os.PathLike[str]) -> Trace:
    """Read `pai_task_table.csv`; with `pai_job_table.csv` beside it, users are tenants.

    A job holds the GPUs of its tasks together, each task's instances times the part of a GPU that
    one asks, rounded up to whole GPUs per task. It runs from the first start of such a task to the
    last end, and is submitted when the table of jobs says, without that when it first starts.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    table = _table(os.fspath(path), TASKS)
    percent = table.decimals("plan_gpu", _GPU_PLACES, _MAX_PERCENT, blank=0)
    instances = table.decimals("inst_num", _PLACES, MAX_GPUS, blank=0)
    if (instances % _UNIT).any():
        row = int((instances % _UNIT > 0).argmax())
        raise table.error(row, "inst_num", "expected a whole number")
    instances //= _UNIT
    start = table.decimals("start_time", _PLACES, MAX_S, blank=_UNKNOWN)
    end = table.decimals("end_time", _PLACES, MAX_S, blank=_UNKNOWN)
    asked = -(-instances * percent // 10**_GPU_PLACES)
    if (asked > 100 * MAX_GPUS).any():
        row = int((asked > 100 * MAX_GPUS).argmax())
        raise table.error(row, "inst_num", f"expected at most {MAX_GPUS} GPUs of a task")
    names, job = numbered(table.columns["job_name"], len(asked))
    tasks = np.flatnonzero((asked > 0) & (start != _UNKNOWN))  # those that held GPUs
    count, of, until = len(names), job[tasks], end[tasks]
    gpus, parts = (np.zeros(count, dtype=np.int64) for _ in range(2))
    np.add.at(gpus, of, -(-asked[tasks] // 100))
    np.add.at(parts, of, asked[tasks])
    first, last = np.full(count, NEVER), np.full(count, _UNKNOWN)
    np.minimum.at(first, of, start[tasks])
    np.maximum.at(last, of, until)
    asks, runs, backwards = (np.zeros(count, dtype=np.bool_) for _ in range(3))
    asks[job[asked > 0]] = True
    runs[of[until == _UNKNOWN]] = True
    backwards[of[(until != _UNKNOWN) & (until < start[tasks])]] = True
    work = np.where(gpus > 0, last - np.where(gpus > 0, first, 0), 0)
    too_long = (work > MAX_WORK_S * SECOND) | (gpus > MAX_GPUS)
    if too_long.any():
        row = int((job == too_long.argmax()).argmax())
        raise table.error(
            row, "job_name", f"expected a job of at most {MAX_WORK_S} s and {MAX_GPUS} GPUs"
        )
    rows, left_out = rows_kept(
        count,
        {
            NO_GPU: ~asks,
            NEVER_RAN: gpus == 0,
            NOT_ENDED: runs,
            BACKWARDS: backwards,
            NO_TIME: work == 0,
        },
    )
    submit, tenants, tenant = _submissions(Path(path).parent, names, first)
    return Trace.of(
        submit[rows],
        gpus[rows],
        work[rows],
        names=tuple(names[row] for row in rows.tolist()),
        tenant=tenant[rows],
        tenants=tenants,
        extra={PERCENT: parts[rows]},
        left_out=left_out,
    )


def _submissions(
    folder: Path, names: tuple[str, ...], first: Ints
) -> tuple[Ints, tuple[str, ...], Ints]:
    """Return the submission of each job in µs, users, and each job's; by the table of jobs."""
    file = next((folder / name for name in JOB_FILES if (folder / name).is_file()), None)
    if file is None:
        return first, *numbered(None, len(names))
    table = _table(os.fspath(file), JOBS)
    job_of = {name: job for job, name in enumerate(names)}
    rows = np.full(len(names), _UNKNOWN)
    for row, name in enumerate(given_once(table, "job_name")):
        if (job := job_of.get(name)) is not None:
            rows[job] = row
    told = table.decimals("start_time", _PLACES, MAX_S, blank=_UNKNOWN)
    known = rows != _UNKNOWN
    submit = np.where(known, told[rows] if len(told) else first, _UNKNOWN)
    cells = table.columns["user"]
    users = [cells[row] if row != _UNKNOWN else "" for row in rows.tolist()]
    return np.where(submit == _UNKNOWN, first, submit), *numbered(users, len(names))


def _table(file: str, columns: tuple[str, ...]) -> Table:
    """Read a table with its header or without."""
    headed = first_line(file) == ",".join(columns)
    return read_table(file, None if headed else columns, keep=_READ)
