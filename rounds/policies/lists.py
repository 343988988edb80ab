"""List policies: FIFO, EASY, SJF, QSSF, SRTF, SRSF, Tiresias, Gittins, Smith's rule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.policies.base import (
    Columns,
    Keys,
    ListPolicy,
    RoundPolicy,
    Weights,
    by_arrival,
    gpu_time,
)

# Shortest job first by estimates: mean running times of the like jobs that have ended (PAI).
#
# SJU knows the user of a job, SJG the group of recurring jobs as well, and SJGG its GPUs, too.
#
# References
# ----------
# Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale heterogeneous GPU
# clusters", NSDI 2022, section 6.1; names and order are those of its simulator.


class MeanTimes:
    """Mean running times of jobs that have ended, by the values of some columns.

    A job is like those that ended with the same values of all columns; if there are none, of all
    but the last, and so on, at last like all that ended. Before any has ended it counts as 0.

    Parameters
    ----------
    fields
        The columns, the one that parts the jobs most coarsely first.
    """

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        self._sums: dict[tuple[int, ...], tuple[int, int]] = {}

    def key(self, job: Columns) -> float:
        """Return the mean running time of jobs like this one, in microseconds."""
        for values in self._classes(job):
            if values in self._sums:
                total, count = self._sums[values]
                return total / count
        return 0.0

    def end(self, job: Columns) -> None:
        """Add the time that a job ran to the means of its classes."""
        for values in self._classes(job):
            total, count = self._sums.get(values, (0, 0))
            self._sums[values] = total + int(job.service_us[0]), count + 1

    def _classes(self, job: Columns) -> list[tuple[int, ...]]:
        """Return the classes of a job, the finest first."""
        values = tuple(int(getattr(job, field)[0]) for field in self._fields)
        return [values[:length] for length in range(len(values), -1, -1)]

    def state(self) -> Any:
        """Return each class with the sum of its times and the number of its jobs."""
        return [[list(values), *sums] for values, sums in self._sums.items()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        self._sums = {tuple(values): (total, count) for values, total, count in state}


def _policy(name: str, *fields: str) -> ListPolicy:
    return ListPolicy(
        name,
        by_arrival,
        frozenset({*fields, "service_us"}),
        skips=True,
        estimator=partial(MeanTimes, fields),
    )


SJU = _policy("sju", "tenant")
SJG = _policy("sjg", "tenant", "group")
SJGG = _policy("sjgg", "tenant", "group", "gpus")

ESTIMATES = {policy.name: policy for policy in (SJU, SJG, SJGG)}


# Two-dimensional least attained service (2D-LAS) of Tiresias, in discretised queues.
#
# References
# ----------
# Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019, section
# 3.3; the order of events is that of the simulator of Muri (Zhao et al., SIGCOMM 2022).


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


# Two-dimensional Gittins index of Tiresias (Tiresias-G), within discretised queues.
#
# Jobs are in the queues of 2D-LAS; within a queue the greatest index comes first. The
# distribution of service is learnt from the jobs that have ended so far, and from what the others
# have had: nobody knows how long they run. Without these it would be biased towards short jobs,
# which end first.
#
# References
# ----------
# Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 1958. Gittins,
# "Bandit processes and dynamic allocation indices", Journal of the Royal Statistical Society B
# 1979. Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019,
# section 3.3; the order within a queue is that of its simulator.


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


# Smith's rule as weights of rounds: a job is worth one over its remaining time.
#
# Per GPU-second a job is then worth what the shortest remaining service first (SRSF) orders by, but
# a round decides which jobs together are worth most, where the list takes them one by one.
#
# References
# ----------
# Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 1956.


LEAST_US = SECOND
"""Remaining times below are taken as this, so that a job about to end does not dwarf all others."""


def smith_weights(jobs: Columns) -> Weights:
    """Return values of 1 / remaining time; less remaining GPU time may preempt more."""
    remaining = np.maximum(jobs.remaining_us, LEAST_US)
    return Weights(value=1.0 / remaining, rank=gpu_time(remaining, jobs.gpus))


SMITH = RoundPolicy("smith", smith_weights, frozenset({"remaining_us"}))


# List policies without state: FIFO, fit first, EASY, SJF, QSSF, EDF, SRTF, SRSF, LAS, smallest.
#
# References
# ----------
# Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY). Gu et al., "Tiresias", NSDI 2019
# (SRTF and SRSF as baselines). Hu et al., "Characterization and prediction of deep learning
# workloads in large-scale GPU datacenters", SC 2021 (QSSF).


def _predicted(jobs: Columns) -> Keys:
    return jobs.predicted_us


def _predicted_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.predicted_us, jobs.gpus)


def _work(jobs: Columns) -> Keys:
    return jobs.work_us


def _remaining(jobs: Columns) -> Keys:
    return jobs.remaining_us


def _remaining_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.remaining_us, jobs.gpus)


def _attained_gpu_time(jobs: Columns) -> Keys:
    return gpu_time(jobs.service_us, jobs.gpus)


def _deadline(jobs: Columns) -> Keys:
    return jobs.deadline_us


def _gpus(jobs: Columns) -> Keys:
    return jobs.gpus


FIFO = ListPolicy("fifo", by_arrival)
FIT_FIRST = ListPolicy("fit-first", by_arrival, skips=True)
EASY = ListPolicy("easy", by_arrival, frozenset({"predicted_us"}), skips=True, reserves=True)
SJF = ListPolicy("sjf", _work, frozenset({"work_us"}))
QSSF = ListPolicy("qssf", _predicted_gpu_time, frozenset({"predicted_us"}))
SJF_PREDICTED = ListPolicy("sjf-predicted", _predicted, frozenset({"predicted_us"}))
EDF = ListPolicy("edf", _deadline, frozenset({"deadline_us"}), skips=True)
SRTF = ListPolicy("srtf", _remaining, frozenset({"remaining_us"}), preempts=True, skips=True)
SRSF = ListPolicy(
    "srsf", _remaining_gpu_time, frozenset({"remaining_us"}), preempts=True, skips=True
)
LEAST_SERVICE = ListPolicy(
    "las", _attained_gpu_time, frozenset({"service_us"}), preempts=True, skips=True
)
SMALLEST = ListPolicy("smallest", _gpus, preempts=True, skips=True)

LISTS = {
    policy.name: policy
    for policy in (
        FIFO,
        FIT_FIRST,
        EASY,
        SJF,
        SJF_PREDICTED,
        QSSF,
        EDF,
        SRTF,
        SRSF,
        LEAST_SERVICE,
        SMALLEST,
    )
}
