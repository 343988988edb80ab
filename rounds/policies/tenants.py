"""Policies by tenant and by share: dominant resource fairness, quotas, Synergy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.traces.papers import SPEEDS
from placewright.rounds.policies.base import (
    Columns,
    Keys,
    ListPolicy,
    RoundPolicy,
    Weights,
    by_arrival,
)
from placewright.rounds.policies.lists import LEAST_SERVICE, SRTF

# Quotas of tenants: cells as in HiveD, or numbers of GPUs.
#
# References
# ----------
# Zhao et al., "HiveD: sharing a GPU cluster for deep learning with guarantees", OSDI 2020.


Guarantee: TypeAlias = Literal["cells", "gpus"]


@dataclass(frozen=True, slots=True)
class QuotaPolicy:
    """Jobs inside the quota of their tenant are guaranteed, the others opportunistic.

    A tenant with a quota has guaranteed jobs: in order of arrival, the first that its quota has no
    room for ends the walk through its list, and none runs outside the quota. Jobs that are larger
    than the quota, and those of tenants without one, are opportunistic: they start in order of
    arrival where GPUs are free, skipping who does not fit, and are preempted when a guaranteed job
    needs their GPUs.

    Parameters
    ----------
    name
        As the command line calls it.
    guarantee
        `cells`: a tenant owns cells, of a power of two of GPUs on one host, and its jobs start
        wherever a cluster of these alone would start them. `gpus`: it owns as many GPUs,
        anywhere; a job that none of the hosts has room for waits.
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
#
# References
# ----------
# Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI 2022.


@dataclass(frozen=True, slots=True)
class TunedPolicy:
    """An order decides who runs; shares of CPU and memory are tuned, nobody below speed 1.

    Speed 1 is that of the proportional share of a host's CPU and memory, which any other policy
    assumes.

    Parameters
    ----------
    name
        As the command line calls it.
    order
        A list policy that preempts: who runs, and who takes CPU and memory first.
    steps
        Whether a job may have a share between the fastest and that of speed 1; Synergy's jobs have
        one of the two.
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

SHARES = {
    policy.name: policy
    for policy in (
        TunedPolicy("fifo-tuned", _FIFO),
        TunedPolicy("srtf-tuned", SRTF),
        TunedPolicy("las-tuned", LEAST_SERVICE),
        TunedPolicy("fifo-synergy", _FIFO, steps=False),
        TunedPolicy("srtf-synergy", _OPTIMISTIC_SRTF, steps=False),
        TunedPolicy("las-synergy", LEAST_SERVICE, steps=False),
    )
}


# Policies by tenant: dominant resource fairness (DRF), and counters of attained service.
#
# References
# ----------
# Ghodsi et al., "Dominant resource fairness: fair allocation of multiple resource types", NSDI 2011
# (algorithm 1). Sheng et al., "Fairness in serving large language models", OSDI 2024 (virtual token
# counters, VTC, algorithm 2; here GPU time in place of tokens).


Held: TypeAlias = Mapping[str, Ints]
"""Per resource, what the running jobs of each tenant hold; `gpus` is always there."""


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """The tenant with the smallest key goes first, with its first job that waits.

    Jobs of a tenant are in order of arrival. The first job that does not fit ends the walk, as in
    both papers: no tenant overtakes the one that has least. Nothing is preempted. Whose turn it is
    is looked at when something happens: jobs that come, end or stop.

    Parameters
    ----------
    name
        As the command line calls it.
    keys
        Sort keys of tenants, smallest first, from what they hold and from their counters: GPU time
        in GPU-microseconds. Equal keys are in the order in which their first jobs arrived.
    resources
        Columns of the trace, beside `gpus`, whose sums over running jobs `keys` reads.
    lifts
        Whether the counter of a tenant that had no job waiting is raised to the least of those that
        had; time without demand then gives no claim to more later.
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

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    others
        Further resources, columns of the trace by name, and how much the cluster has of each. They
        count in shares; whether a job fits depends on GPUs alone.
    name
        What it is called.
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
