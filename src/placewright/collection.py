"""Rounds without garbage collection: their many small objects are in no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_collection"]


@contextmanager
def no_collection() -> Iterator[None]:
    """Spare the millions of small objects of a round the search for cycles.

    It took a third of the time of a large round. What is in cycles is found after the round.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
