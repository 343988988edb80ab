"""Policies whose running jobs get shares of CPU and memory by what they gain (Synergy-TUNE).

References
----------
Mohan et al., "Looking beyond GPUs for DNN scheduling on multi-tenant clusters", OSDI 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from placewright.array_types import Ints
from placewright.instances.traces.papers import SPEEDS
from placewright.rounds.policies.base import Columns, Keys, ListPolicy, by_arrival
from placewright.rounds.policies.lists import LEAST_SERVICE, SRTF


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
