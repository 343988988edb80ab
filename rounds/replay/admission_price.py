"""Admission price: a job asks for a promise if its value per GPU-second is at least the price.

A promise binds GPUs for days, and jobs that arrive later find them taken. The price is the value
per GPU-second of the last job that fits if the jobs of the last day are admitted in descending
order of it, on most of the GPUs. While demand is below capacity, the price is zero. A job that does
not ask waits like a job without a deadline, and may ask later.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from placewright.rounds.replay.records import Record

WINDOW_S = 86_400
SHARE = 0.8
"""Of the GPUs, for jobs that ask; the rest is for gaps, and for jobs without a deadline."""


class AdmissionPrice:
    """The price of a promise, from the arrivals of the last day."""

    def __init__(self) -> None:
        self._recent: deque[Record] = deque()

    def arrive(self, record: Record) -> None:
        """Record an arrival; jobs are given in the order in which they arrive."""
        if record.asked.due:
            self._recent.append(record)

    def price(self, now: int, milli_gpu: float) -> float:
        """Return the least value per milli-GPU-second with which a job asks.

        Parameters
        ----------
        now
            In seconds on the round's clock.
        milli_gpu
            What jobs can have on the mean of the coming day.
        """
        while self._recent and self._recent[0].came <= now - WINDOW_S:
            self._recent.popleft()
        value_per_gpu_time = np.array([record.value_per_gpu_time for record in self._recent])
        needed = np.array([record.least_gpu_time for record in self._recent])
        order = np.argsort(-value_per_gpu_time, kind="stable")
        last = int(np.searchsorted(needed[order].cumsum(), SHARE * milli_gpu * WINDOW_S))
        return float(value_per_gpu_time[order[last]]) if last < len(order) else 0.0
