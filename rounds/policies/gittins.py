"""Two-dimensional Gittins index of Tiresias (Tiresias-G), within discretised queues.

Jobs are in the queues of 2D-LAS; within a queue the greatest index comes first. The distribution of
service is that of the jobs that have ended so far: nobody knows how long the others run.

References
----------
Gittins, "Bandit processes and dynamic allocation indices", Journal of the Royal Statistical Society
B 1979. Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019,
section 3.3; the order within a queue is that of its simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.rounds.policies.base import Columns, Keys, ListPolicy
from placewright.rounds.policies.tiresias import LAS, ServiceQueues

HORIZON_GPU_S = 3_250
"""How much service the index looks ahead, in GPU-seconds."""

_MS = 1000


class Distribution:
    """How much service jobs take, by the service of those that have ended.

    Parameters
    ----------
    samples
        Service of each, in any order.
    """

    def __init__(self, samples: Sequence[int]) -> None:
        self._samples = np.sort(np.array(samples, dtype=np.int64))
        self._sums = np.concatenate([[0], np.cumsum(self._samples)])

    def __len__(self) -> int:
        return len(self._samples)

    def index(self, attained: Ints, horizon: int) -> Floats:
        """Return the Gittins index for each attained service, 0 where no sample is greater.

        It is P(S - a <= horizon) / E[min(S - a, horizon)], both given that S > a: how likely a job
        ends within the horizon, per service that it takes meanwhile.
        """
        above = np.searchsorted(self._samples, attained, side="right")
        beyond = np.searchsorted(self._samples, attained + horizon, side="right")
        ends = beyond - above
        expected = self._sums[beyond] - self._sums[above] - attained * ends
        index: Floats = ends / np.maximum(expected + horizon * (len(self) - beyond), 1)
        return index


class GittinsQueues(ServiceQueues):
    """Queues by attained service, each in the order of the index.

    The distribution is learnt anew whenever the jobs that ended are a sixteenth more.
    """

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self._ended: list[int] = []
        self._learnt = Distribution([])

    def end(self, job: Columns) -> None:
        """Add the service of a job to the distribution."""
        self._ended.append(int(job.service_ms[0] * job.gpus[0]))
        if 16 * len(self._ended) > 17 * len(self._learnt):
            self._learnt = Distribution(self._ended)

    def keys(self, jobs: Columns, ran: Ints) -> Keys:
        """Drop who has attained its queue's limit; then queue, index, arrival decide."""
        super().keys(jobs, ran)
        numbers = jobs.numbers
        attained = jobs.service_ms * jobs.gpus
        index = self._learnt.index(attained, _MS * HORIZON_GPU_S)
        keys = np.empty(len(numbers), dtype=np.int64)
        keys[np.lexsort((numbers, -index, self.queue[numbers]))] = np.arange(len(numbers))
        return keys

    def keys_after(self, jobs: Columns) -> Keys:
        """Leave the order as it is."""
        return np.arange(len(jobs))

    def state(self) -> Any:
        """Return the queue of each job, the service of those that ended, and how many count."""
        return [super().state(), self._ended, len(self._learnt)]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        queue, ended, learnt = state
        super().restore(queue)
        self._ended = list(ended)
        self._learnt = Distribution(self._ended[:learnt])


GITTINS = ListPolicy(
    "2d-gittins", LAS.order, LAS.sees, preempts=True, skips=True, queues=GittinsQueues
)
