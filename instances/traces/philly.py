"""The log of Microsoft's Philly clusters: JSON, each job with the attempts to run it.

References
----------
Jeon et al., "Analysis of large-scale multi-tenant GPU clusters for DNN training workloads", USENIX
ATC 2019.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from placewright.instances.errors import InvalidInputError, path_text, value_text
from placewright.instances.traces.first_line import head
from placewright.instances.traces.json_entries import entries
from placewright.instances.traces.left_out import (
    BACKWARDS,
    NEVER_RAN,
    NO_GPU,
    NO_TIME,
    NOT_ENDED,
    rows_kept,
)
from placewright.instances.traces.stamps import EXPECTED, UNKNOWN, seconds
from placewright.instances.traces.tables import MAX_GPUS, MAX_WORK_S, numbered
from placewright.instances.traces.trace import SECOND, Trace

_GPUS, _SUBMIT, _WORK, _FLAGS = 0, 1, 2, 3
_STARTED, _RUNS, _BACKWARDS = 1, 2, 4


def is_philly(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a JSON list whose first entry has a `jobid` or `attempts`."""
    begin = head(path).lstrip()
    return begin.startswith("[") and ('"jobid"' in begin or '"attempts"' in begin)


def philly_trace(path: str | os.PathLike[str]) -> Trace:
    """Read `cluster_job_log`; virtual clusters are tenants.

    A job runs as long as its attempts together, on as many GPUs as any of them had, however it
    ended. An attempt without a start or an end does not count, but a job whose last attempt has
    begun and not ended still runs, and is left out.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with its line and key.
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
        SECOND * columns[_SUBMIT][kept],
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
        return InvalidInputError(told, file=self._file, show_value=False)
