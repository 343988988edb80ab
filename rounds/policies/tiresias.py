"""Two-dimensional least attained service (2D-LAS) of Tiresias, in discretised queues.

References
----------
Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019, section 3.3;
the order of events is that of the simulator of Muri (Zhao et al., SIGCOMM 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.policies.base import Columns, Keys, ListPolicy, by_arrival, gpu_time

LIMITS_GPU_S = (3_250, 7_200)
"""Attained service at which a job drops into the next queue, in GPU-seconds."""


class ServiceQueues:
    """Queues by attained service; a job drops by one queue an event.

    Parameters
    ----------
    jobs
        Jobs of the trace.
    limits_gpu_s
        Attained service at which a job leaves each queue but the last.
    """

    def __init__(self, jobs: int, limits_gpu_s: tuple[int, ...] = LIMITS_GPU_S) -> None:
        self._limits = np.array([SECOND * limit for limit in limits_gpu_s] + [NEVER])
        self.queue = np.zeros(jobs, dtype=np.int64)

    def end(self, job: Columns) -> None:
        """Learn nothing from a job that has ended."""

    def keys(self, jobs: Columns, ran: Ints) -> Keys:
        """Drop who has attained its queue's limit, in order of arrival, to the tail of the next."""
        numbers = jobs.numbers
        attained = gpu_time(jobs.service_us, jobs.gpus)
        drops = (ran != 0) & (attained >= self._limits[self.queue[numbers]])
        self.queue[numbers[drops]] += 1
        tail = np.where(drops, 1 + numbers, 0)
        keys: Ints = self.queue[numbers] * (2 + len(self.queue)) + tail
        return keys

    def keys_after(self, jobs: Columns) -> Keys:
        """List the running jobs of each queue before its waiting ones."""
        keys: Ints = 2 * self.queue[jobs.numbers] + (jobs.running == 0)
        return keys

    def wakes_us(self, jobs: Columns) -> int:
        """Return when the first running job has attained its limit, in whole seconds of service."""
        queue = self.queue[jobs.numbers]
        able = (jobs.running != 0) & (queue < len(self._limits) - 1)
        if not able.any():
            return NEVER
        seconds = -(-self._limits[queue[able]] // (SECOND * jobs.gpus[able]))
        due = SECOND * seconds - jobs.service_us[able]
        return int(jobs.now_us[0]) + int(max(due.min(), 0))

    def state(self) -> Any:
        """Return the queue of each job."""
        return self.queue.tolist()

    def restore(self, state: Any) -> None:
        """Take a state over."""
        self.queue = np.array(state, dtype=np.int64)


LAS = ListPolicy(
    "2d-las",
    by_arrival,
    frozenset({"service_us", "running", "now_us"}),
    preempts=True,
    skips=True,
    queues=ServiceQueues,
)
