"""Distributions as quantiles in a random order: exact in shape at any sample size.

A distribution over n things is its quantiles at 1/n, 2/n ... 1 (the last one at 1 - 1/2n). So the
percentiles of a round are those asked for, not those of a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.instances.generators.mixes import PER_MILLE

READERS = ((0.5, 3.0), (0.9, 17.0), (0.99, 45.0))
"""Workloads that read a dataset, as MAST (OSDI'24) was reported to have them."""

MEDIAN_GIB = 2048
SIGMA = 1.5
JOBS_SIGMA = 1.0
REGION_SIGMA = 0.5

THROUGHPUT_MBPS = (
    (0.0, 120.0),
    (0.05, 2050.0),
    (0.1, 2690.0),
    (0.25, 3480.0),
    (0.5, 4360.0),
    (0.75, 5350.0),
    (0.9, 7190.0),
    (0.95, 12050.0),
    (1.0, 26440.0),
)
RTT_US = (
    (0.0, 1540.0),
    (0.05, 15870.0),
    (0.1, 30840.0),
    (0.25, 95550.0),
    (0.5, 153360.0),
    (0.75, 215370.0),
    (0.9, 258550.0),
    (0.95, 294320.0),
    (1.0, 430910.0),
)
"""Percentiles of a grid of 63 cloud regions, measured in January 2022 (premium tiers)."""


def positions(count: int) -> Floats:
    """Return the `count` probabilities at which quantiles are taken."""
    at = (np.arange(count) + 1.0) / max(count, 1)
    at[count - 1 :] = 1 - 0.5 / max(count, 1)
    return at


def normal(at: Floats) -> Floats:
    """Return quantiles of the standard normal distribution."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(p) for p in at.tolist()], dtype=np.float64)


def log_normal(count: int, sigma: float) -> Floats:
    """Return rising quantiles of a log-normal distribution of median 1."""
    return np.exp(sigma * normal(positions(count)))


def readers(count: int) -> Ints:
    """Return ascending numbers of readers, with logarithm piecewise linear in the normal quantile.

    It goes through the three percentiles of `READERS`, and on beyond them with the same slopes.
    """
    knots = normal(np.array([p for p, _ in READERS]))
    heights = [log(many) for _, many in READERS]
    at = normal(positions(count))
    piece = (at > knots[1]).astype(np.int64)
    slopes = np.diff(heights) / np.diff(knots)
    value = np.exp(np.array(heights)[piece] + slopes[piece] * (at - knots[piece]))
    return as_counts(value)


def as_counts(values: Floats) -> Ints:
    """Return the nearest whole numbers, at least 1."""
    counts: Ints = np.maximum(1, np.rint(values)).astype(np.int64)
    return counts


def interpolated(table: Sequence[tuple[float, float]], uniform: Floats) -> Ints:
    """Turn uniform draws into values by a table of percentiles, linear between them."""
    at, value = np.array(table).T
    return as_counts(np.interp(uniform, at, value))


def order(rng: np.random.Generator, count: int) -> Ints:
    """Return a random permutation of `count` indices."""
    shuffled: Ints = np.argsort(rng.random(count), kind="stable")
    return shuffled


def chosen(rng: np.random.Generator, count: int, per_mille: int) -> NDArray[np.bool_]:
    """Draw `count` Bernoulli trials, each true with `per_mille` thousandths (count,)."""
    return np.floor(rng.random(count) * PER_MILLE) < per_mille


def apportion(total: int, weights: Floats) -> Ints:
    """Split a whole number by weights, by largest remainders; ties to the first."""
    exact = total * weights / weights.sum()
    whole: Ints = np.floor(exact).astype(np.int64)
    rest = np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]
    whole[rest] += 1
    return whole
