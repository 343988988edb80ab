"""Smith's rule as weights of rounds: a job is worth one over its remaining time.

Per GPU-second a job is then worth what the shortest remaining service first (SRSF) orders by, but
a round decides which jobs together are worth most, where the list takes them one by one.

References
----------
Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 1956.
"""

from __future__ import annotations

import numpy as np

from placewright.rounds.policies.base import Columns, RoundPolicy, Weights

LEAST_MS = 1000
"""Remaining times below are taken as this, so that a job about to end does not dwarf all others."""


def smith_weights(jobs: Columns) -> Weights:
    """Return values of 1 / remaining time; less remaining GPU time may preempt more."""
    remaining = np.maximum(jobs.remaining_ms, LEAST_MS)
    return Weights(value=1.0 / remaining, rank=remaining * jobs.gpus)


SMITH = RoundPolicy("smith", smith_weights, frozenset({"remaining_ms"}))
