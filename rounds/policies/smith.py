"""Smith's rule as weights of rounds: a job is worth one over its remaining time.

Per GPU-second a job is then worth what the shortest remaining service first (SRSF) orders by, but
a round decides which jobs together are worth most, where the list takes them one by one.

References
----------
Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly 1956.
"""

from __future__ import annotations

import numpy as np

from placewright.rounds.policies.base import Columns
from placewright.rounds.replay.round_decider import RoundPolicy, Weights


def smith_weights(jobs: Columns) -> Weights:
    """Return values of 1 / remaining time; less remaining GPU time may preempt more."""
    remaining = np.maximum(jobs.remaining_ms, 1)
    return Weights(value=1.0 / remaining, rank=remaining * jobs.gpus)


SMITH = RoundPolicy("smith", smith_weights, frozenset({"remaining_ms"}))
