"""What a solver's callbacks tell, kept for the outcome and passed on to whoever listens."""

from __future__ import annotations

import time

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.backends import Report
from placewright.solver.incumbent import Incumbent

__all__ = ["Trace"]


class Trace:
    """An `Incumbent` with a clock and a listener."""

    def __init__(self, arrays: Arrays, report: Report | None) -> None:
        self.best = Incumbent(arrays)
        self._report = report
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Give the wall clock since the backend started."""
        return time.monotonic() - self._began

    def add(self, values: Floats | None, bound: float | None) -> None:
        """Take a point of shape (columns,) and a bound; None for what is not known."""
        news = self.best.hear(self.seconds(), values, bound)
        if news is not None and self._report is not None:
            self._report(news)
