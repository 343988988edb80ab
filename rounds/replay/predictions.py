"""Predicted running times with the errors that a predictor has.

References
----------
Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU
datacenters", SC 2021 (Helios); the distribution is that of its artifact.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints

Predictions: TypeAlias = Literal["trace", "helios"]
"""Those of the trace, or the true running times with the errors of Helios's predictor."""

LEVELS = (0.1, 0.5, 0.7, 0.9)
"""Shares of jobs whose error is at most that of each of `ERRORS` but the last."""

ERRORS = (0.1, 0.5, 1.0, 10.0, 100.0)
"""Relative errors; within a level they are uniform from the one before, of either sign."""

_STREAM = 1
"""Tells these draws from others of the same seed."""


def helios_errors(jobs: int, rng: np.random.Generator) -> Floats:
    """Draw relative errors of predictions: 10 % of jobs within 10 %, 50 % within 50 % ..."""
    level = np.searchsorted(LEVELS, rng.random(jobs))
    most = np.array(ERRORS)[level]
    least = np.array((0.0, *ERRORS))[level]
    size = least + (most - least) * rng.random(jobs)
    errors: Floats = size * rng.choice((-1, 1), jobs)
    return errors


def predicted_with_errors(work_us: Ints, seed: int) -> Ints:
    """Return predictions of running times with Helios's errors; those below 0 count as 1 µs."""
    errors = helios_errors(len(work_us), np.random.default_rng((seed, _STREAM)))
    predicted: Ints = np.rint(work_us * np.maximum(1 + errors, 0)).astype(np.int64)
    return np.maximum(predicted, 1)
