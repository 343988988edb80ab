"""Formats of traces: first lines, entries of long JSON lists, dates, tables."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import MAX_BYTES, MAX_LINE, Table
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import streams, unpacked
from placewright.instances.traces.trace import (
    COLUMNS,
    NEVER,
    NO_GPU,
    NO_TIME,
    SECOND,
    SPEED_BY_OPTION,
    SPREAD_SPEED,
    RunOption,
    Trace,
    rows_kept,
)

_HEAD_BYTES = 1 << 16


def head(path: str | os.PathLike[str]) -> str:
    """Return the first 64 KiB of a file, unpacked if it is gzip; `-` has none."""
    file = os.fspath(path)
    if file == streams.STANDARD_STREAM:
        return ""
    content = next(unpacked.pieces(file, MAX_BYTES), b"")[:_HEAD_BYTES]
    return content.decode("utf-8", "replace")


def first_line(path: str | os.PathLike[str]) -> str:
    """Return the first line of a file, unpacked if it is gzip; `-` has none."""
    return head(path).split("\n", 1)[0].rstrip("\r")


# The entries of a long JSON list, one by one, so that few are in memory at once.


_SPACE = re.compile(r"[ \t\r\n]*")


def entries(file: str) -> Iterator[tuple[int, Any]]:
    """Yield the line on which each entry of a list begins, and the entry.

    Raises `InvalidInputError`: if the file cannot be read, is no JSON list in UTF-8, or an entry is
    too long or too deep.
    """
    text = _Text(file)
    text.take("[")
    if text.mark() != "]":
        yield text.entry()
        while text.take(",]") == ",":
            yield text.entry()
    else:
        text.take("]")
    if text.mark():
        raise text.unusable("expected nothing behind the list")


class _Text:
    """What is read of a file and not yet taken."""

    def __init__(self, file: str) -> None:
        self._file, self._text, self._at, self._line = file, "", 0, 1
        self._pieces = unpacked.pieces(file, MAX_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._ended = False

    def mark(self) -> str:
        """Return the next character that is no space, without taking it; nothing at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._advance(self._at if space is None else space.end())
            if self._at < len(self._text) or not self._read():
                return self._text[self._at : self._at + 1]

    def take(self, marks: str) -> str:
        """Take the next character, which is one of some."""
        found = self.mark()
        if not found or found not in marks:
            raise self.unusable(f"{value_text(found)}: expected {' or '.join(marks)}")
        self._at += 1
        return found

    def entry(self) -> tuple[int, Any]:
        """Take a value; return the line on which it begins, and it."""
        self.mark()
        while True:
            try:
                entry, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.unusable("expected fewer levels") from None
            except ValueError as error:
                if self._read():
                    continue
                told = error.msg if isinstance(error, json.JSONDecodeError) else "a number too long"
                raise self.unusable(f"{told}; expected a JSON value") from None
            if end == len(self._text) and self._read():  # a number may go on
                continue
            line = self._line
            self._advance(end)
            return line, entry

    def _read(self) -> bool:
        """Read on, and forget what is taken; false at the end of the file."""
        if self._ended:
            return False
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MAX_LINE:
            raise self.unusable(f"expected at most {MAX_LINE} characters of one entry")
        piece = next(self._pieces, b"")
        self._ended = not piece
        try:
            self._text += self._decoder.decode(piece, final=self._ended)
        except UnicodeDecodeError:
            raise self.unusable("expected UTF-8 text") from None
        return True

    def _advance(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def unusable(self, message: str) -> InvalidInputError:
        """Return an error at the line of what was not taken."""
        return InvalidInputError(f"line {self._line}: {message}", file=self._file)


_DECODER = json.JSONDecoder()


# Dates with times of day in logs, as seconds since 1970.


UNKNOWN = -1
"""For a time that a log does not have."""

EXPECTED = "expected a time as 2020-06-09 18:41:01, from 1970 on"

_NONE = frozenset({"", "None", "NaT", "nan"})
_STAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(\.[0-9]{1,6})?([+-][0-9]{2}:[0-9]{2})?"
)
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seconds(text: str) -> int | None:
    """Return whole seconds of one time, `UNKNOWN` for none, None for what is no time.

    A time without an offset counts as UTC: only differences of times matter.
    """
    if text in _NONE:
        return UNKNOWN
    if not _STAMP.fullmatch(text):
        return None
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    since = (stamp - _EPOCH) // _SECOND
    return since if since >= 0 else None


def stamps(table: Table, column: str) -> Ints:
    """Return a column of times, `UNKNOWN` where there is none."""
    out = np.empty(len(table.lines), dtype=np.int64)
    for row, cell in enumerate(table.columns[column]):
        since = seconds(cell)
        if since is None:
            raise table.error(row, column, EXPECTED)
        out[row] = since
    return out


# Traces that are tables of submission, GPUs and duration in seconds: our own, and published ones.
#
# Tiresias (Gu et al., NSDI 2019) and ElasticFlow (Gu et al., ASPLOS 2023) publish such tables.


MAX_S = 10**10
"""The longest time on a clock: 317 years."""

MAX_WORK_S = 10**9
"""The longest running time: 31 years."""

MAX_GPUS = 10**6
MAX_VALUE = 10**9

_PLACES = 6
MAX_SPEED = 10**6
MAX_OPTIONS = 256
_OPTION = re.compile(r"(speed|spread):([0-9]{1,4})(?::([A-Za-z0-9_.-]{0,40})(?::([^:]{1,40}))?)?")
_DIGITS = 15
_MOST = 10**_DIGITS - 1
_OWN = COLUMNS | {"submit_s", "duration_s", "name", "group", "predicted_s", "deadline_s"}


def own_trace(table: Table) -> Trace:
    """Read our own format.

    Columns submit_s, gpus and duration_s; where there are such, name, tenant, model, group (of
    recurring jobs), predicted_s (empty: the duration), deadline_s (on the clock of submit_s; empty:
    none) and value. Seconds have up to six decimals. `speed:8` is how fast a job is with 8 GPUs,
    `speed:8:V100` with GPUs of that model, `speed:8:V100:tp4` with that plan, `spread:8` on more
    hosts than it fills; empty: not so. Further columns of whole numbers are kept for policies that
    read them.
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
        if column not in _OWN and not _OPTION.fullmatch(column) and all(map(_is_whole, cells))
    }
    if table.has("group"):
        extra["group"] = numbered(table.columns["group"], len(work))[1]
    options, speeds = _speeds(table)
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
        extra={**extra, **speeds},
        options=options,
    )


def _speeds(table: Table) -> tuple[tuple[RunOption, ...], dict[str, Ints]]:
    """Return options and the tables of speeds, by the columns whose names begin with a speed."""
    found: dict[RunOption, dict[str, Ints]] = {}
    for column in table.columns:
        match = _OPTION.fullmatch(column)
        if match is None:
            continue
        option = RunOption(int(match[2]), match[3] or "", match[4] or "")
        if not option.gpus or len(found) == MAX_OPTIONS:
            told = f"line 1: {column}: expected speed:GPUS, at most {MAX_OPTIONS} of them"
            raise InvalidInputError(told, file=table.file)
        speeds = table.decimals(column, _PLACES, MAX_SPEED, blank=0)
        found.setdefault(option, {})[match[1]] = speeds
    if not found:
        return (), {}
    count = len(table.lines)
    none = np.zeros(count, dtype=np.int64)
    tables = {}
    for name, kind in ((SPEED_BY_OPTION, "speed"), (SPREAD_SPEED, "spread")):
        if kind == "speed" or any(kind in columns for columns in found.values()):
            rows = [columns.get(kind, none) for columns in found.values()]
            tables[name] = np.stack(rows, axis=1)
    return tuple(found), tables


def duration_trace(
    table: Table,
    options: tuple[RunOption, ...] = (),
    extra: Mapping[str, Ints] | None = None,
) -> Trace:
    """Read a table of `num_gpu`, `duration` and `submit_time` or `submission_time`, whole seconds.

    A `deadline` is on the clock of submission, and each is worth 1. Jobs that ask no GPU or run no
    time are left out. `options`, `extra`: of all rows, where more is known of them.
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
        extra={name: column[rows] for name, column in (extra or {}).items()},
        options=options,
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
