"""The first line of a file: some formats of traces without a header are recognised by it."""

from __future__ import annotations

import os

from placewright.instances.io import streams

_HEAD_BYTES = 1 << 16


def first_line(path: str | os.PathLike[str]) -> str:
    """Return the first line of a file, `-` having none."""
    file = os.fspath(path)
    if file == streams.STANDARD_STREAM:
        return ""
    content = streams.read(file, _HEAD_BYTES)
    return content.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
