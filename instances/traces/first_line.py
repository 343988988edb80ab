"""How a file begins: some formats of traces without a header are recognised by it."""

from __future__ import annotations

import os

from placewright.instances.converters.support.csv_table import MAX_BYTES
from placewright.instances.io import streams, unpacked

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
