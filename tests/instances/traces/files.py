"""Trace files for the tests of readers: those that are published, and handmade ones."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"
TRACES = SHARED / "traces"
INPUTS = SHARED / "oracles" / "inputs"

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not here")


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """Write a file."""
    path = folder / name
    path.write_text(text)
    return path
