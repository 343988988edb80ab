"""Policies by tenant: dominant resource fairness (DRF), and counters of attained service.

References
----------
Ghodsi et al., "Dominant resource fairness: fair allocation of multiple resource types", NSDI 2011
(algorithm 1). Sheng et al., "Fairness in serving large language models", OSDI 2024 (virtual token
counters, VTC, algorithm 2; here GPU time in place of tokens).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.rounds.policies.base import Columns, RoundPolicy, Weights

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
