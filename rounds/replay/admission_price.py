"""Who asks for a promise: whoever is worth more than most of what came lately would leave room for.

A promise binds GPUs for days, and whoever comes later finds them taken. So a job asks only if its
value per GPU-second is at least a price: that of the last job for which there would be room if all
of the last day's jobs were taken by it, the dearest first, on most of the GPUs. While less is asked
than there is, the price is zero. Who does not ask waits like a job without a deadline, and may ask
later.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from placewright.rounds.replay.records import Record

WINDOW_S = 86_400
SHARE = 0.8
"""Of the GPUs, for jobs that ask; the rest is for gaps, and for jobs without a deadline."""


class Prices:
    """The price of a promise, from the jobs that came lately."""

    def __init__(self) -> None:
        self._lately: deque[Record] = deque()

    def come(self, record: Record) -> None:
        """Take note of a job that came, in the order in which they come."""
        if record.asked.due:
            self._lately.append(record)

    def price(self, now: int, milli_gpu: float) -> float:
        """Return the least value per milli-GPU-second with which a job asks.

        Parameters
        ----------
        now
            In seconds on the round's clock.
        milli_gpu
            What jobs can have on the mean of the coming day.
        """
        while self._lately and self._lately[0].came <= now - WINDOW_S:
            self._lately.popleft()
        worth = np.array([record.worth for record in self._lately])
        needed = np.array([record.least for record in self._lately])
        order = np.argsort(-worth, kind="stable")
        last = int(np.searchsorted(needed[order].cumsum(), SHARE * milli_gpu * WINDOW_S))
        return float(worth[order[last]]) if last < len(order) else 0.0
