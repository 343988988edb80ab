"""Two-dimensional Gittins index of Tiresias (Tiresias-G), within discretised queues.

Jobs are in the queues of 2D-LAS; within a queue the greatest index comes first. The distribution of
service is learnt from the jobs that have ended so far, and from what the others have had: nobody
knows how long they run. Without these it would be biased towards short jobs, which end first.

References
----------
Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 1958.
Gittins, "Bandit processes and dynamic allocation indices", Journal of the Royal Statistical Society
B 1979. Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019,
section 3.3; the order within a queue is that of its simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.traces.trace import SECOND
from placewright.rounds.policies.base import Columns, Keys, ListPolicy, gpu_time
from placewright.rounds.policies.tiresias import LAS, ServiceQueues

HORIZON_GPU_S = 3_250
"""How much service the index looks ahead, in GPU-seconds."""


class Distribution:
    """How much service jobs take: the Kaplan-Meier estimate, from those that have ended or not yet.

    Parameters
    ----------
    ended
        Service of the jobs that have ended.
    alive
        Attained service of the others, of which it is known that they take more.
    """

    def __init__(self, ended: Sequence[int], alive: Sequence[float] = ()) -> None:
        took = np.array(ended, dtype=np.float64)
        known = np.sort(np.concatenate([took, np.array(alive, dtype=np.float64)]))
        times, ends = np.unique(took, return_counts=True)
        left = len(known) - np.searchsorted(known, times, side="left")
        self._times = np.concatenate([[0], times])
        self._survival = np.concatenate([[1.0], np.cumprod(1 - ends / left)])
        self._areas = np.concatenate([[0.0], np.cumsum(self._survival[:-1] * np.diff(self._times))])

    def index(self, attained: Floats, horizon: int) -> Floats:
        """Return the Gittins index for each attained service, 0 where none is known to take more.

        It is P(S - a <= horizon) / E[min(S - a, horizon)], both given that S > a: how likely a job
        ends within the horizon, per service that it takes meanwhile.
        """
        survival, area = self._up_to(attained)
        survival_then, area_then = self._up_to(attained + horizon)
        expected = area_then - area
        index: Floats = np.divide(
            survival - survival_then, expected, out=np.zeros(len(attained)), where=expected > 0
        )
        return index

    def _up_to(self, service: Floats) -> tuple[Floats, Floats]:
        """Return the share of jobs that take more than that, and its integral from 0."""
        at = np.searchsorted(self._times, service, side="right") - 1
        survival = self._survival[at]
        return survival, self._areas[at] + survival * (service - self._times[at])


class GittinsQueues(ServiceQueues):
    """Queues by attained service, each in the order of the index.

    The distribution is learnt anew whenever the jobs that ended are a sixteenth more.
    """

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self._ended: list[int] = []
        self._learn(0, [])

    def _learn(self, ended: int, alive: list[float]) -> None:
        """Learn from so many jobs that ended first, and from those that were alive then."""
        self._learnt, self._alive = ended, alive
        self._distribution = Distribution(self._ended[:ended], alive)

    def end(self, job: Columns) -> None:
        """Take note of the service of a job that has ended."""
        self._ended.append(int(job.service_us[0]) * int(job.gpus[0]))

    def keys(self, jobs: Columns, ran: Ints) -> Keys:
        """Drop who has attained its queue's limit; then queue, index, arrival decide."""
        super().keys(jobs, ran)
        numbers = jobs.numbers
        attained = gpu_time(jobs.service_us, jobs.gpus)
        if 16 * len(self._ended) > 17 * self._learnt:
            self._learn(len(self._ended), attained.tolist())
        index = self._distribution.index(attained, SECOND * HORIZON_GPU_S)
        keys = np.empty(len(numbers), dtype=np.int64)
        keys[np.lexsort((numbers, -index, self.queue[numbers]))] = np.arange(len(numbers))
        return keys

    def keys_after(self, jobs: Columns) -> Keys:
        """Leave the order as it is."""
        return np.arange(len(jobs))

    def state(self) -> Any:
        """Return the queue of each job, the service of those that ended, and who is learnt from."""
        return [super().state(), self._ended, self._learnt, self._alive]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        queue, ended, learnt, alive = state
        super().restore(queue)
        self._ended = list(ended)
        self._learn(learnt, alive)


GITTINS = ListPolicy(
    "2d-gittins", LAS.order, LAS.sees, preempts=True, skips=True, queues=GittinsQueues
)
