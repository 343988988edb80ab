"""The policies by name: lists, estimates, queues, tenants and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from runpy import run_path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.papers import SPEEDS
from placewright.instances.traces.trace import NEVER, SECOND
from placewright.rounds.policies.base import (
    Columns,
    ElasticPolicy,
    GroupPolicy,
    Keys,
    ListPolicy,
    RoundPolicy,
    Weights,
    by_arrival,
    gpu_time,
)
from placewright.rounds.policies.elastic import ELASTIC
from placewright.rounds.policies.elasticflow import ELASTICFLOW
from placewright.rounds.policies.fair_time import FAIR_TIME
from placewright.rounds.policies.tenant_rounds import TENANT_ROUNDS


# Shortest job first by estimates: mean running times of the like jobs that have ended (PAI).
#
# SJU knows the user of a job, SJG the group of recurring jobs as well, and SJGG its GPUs, too.
# Source: Weng et al., "MLaaS in the wild: workload analysis and scheduling in large-scale
# heterogeneous GPU clusters", NSDI 2022, section 6.1; names and order are those of its simulator.
class MeanTimes:
    """Mean running times of jobs that have ended, by the values of some columns.

    A job is like those that ended with the same values of all columns; if there are none, of all
    but the last, and so on, at last like all that ended. Before any has ended it counts as 0.

    `fields`: the columns, the one that parts the jobs most coarsely first.
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

# Two-dimensional least attained service (2D-LAS) of Tiresias, in discretised queues.
# Source: Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019,
# section 3.3; the order of events is that of the simulator of Muri (Zhao et al., SIGCOMM 2022).
LIMITS_GPU_S = (3_250, 7_200)
"""Attained service at which a job drops into the next queue, in GPU-seconds."""


class ServiceQueues:
    """Queues by attained service; a job drops by one queue an event.

    `jobs`: jobs of the trace. `limits_gpu_s`: attained service at which a job leaves each queue but
    the last.
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
# Source: Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 1958.
# Gittins, "Bandit processes and dynamic allocation indices", Journal of the Royal Statistical
# Society B 1979. Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI
# 2019, section 3.3; the order within a queue is that of its simulator.
HORIZON_GPU_S = 3_250
"""How much service the index looks ahead, in GPU-seconds."""


class Distribution:
    """How much service jobs take: the Kaplan-Meier estimate, from those that have ended or not yet.

    `ended`: service of the jobs that have ended. `alive`: attained service of the others, of which
    it is known that they take more.
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
# Source: Smith, "Various optimizers for single-stage production", Naval Research Logistics
# Quarterly 1956.
LEAST_US = SECOND
"""Remaining times below are taken as this, so that a job about to end does not dwarf all others."""


def smith_weights(jobs: Columns) -> Weights:
    """Return values of 1 / remaining time; less remaining GPU time may preempt more."""
    remaining = np.maximum(jobs.remaining_us, LEAST_US)
    return Weights(value=1.0 / remaining, rank=gpu_time(remaining, jobs.gpus))


SMITH = RoundPolicy("smith", smith_weights, frozenset({"remaining_us"}))


# List policies without state: FIFO, fit first, EASY, SJF, QSSF, EDF, SRTF, SRSF, LAS, smallest.
# Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY). Gu et al., "Tiresias", NSDI
# 2019 (SRTF and SRSF as baselines). Hu et al., "Characterization and prediction of deep learning
# workloads in large-scale GPU datacenters", SC 2021 (QSSF).
def _gpu_time(column: str, jobs: Columns) -> Keys:
    return gpu_time(getattr(jobs, column), jobs.gpus)


def _by(column: str, name: str, *, gpus: bool = False, **how: Any) -> ListPolicy:
    """Return a list in the order of a column; with `gpus`, of GPU time."""
    order = partial(_gpu_time, column) if gpus else attrgetter(column)
    return ListPolicy(name, order, frozenset({column}), **how)


FIFO = ListPolicy("fifo", by_arrival)
FIT_FIRST = ListPolicy("fit-first", by_arrival, skips=True)
EASY = ListPolicy("easy", by_arrival, frozenset({"predicted_us"}), skips=True, reserves=True)
SJF = _by("work_us", "sjf")
QSSF = _by("predicted_us", "qssf", gpus=True)
EDF = _by("deadline_us", "edf", skips=True)
SRTF = _by("remaining_us", "srtf", preempts=True, skips=True)
SRSF = _by("remaining_us", "srsf", gpus=True, preempts=True, skips=True)
LEAST_SERVICE = _by("service_us", "las", gpus=True, preempts=True, skips=True)


# Quotas of tenants: cells as in HiveD, or numbers of GPUs.
# Source: Zhao et al., "HiveD: sharing a GPU cluster for deep learning with guarantees", OSDI 2020.
Guarantee: TypeAlias = Literal["cells", "gpus"]


@dataclass(frozen=True, slots=True)
class QuotaPolicy:
    """Jobs inside the quota of their tenant are guaranteed, the others opportunistic.

    A tenant with a quota has guaranteed jobs: in order of arrival, the first that its quota has no
    room for ends the walk through its list, and none runs outside the quota. Jobs that are larger
    than the quota, and those of tenants without one, are opportunistic: they start in order of
    arrival where GPUs are free, skipping who does not fit, and are preempted when a guaranteed job
    needs their GPUs.

    `name`: as the command line calls it. `guarantee`: `cells`: a tenant owns cells, of a power of
    two of GPUs on one host, and its jobs start wherever a cluster of these alone would start them.
    `gpus`: it owns as many GPUs, anywhere; a job that none of the hosts has room for waits.
    """

    name: str
    guarantee: Guarantee

    @property
    def sees(self) -> frozenset[str]:
        """Columns that it reads."""
        return frozenset({"tenant"})


HIVED = QuotaPolicy("hived", "cells")
GPU_QUOTA = QuotaPolicy("gpu-quota", "gpus")


# Policies whose running jobs get shares of CPU and memory by what they gain (Synergy-TUNE).
# Source: Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI
# 2022.
@dataclass(frozen=True, slots=True)
class TunedPolicy:
    """An order decides who runs; shares of CPU and memory are tuned, nobody below speed 1.

    Speed 1 is that of the proportional share of a host's CPU and memory, which any other policy
    assumes.

    `name`: as the command line calls it. `order`: a list policy that preempts: who runs, and who
    takes CPU and memory first. `steps`: whether a job may have a share between the fastest and that
    of speed 1; Synergy's jobs have one of the two.
    """

    name: str
    order: ListPolicy
    steps: bool = True

    @property
    def sees(self) -> frozenset[str]:
        """Columns that it reads."""
        return self.order.sees | {SPEEDS}


def _least_remaining(jobs: Columns) -> Keys:
    """Remaining time at the greatest speed, whether or not there will be room for it."""
    greatest: Ints = getattr(jobs, SPEEDS).max(axis=1)
    return jobs.remaining_us / greatest


_FIFO = ListPolicy("fifo", by_arrival, preempts=True)
_OPTIMISTIC_SRTF = ListPolicy(
    "srtf", _least_remaining, frozenset({"remaining_us", SPEEDS}), preempts=True, skips=True
)

SHARES = (
    TunedPolicy("fifo-tuned", _FIFO),
    TunedPolicy("srtf-tuned", SRTF),
    TunedPolicy("las-tuned", LEAST_SERVICE),
    TunedPolicy("fifo-synergy", _FIFO, steps=False),
    TunedPolicy("srtf-synergy", _OPTIMISTIC_SRTF, steps=False),
    TunedPolicy("las-synergy", LEAST_SERVICE, steps=False),
)


# Policies by tenant: dominant resource fairness (DRF), and counters of attained service.
# Source: Ghodsi et al., "Dominant resource fairness: fair allocation of multiple resource types",
# NSDI 2011 (algorithm 1). Sheng et al., "Fairness in serving large language models", OSDI 2024
# (virtual token counters, VTC, algorithm 2; here GPU time in place of tokens).
Held: TypeAlias = Mapping[str, Ints]
"""Per resource, what the running jobs of each tenant hold; `gpus` is always there."""


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """The tenant with the smallest key goes first, with its first job that waits.

    Jobs of a tenant are in order of arrival. The first job that does not fit ends the walk, as in
    both papers: no tenant overtakes the one that has least. Nothing is preempted. Whose turn it is
    is looked at when something happens: jobs that come, end or stop.

    `name`: as the command line calls it. `keys`: sort keys of tenants, smallest first, from what
    they hold and from their counters: GPU time in GPU-microseconds. Equal keys are in the order in
    which their first jobs arrived. `resources`: columns of the trace, beside `gpus`, whose sums
    over running jobs `keys` reads. `lifts`: whether the counter of a tenant that had no job waiting
    is raised to the least of those that had; time without demand then gives no claim to more later.
    """

    name: str
    keys: Callable[[Held, Floats], Ints | Floats]
    resources: frozenset[str] = field(default_factory=frozenset)
    lifts: bool = False

    @property
    def sees(self) -> frozenset[str]:
        """Columns that it reads."""
        return self.resources | {"tenant", "service_us"}


def dominant_resource_fairness(
    gpus: int, others: Mapping[str, float] = MappingProxyType({}), name: str = "drf"
) -> TenantPolicy:
    """Return DRF: a tenant's key is the largest share that it holds of any resource.

    `gpus`: GPUs of the cluster. `others`: further resources, columns of the trace by name, and how
    much the cluster has of each. They count in shares; whether a job fits depends on GPUs alone.
    `name`: what it is called.
    """

    def dominant_share(held: Held, counters: Floats) -> Floats:  # noqa: ARG001
        shares: Floats = held["gpus"] / gpus
        for resource, total in others.items():
            shares = np.maximum(shares, held[resource] / total)
        return shares

    return TenantPolicy(name, dominant_share, frozenset(others))


def _gpus_held(held: Held, counters: Floats) -> Ints:  # noqa: ARG001
    return held["gpus"]


def _counter(held: Held, counters: Floats) -> Floats:  # noqa: ARG001
    return counters


DRF = TenantPolicy("drf", _gpus_held)
"""With GPUs as the only resource, shares are in the order of the GPUs held."""

COUNTERS = TenantPolicy("tenant-counters", _counter, lifts=True)


def _by_turn(jobs: Columns) -> Weights:
    """Make the first job of each tenant worth most, its second half as much, and so on."""
    order = np.lexsort((jobs.numbers, jobs.tenant))
    begins = np.r_[True, np.diff(jobs.tenant[order]) != 0]
    places = np.arange(len(jobs))
    turn = np.empty(len(jobs), dtype=np.int64)
    turn[order] = 1 + places - np.maximum.accumulate(np.where(begins, places, 0))
    return Weights(value=1.0 / turn, rank=np.zeros(len(jobs), dtype=np.int64))


DRF_ROUNDS = RoundPolicy(
    "drf-rounds", _by_turn, frozenset({"tenant"}), terms=("share", "value", "disruption")
)
"""A round makes the smallest share as large as it can be, then the next, as whole jobs allow."""


# Muri: interleaving of jobs that take turns at resources, ordered by SRSF or by 2D-LAS.
#
# Source: Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022.
STAGES = ("iteration_us", "stage_0_us", "stage_1_us", "stage_2_us")
"""Columns of a trace by which groups are formed: times of an iteration, and of its stages."""

_MERGES: tuple[tuple[str, Literal["best", "muri"]], ...] = (("", "best"), ("-matching", "muri"))

GROUPINGS = tuple(
    GroupPolicy(name + way, partial(_gpu_time, column), frozenset({column, *STAGES}), merges)
    for way, merges in _MERGES
    for name, column in (("muri-s", "remaining_us"), ("muri-l", "service_us"))
)


Policy: TypeAlias = (
    ListPolicy
    | TunedPolicy
    | TenantPolicy
    | QuotaPolicy
    | GroupPolicy
    | RoundPolicy
    | ElasticPolicy
)

_POLICIES: tuple[Policy, ...] = (
    *(FIFO, FIT_FIRST, EASY, SJF, _by("predicted_us", "sjf-predicted"), QSSF, EDF, SRTF, SRSF),
    *(LEAST_SERVICE, ListPolicy("smallest", attrgetter("gpus"), preempts=True, skips=True)),
    *(SJU, SJG, SJGG, LAS, GITTINS, DRF, COUNTERS, DRF_ROUNDS, HIVED, GPU_QUOTA),
    *SHARES,
    SMITH,
    *GROUPINGS,
    *ELASTIC,
    ELASTICFLOW,
    *FAIR_TIME,
    *TENANT_ROUNDS,
)
POLICIES = {policy.name: policy for policy in _POLICIES}
"""The policies by name."""


def policy_named(name: str) -> Policy:
    """Return the policy of a name; `FILE:NAME` a policy of a Python file, which is run.

    Raises InvalidInputError if there is none.
    """
    file, colon, own = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _policy_of_file(name, file, own)
    if name not in POLICIES:
        raise InvalidInputError(
            f"expected one of {', '.join(sorted(POLICIES))}", path=("policy",), value=name
        )
    return POLICIES[name]


def _policy_of_file(text: str, file: str, name: str) -> Policy:
    try:
        policy = run_path(file).get(name)
    except (OSError, SyntaxError) as error:
        raise InvalidInputError(
            f"expected a Python file that can be run ({error})", path=("policy",), value=text
        ) from None
    if not isinstance(policy, Policy):
        raise InvalidInputError(
            f"expected that {file} defines {name} as a ListPolicy, TenantPolicy, TunedPolicy, "
            "GroupPolicy, RoundPolicy or ElasticPolicy",
            path=("policy",),
            value=text,
        )
    return policy
