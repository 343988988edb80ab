"""Small traces for tests of replays."""

from __future__ import annotations

import numpy as np

from placewright.instances.traces.trace import Trace


def trace_of(*jobs: tuple[int, int, int]) -> Trace:
    """Make a trace of (arrival s, GPUs, work s)."""
    rows = np.array(jobs, dtype=np.int64)
    return Trace.of(1000 * rows[:, 0], rows[:, 1], 1000 * rows[:, 2])
