"""Smith's rule as weights of rounds: a job is worth one over its remaining time.

Per GPU-second a job is then worth what the shortest remaining service first (SRSF) orders by, but
a round decides which jobs together are worth most, where the list takes them one by one.

References
----------
Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 1956.
"""

from __future__ import annotations

import numpy as np

from placewright.instances.traces.trace import SECOND
from placewright.rounds.policies.base import Columns, RoundPolicy, Weights, gpu_time

LEAST_US = SECOND
"""Remaining times below are taken as this, so that a job about to end does not dwarf all others."""


def smith_weights(jobs: Columns) -> Weights:
    """Return values of 1 / remaining time; less remaining GPU time may preempt more."""
    remaining = np.maximum(jobs.remaining_us, LEAST_US)
    return Weights(value=1.0 / remaining, rank=gpu_time(remaining, jobs.gpus))


SMITH = RoundPolicy("smith", smith_weights, frozenset({"remaining_us"}))
