"""Jobs with deadlines, as traces record them: all times in seconds, in the order of submission."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

OVERHEAD_S = 30
"""Seconds of a lease that checkpoint (0.1 min) and resume (0.4 min) of one GPU take."""


def overhead_s(gpus: int) -> int:
    """Return the seconds of a lease for checkpoint and resume of `gpus` GPUs, rounded up.

    References
    ----------
    The published artifact of Chronus (SoCC'21): 0.5 min * (1 + log2 of the GPUs).
    """
    return ceil(OVERHEAD_S * (1 + log2(gpus)))


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: demand, submission, duration and deadlines.

    Parameters
    ----------
    name
        Model and id in the trace, `vgg16-50`.
    gpus
        GPUs that it asks, 1 or more.
    submit_s
        When it was submitted, on the clock of the trace.
    duration_s
        How long it runs on these GPUs, 1 or more.
    model
        Name of the model that it trains.
    due
        (time on the clock of the trace, value) of each deadline, times rising and values falling;
        empty for best effort.
    """

    name: str
    gpus: int
    submit_s: int
    duration_s: int
    model: str
    due: tuple[tuple[int, int], ...]

    def work_s(self, slack: int = 0) -> int:
        """Return the work in seconds, `slack` thousandths more than recorded, rounded up."""
        return -(-self.duration_s * (1000 + slack) // 1000)

    def alive(self, now: int) -> bool:
        """Whether `now` is between its submission and its end, had it started when submitted."""
        return self.submit_s <= now < self.submit_s + self.duration_s
