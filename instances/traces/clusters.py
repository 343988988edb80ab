"""The logs of clusters: Philly, Helios and Acme, Alibaba's PAI, Standard Workload Format."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import (
    MAX_BYTES,
    MAX_LINE,
    Table,
    read_table,
)
from placewright.instances.errors import InvalidInputError, path_text, value_text
from placewright.instances.io import unpacked
from placewright.instances.traces.formats import (
    EXPECTED,
    MAX_GPUS,
    MAX_S,
    MAX_WORK_S,
    UNKNOWN,
    entries,
    first_line,
    given_once,
    head,
    numbered,
    seconds,
    stamps,
)
from placewright.instances.traces.trace import (
    BACKWARDS,
    NEVER,
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    NOT_ENDED,
    SECOND,
    Trace,
    rows_kept,
)

# The log of Microsoft's Philly clusters: JSON, each job with the attempts to run it.
#
# References
# ----------
# Jeon et al., "Analysis of large-scale multi-tenant GPU clusters for DNN training workloads",
# USENIX ATC 2019.


_GPUS, _SUBMITTED, _WORK, _FLAGS = 0, 1, 2, 3
_STARTED, _RUNS, _BACKWARDS = 1, 2, 4


def is_philly(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a JSON list whose first entry has a `jobid` or `attempts`."""
    begin = head(path).lstrip()
    return begin.startswith("[") and ('"jobid"' in begin or '"attempts"' in begin)


def philly_trace(path: str | os.PathLike[str]) -> Trace:
    """Read `cluster_job_log`; virtual clusters are tenants.

    A job runs as long as its attempts together, on as many GPUs as any of them had, however it
    ended. An attempt without a start or an end does not count, but a job whose last attempt has
    begun and not ended still runs, and is left out. Raises `InvalidInputError`: for a file that
    cannot be used, with its line and key.
    """
    file = os.fspath(path)
    first: dict[str, int] = {}
    clusters: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    for line, entry in entries(file):
        job = _Job(file, line, entry)
        name = job.text(entry, "jobid")
        if name in first:
            raise job.unusable(name, f"each job once; line {first[name]} has it", "jobid")
        first[name] = line
        clusters.append(job.text(entry, "vc"))
        rows.append(job.row())
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    flags = columns[_FLAGS]
    kept, left_out = rows_kept(
        len(rows),
        {
            NEVER_RAN: flags & _STARTED == 0,
            NO_GPU: columns[_GPUS] == 0,
            NOT_ENDED: flags & _RUNS > 0,
            BACKWARDS: flags & _BACKWARDS > 0,
            NO_TIME: columns[_WORK] == 0,
        },
    )
    tenants, tenant = numbered(clusters, len(rows))
    names = tuple(first)
    return Trace.of(
        SECOND * columns[_SUBMITTED][kept],
        columns[_GPUS][kept],
        SECOND * columns[_WORK][kept],
        names=tuple(names[row] for row in kept.tolist()),
        tenant=tenant[kept],
        tenants=tenants,
        left_out=left_out,
    )


class _Job:
    """An entry of the log, which is checked as it is read."""

    def __init__(self, file: str, line: int, entry: Any) -> None:
        self._file, self._line, self._entry = file, line, entry
        if not isinstance(entry, dict):
            raise self.unusable(entry, "a job with jobid, vc, submitted_time and attempts")

    def row(self) -> tuple[int, int, int, int]:
        """Return GPUs, submission and running time in seconds, and flags."""
        submit = self._time(self._entry, "submitted_time")
        if submit == UNKNOWN:
            raise self.unusable(self._entry.get("submitted_time"), EXPECTED[9:], "submitted_time")
        gpus = work = flags = 0
        for number, attempt in enumerate(self._list(self._entry, "attempts")):
            place = ("attempts", number)
            if not isinstance(attempt, dict):
                raise self.unusable(attempt, "an attempt", *place)
            start = self._time(attempt, "start_time", *place)
            end = self._time(attempt, "end_time", *place)
            gpus = max(gpus, self._gpus(attempt, *place))
            flags &= ~_RUNS
            if start == UNKNOWN:
                continue
            flags |= _STARTED
            if end == UNKNOWN:
                flags |= _RUNS
            elif end < start:
                flags |= _BACKWARDS
            else:
                work += end - start
        if work > MAX_WORK_S:
            raise self.unusable(work, f"at most {MAX_WORK_S} s of running", "attempts")
        return gpus, submit, work, flags

    def _gpus(self, attempt: dict[str, Any], *place: str | int) -> int:
        count = 0
        for number, host in enumerate(self._list(attempt, "detail", *place)):
            where = (*place, "detail", number)
            if not isinstance(host, dict):
                raise self.unusable(host, "a host with its gpus", *where)
            count += len(self._list(host, "gpus", *where))
        if count > MAX_GPUS:
            raise self.unusable(count, f"at most {MAX_GPUS} GPUs", *place, "detail")
        return count

    def text(self, entry: dict[str, Any], key: str) -> str:
        """Return what is text and not empty."""
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            raise self.unusable(value, "text", key)
        return value

    def _time(self, entry: dict[str, Any], key: str, *place: str | int) -> int:
        value = entry.get(key)
        since = UNKNOWN if value is None else seconds(value) if isinstance(value, str) else None
        if since is None:
            raise self.unusable(value, EXPECTED[9:], *place, key)
        return since

    def _list(self, entry: dict[str, Any], key: str, *place: str | int) -> list[Any]:
        value = entry.get(key)
        if not isinstance(value, list):
            raise self.unusable(value, "a list", *place, key)
        return value

    def unusable(self, value: object, expected: str, *place: str | int) -> InvalidInputError:
        """Return the error of one value."""
        where = f"{path_text(place)}: " if place else ""
        told = f"job of line {self._line}: {where}{value_text(value)}: expected {expected}"
        return InvalidInputError(told, file=self._file)


# The logs of clusters of SenseTime (Helios) and the Shanghai AI Laboratory (Acme).
#
# References
# ----------
# Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU
# datacenters", SC 2021; "Characterization of large language model development in the datacenter",
# NSDI 2024.


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


# The tasks of Alibaba's Platform for AI (2020): jobs of several tasks, which ask parts of GPUs.
#
# References
# ----------
# Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale heterogeneous GPU
# clusters", NSDI 2022.


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
    Raises `InvalidInputError`: for a file that cannot be used, with line and column.
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


# Standard Workload Format: the logs of HPC clusters, whitespace-separated, one job a line.
#
# References
# ----------
# Chapin et al., "Benchmarks and standards for the evaluation of parallel job schedulers", JSSPP
# 1999.


FIELDS = 18
"""Fields of a line; -1 stands for what is not known."""

PARTIAL = frozenset({"2", "3", "4"})
"""Status of lines that tell a part of a job that was swapped out, of which another line has all."""

_JOB, _SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME, _STATUS, _USER = 0, 1, 3, 4, 7, 8, 10, 11
_SWF_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


def swf_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a log; processors are GPUs, users are tenants, the time asked is what is predicted.

    Jobs of unknown or no running time or processors are left out, and lines that tell a part of a
    job. Lines that begin with `;` are comments. Raises `InvalidInputError`: for a file that cannot
    be used, with its line.
    """
    file = str(path)
    rows: list[tuple[int, int, int, int]] = []
    names: dict[str, int] = {}
    users: list[str] = []
    left_out: Counter[str] = Counter()
    for number, line in enumerate(_lines(file), 1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) != FIELDS:
            raise _unusable(file, number, line, f"{FIELDS} fields")
        if fields[_STATUS] in PARTIAL:
            continue
        submit, run, used, asked, told = (
            _rounded(file, number, fields[field])
            for field in (_SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME)
        )
        gpus = used if used > 0 else asked
        if gpus <= 0 or run <= 0:
            left_out[NO_GPU if gpus <= 0 else NO_TIME] += 1
        else:
            for field, seconds in ((_RUN, run), (_ASKED_TIME, told)):
                if seconds > MAX_WORK_S:
                    raise _unusable(file, number, fields[field], f"at most {MAX_WORK_S} seconds")
            if gpus > MAX_GPUS:
                raise _unusable(file, number, fields[_USED], f"at most {MAX_GPUS} processors")
            rows.append((submit, gpus, run, told if told > 0 else run))
            earlier = names.setdefault(fields[_JOB], number)
            if earlier != number:
                expected = f"each job once; line {earlier} has it"
                raise _unusable(file, number, fields[_JOB], expected)
            users.append(fields[_USER])
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    tenants, tenant = numbered(users, len(rows))
    return Trace.of(
        SECOND * np.maximum(columns[:, 0], 0),
        columns[:, 1],
        SECOND * columns[:, 2],
        names=tuple(names),
        predicted_us=SECOND * columns[:, 3],
        tenant=tenant,
        tenants=tenants,
        left_out=left_out,
    )


def _lines(file: str) -> Iterator[str]:
    rest = b""
    for piece in unpacked.pieces(file, MAX_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE:
            expected = f"a line is too long; expected at most {MAX_LINE} bytes"
            raise InvalidInputError(expected, file=file)
        yield from (line.decode("ascii", "replace") for line in whole)
    yield rest.decode("ascii", "replace")


def is_swf(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named as such logs are."""
    return Path(path).name.endswith((".swf", ".swf.gz"))


def _rounded(file: str, line: int, field: str) -> int:
    """Read a number, fractions rounded."""
    number = float(field) if _SWF_NUMBER.fullmatch(field) else -2
    if not -1 <= number <= MAX_S:
        raise _unusable(file, line, field, f"a number from -1 to {MAX_S}")
    return round(number)


def _unusable(file: str, line: int, value: str, expected: str) -> InvalidInputError:
    told = f"line {line}: {value_text(value)}: expected {expected}"
    return InvalidInputError(told, file=file)
