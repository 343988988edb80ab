"""Reading a trace file: its format is recognised by the header of its table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.chronus import chronus_trace
from placewright.instances.traces.muri import muri_trace
from placewright.instances.traces.swf import is_swf, swf_trace
from placewright.instances.traces.tables import duration_trace, own_trace
from placewright.instances.traces.trace import Trace

FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Table], Trace]]] = {
    "placewright": (("submit_s", "gpus", "duration_s"), own_trace),
    "muri": (("submit_time", "num_gpu", "iterations", "iteration_time"), muri_trace),
    "chronus": (("submit_time", "num_gpu", "expect_time_list"), chronus_trace),
    "elasticflow-deadlines": (
        ("submission_time", "num_gpu", "duration", "deadline"),
        duration_trace,
    ),
    "elasticflow": (("submission_time", "num_gpu", "duration"), duration_trace),
    "tiresias": (("submit_time", "num_gpu", "duration"), duration_trace),
}
"""Formats by name: the columns by which each is recognised, and what reads its table."""


SWF = "swf"


def read_trace(path: str | os.PathLike[str], format: str | None = None) -> Trace:  # noqa: A002
    """Read a trace.

    Parameters
    ----------
    path
        A CSV file with a header, or a log that ends in `.swf`.
    format
        One of `FORMATS` or `swf`; None: the first whose columns the header has.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used, with line and column.
    """
    if format is not None and format not in (*FORMATS, SWF):
        raise InvalidInputError(
            f"expected one of {', '.join((*FORMATS, SWF))}", path=("format",), value=format
        )
    if format == SWF or (format is None and is_swf(path)):
        return swf_trace(path)
    table = read_table(Path(path))
    if format is None:
        named = (name for name, (columns, _) in FORMATS.items() if all(map(table.has, columns)))
        format = next(named, None)  # noqa: A001
    if format is None:
        expected = "; ".join(f"{name}: {', '.join(cols)}" for name, (cols, _) in FORMATS.items())
        raise InvalidInputError(
            f"expected the columns of a known trace ({expected})",
            file=str(path),
            path=("line 1",),
            value=",".join(table.columns),
        )
    columns, reader = FORMATS[format]
    table.require(*columns)
    return reader(table)
