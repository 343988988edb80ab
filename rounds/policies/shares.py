"""Policies whose running jobs get shares of CPU and memory by what they gain (Synergy-TUNE).

References
----------
Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from placewright.array_types import Ints
from placewright.instances.traces.synergy import SPEEDS
from placewright.rounds.policies.base import Columns, Keys, ListPolicy, by_arrival
from placewright.rounds.policies.lists import LEAST_SERVICE


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
    """Remaining time at the greatest speed."""
    greatest: Ints = getattr(jobs, SPEEDS).max(axis=1)
    return jobs.remaining_ms / greatest


_ORDERS = {
    "fifo": ListPolicy("fifo", by_arrival, preempts=True, skips=True),
    "srtf": ListPolicy(
        "srtf",
        _least_remaining,
        frozenset({"remaining_ms", SPEEDS}),
        preempts=True,
        skips=True,
    ),
    "las": LEAST_SERVICE,
}

SHARES = {
    policy.name: policy
    for name, order in _ORDERS.items()
    for policy in (
        TunedPolicy(f"{name}-synergy", order, steps=False),
        TunedPolicy(f"{name}-tuned", order),
    )
}
