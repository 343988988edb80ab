"""Reading a trace file: its format is recognised by its header, or by its first line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.traces.clusters import (
    acme_trace,
    helios_trace,
    is_pai,
    is_philly,
    is_swf,
    pai_trace,
    philly_trace,
    swf_trace,
)
from placewright.instances.traces.formats import duration_trace, own_trace
from placewright.instances.traces.papers import (
    chronus_trace,
    elasticflow_trace,
    gavel_trace,
    is_gavel,
    is_shockwave,
    is_synergy,
    muri_trace,
    openb_trace,
    shockwave_trace,
    synergy_trace,
)
from placewright.instances.traces.trace import Trace

_LOG = ("gpu_num", "submit_time", "start_time", "end_time")

FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Table], Trace]]] = {
    "placewright": (("submit_s", "gpus", "duration_s"), own_trace),
    "muri": (("submit_time", "num_gpu", "iterations", "iteration_time"), muri_trace),
    "openb": (("num_gpu", "gpu_milli"), openb_trace),
    "chronus": (("submit_time", "num_gpu", "expect_time_list"), chronus_trace),
    "elasticflow-deadlines": (
        ("submission_time", "num_gpu", "duration", "deadline"),
        elasticflow_trace,
    ),
    "elasticflow": (("submission_time", "num_gpu", "duration"), duration_trace),
    "helios": (("job_id", "vc", *_LOG), helios_trace),
    "acme": (("job_id", "user", "type", *_LOG), acme_trace),
    "tiresias": (("submit_time", "num_gpu", "duration"), duration_trace),
}
"""Formats by name: the columns by which each is recognised, and what reads its table."""

AnyPath = str | os.PathLike[str]

FILES: dict[str, tuple[Callable[[AnyPath], bool], Callable[[AnyPath], Trace]]] = {
    "swf": (is_swf, swf_trace),
    "gavel": (is_gavel, gavel_trace),
    "shockwave": (is_shockwave, shockwave_trace),
    "synergy": (is_synergy, synergy_trace),
    "philly": (is_philly, philly_trace),
    "pai": (is_pai, pai_trace),
}
"""Formats without a header by name: what recognises a file of each, and what reads it."""


def read_trace(path: AnyPath, format: str | None = None) -> Trace:  # noqa: A002
    """Read a trace.

    Parameters
    ----------
    path
        A CSV file with a header, or a file of one of the formats without; gzip is unpacked.
    format
        One of `FILES` or `FORMATS`; None: the first that recognises the file.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    if format is not None and format not in FILES and format not in FORMATS:
        raise InvalidInputError(
            f"expected one of {', '.join((*FORMATS, *FILES))}", ("format",), format
        )
    for name, (recognises, read) in FILES.items():
        if format == name or (format is None and recognises(path)):
            return read(path)
    table = read_table(Path(path))
    if format is None:
        named = (name for name, (columns, _) in FORMATS.items() if all(map(table.has, columns)))
        format = next(named, None)  # noqa: A001
    if format is None:
        expected = "; ".join(f"{name}: {', '.join(cols)}" for name, (cols, _) in FORMATS.items())
        header = value_text(",".join(table.columns))
        told = (
            f"line 1: {header}: expected the columns of a known trace ({expected}), "
            f"or a file of {', '.join(FILES)}"
        )
        raise InvalidInputError(told, file=table.file)
    columns, reader = FORMATS[format]
    table.require(*columns)
    cells = _Cells(table.columns)
    trace = reader(replace(table, columns=cells))
    unread = (one for one in table.columns if one not in cells.read or one in trace.extra)
    return replace(trace, unread=tuple(unread))


class _Cells(dict[str, Sequence[str]]):
    """Columns by name, and which of them were looked up."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        super().__init__(columns)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Sequence[str]:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column, the default if there is none."""
        self.read.add(name)
        return super().get(name, default)
