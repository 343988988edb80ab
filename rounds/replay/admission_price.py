"""Admission price: a job asks for a promise only if its value per GPU-second is at least the price.

A promise reserves GPUs for days, so they are missing for jobs that arrive later. The price is the
value density (value per GPU-second) of the marginal job when the arrivals of the last 24 hours are
admitted in descending order of density until `SHARE` of the GPU time is used up; 0 if it is not. A
job below the price waits like a job without a deadline, and may ask later.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from placewright.rounds.replay.records import Record

WINDOW_S = 86_400
SHARE = 0.8
"""Part of the GPU time that promises may fill; the rest is for gaps and other jobs."""


class AdmissionPrice:
    """The admission price, from the arrivals of the last 24 hours."""

    def __init__(self) -> None:
        self._recent: deque[Record] = deque()

    def arrive(self, record: Record) -> None:
        """Record an arrival; calls are in the order of arrival."""
        if record.asked.due:
            self._recent.append(record)

    def price(self, now: int, milli_gpu: float) -> float:
        """Return the admission price, in value per milli-GPU-second.

        Parameters
        ----------
        now
            Seconds on the round's clock.
        milli_gpu
            Mean capacity of the next 24 hours.
        """
        while self._recent and self._recent[0].came <= now - WINDOW_S:
            self._recent.popleft()
        value_per_gpu_time = np.array([record.value_per_gpu_time for record in self._recent])
        needed = np.array([record.least_gpu_time for record in self._recent])
        order = np.argsort(-value_per_gpu_time, kind="stable")
        last = int(np.searchsorted(needed[order].cumsum(), SHARE * milli_gpu * WINDOW_S))
        return float(value_per_gpu_time[order[last]]) if last < len(order) else 0.0
