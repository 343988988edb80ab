"""Dates with times of day in logs, as seconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters.support.csv_table import Table

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
