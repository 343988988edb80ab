"""Traces that are tables of submission, GPUs and duration in seconds: our own, and published ones.

Tiresias (Gu et al., NSDI 2019) and ElasticFlow (Gu et al., ASPLOS 2023) publish such tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import Table
from placewright.instances.traces.left_out import NO_GPU, NO_TIME, rows_kept
from placewright.instances.traces.trace import COLUMNS, NEVER, SECOND, Trace

MAX_S = 10**10
"""The longest time on a clock: 317 years."""

MAX_WORK_S = 10**9
"""The longest running time: 31 years."""

MAX_GPUS = 10**6
MAX_VALUE = 10**9

_PLACES = 6
_DIGITS = 15
_MOST = 10**_DIGITS - 1
_OWN = COLUMNS | {"submit_s", "duration_s", "name", "group", "predicted_s", "deadline_s"}


def own_trace(table: Table) -> Trace:
    """Read our own format.

    Columns submit_s, gpus and duration_s; where there are such, name, tenant, model, group (of
    recurring jobs), predicted_s (empty: the duration), deadline_s (on the clock of submit_s; empty:
    none) and value. Seconds have up to six decimals. Further columns of whole numbers are kept
    for policies that read them.
    """
    work = _microseconds(table, "duration_s", maximum=MAX_WORK_S)
    deadline = _microseconds(table, "deadline_s", NEVER) if table.has("deadline_s") else None
    predicted = work
    if table.has("predicted_s"):
        told = _microseconds(table, "predicted_s", -1, MAX_WORK_S)
        predicted = np.where(told < 0, work, told)
    tenants, tenant = numbered(table.columns.get("tenant"), len(work))
    models, model = numbered(table.columns.get("model"), len(work))
    extra = {
        column: table.integers(column, _MOST)
        for column, cells in table.columns.items()
        if column not in _OWN and all(map(_is_whole, cells))
    }
    if table.has("group"):
        extra["group"] = numbered(table.columns["group"], len(work))[1]
    return Trace.of(
        _microseconds(table, "submit_s"),
        positive(table, "gpus", MAX_GPUS),
        np.maximum(work, 1),
        names=given_once(table, "name") if table.has("name") else None,
        predicted_us=np.maximum(predicted, 1),
        deadline_us=deadline,
        value=table.integers("value", MAX_VALUE, blank=0) if table.has("value") else None,
        tenant=tenant,
        model=model,
        tenants=tenants,
        models=models,
        extra=extra,
    )


def duration_trace(table: Table) -> Trace:
    """Read a table of `num_gpu`, `duration` and `submit_time` or `submission_time`, whole seconds.

    A `deadline` is on the clock of submission, and each is worth 1. Jobs that ask no GPU or run no
    time are left out.
    """
    submit = "submit_time" if table.has("submit_time") else "submission_time"
    gpus = table.integers("num_gpu", MAX_GPUS)
    work = table.integers("duration", MAX_WORK_S)
    names = given_once(table, "job_id") if table.has("job_id") else None
    deadline = table.integers("deadline", MAX_S) if table.has("deadline") else None
    rows, left_out = rows_kept(len(gpus), {NO_GPU: gpus == 0, NO_TIME: work == 0})
    models, model = numbered(table.columns.get("model_name"), len(work))
    return Trace.of(
        SECOND * table.integers(submit, MAX_S)[rows],
        gpus[rows],
        SECOND * work[rows],
        names=None if names is None else tuple(names[row] for row in rows.tolist()),
        deadline_us=None if deadline is None else SECOND * deadline[rows],
        value=None if deadline is None else np.ones(len(rows), dtype=np.int64),
        model=model[rows],
        models=models,
        left_out=left_out,
    )


def positive(table: Table, column: str, maximum: int) -> Ints:
    """Return a column of integers from 1."""
    numbers = table.integers(column, maximum)
    if (numbers == 0).any():
        raise table.error(int((numbers == 0).argmax()), column, f"expected 1 to {maximum}")
    return numbers


def given_once(table: Table, column: str) -> Sequence[str]:
    """Return a column of names, each given once."""
    names = table.columns[column]
    hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
    if len(np.unique(hashes)) == len(names):  # a set of all names takes far more memory
        return names
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if first.setdefault(name, row) != row:
            earlier = f"expected each name once; line {table.lines[first[name]]} has it"
            raise table.error(row, column, earlier)
    return names


def numbered(cells: Sequence[str] | None, count: int) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct cells in order of appearance, and the number of each row's."""
    if cells is None:
        return ("",), np.zeros(count, dtype=np.int64)
    number: dict[str, int] = {}
    each = (number.setdefault(cell, len(number)) for cell in cells)
    rows = np.fromiter(each, dtype=np.int64, count=count)
    return tuple(number) or ("",), rows


def _is_whole(cell: str) -> bool:
    return cell.isascii() and cell.isdigit() and len(cell) <= _DIGITS


def _microseconds(
    table: Table, column: str, blank: int | None = None, maximum: int = MAX_S
) -> Ints:
    """Return seconds with up to six decimals as microseconds; `blank` for an empty cell."""
    return table.decimals(column, _PLACES, maximum, blank=blank)
