"""What no scheduler can beat over a trace, even one that knows every job to come.

The relaxation: a job that takes a deadline gets its whole run time, in seconds of all its GPUs,
between its submission and that deadline; seconds may be cut as finely as one likes, stopping and
placing cost nothing, and the seconds of one job do not overlap. GPUs are counted. Each bin of time
then has a price per GPU-second. At any prices the value of all deadlines met is at most

    sum over bins of price x GPU-seconds  +  sum over jobs of max(0, value - cheapest run time)

where the best deadline counts, and the cheapest run time of a job before a deadline is what its
cheapest seconds there cost. Prices are found by subgradient steps; whatever they are, the bound
holds.

References
----------
Held, Wolfe, Crowder, "Validation of subgradient optimization", Mathematical Programming 6 (1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.converters.support.trace_rounds import TraceJob

__all__ = ["value_at_most"]

STEPS = 150
PATIENCE = 5
"""Steps without a better bound after which they become half as long."""


@dataclass(frozen=True, slots=True)
class _Runs:
    """The pieces of bins that lie between a job's submission and a deadline, one after another.

    `alternative` is the pair of job and deadline that a piece is for, `bin` its bin, `seconds` how
    long it is. Of each alternative `job`, `gpus`, `work` (seconds) and `value`.
    """

    alternative: Ints
    bin: Ints
    seconds: Floats
    job: Ints
    gpus: Floats
    work: Floats
    value: Floats


def value_at_most(jobs: Sequence[TraceJob], gpus: int, *, bin_s: int, steps: int = STEPS) -> float:
    """Return an upper bound of the value of the deadlines of a trace on a number of GPUs.

    Parameters
    ----------
    bin_s
        Seconds that have one price; the bound is the tighter the fewer.
    steps
        How often prices change.
    """
    runs, bins = _runs(jobs, bin_s)
    capacity = float(gpus * bin_s)
    prices = np.zeros(bins)
    # A price per GPU-second as high as the densest alternative makes every alternative worthless.
    length = float((runs.value / (runs.gpus * runs.work)).max(initial=0.0)) / 4
    best, since = np.inf, 0
    for _ in range(steps):
        bound, used = _priced(runs, prices, capacity)
        if bound < best * (1 - 1e-6):
            best, since = bound, 0
        else:
            since += 1
            if since >= PATIENCE:
                length, since = length / 2, 0
        prices = np.maximum(0.0, prices + length * (used - capacity) / capacity)
    return best


def _runs(jobs: Sequence[TraceJob], bin_s: int) -> tuple[_Runs, int]:
    """Return the pieces of all jobs that some deadline suits, and how many bins there are."""
    alternatives = [
        (number, job.gpus, job.duration_s, value, job.submit_s, at)
        for number, job in enumerate(jobs)
        for at, value in job.due
        if at - job.submit_s >= job.duration_s
    ]
    table = np.array(alternatives, dtype=np.int64).reshape(-1, 6)
    start, end = table[:, 4], table[:, 5]
    first, last = start // bin_s, -(-end // bin_s)
    count = last - first
    alternative = np.repeat(np.arange(len(table)), count)
    bin_ = (
        np.arange(len(alternative))
        - np.repeat(np.cumsum(count) - count, count)
        + first[alternative]
    )
    begins, ends = (
        np.maximum(start[alternative], bin_ * bin_s),
        np.minimum(end[alternative], (bin_ + 1) * bin_s),
    )
    runs = _Runs(
        alternative,
        bin_,
        (ends - begins).astype(np.float64),
        table[:, 0],
        *(table[:, column].astype(np.float64) for column in (1, 2, 3)),
    )
    return runs, int(last.max(initial=0))


def _priced(runs: _Runs, prices: Floats, capacity: float) -> tuple[float, Floats]:
    """Return the bound at these prices, and the GPU-seconds of each bin that are used."""
    order = np.lexsort((prices[runs.bin], runs.alternative))
    alternative, bin_, seconds = runs.alternative[order], runs.bin[order], runs.seconds[order]
    before = np.cumsum(seconds) - seconds
    begins = np.searchsorted(alternative, np.arange(len(runs.job)))
    before -= before[begins][alternative]
    taken = np.clip(runs.work[alternative] - before, 0.0, seconds) * runs.gpus[alternative]
    cost = np.bincount(alternative, weights=taken * prices[bin_], minlength=len(runs.job))
    left = runs.value - cost
    # The best alternative of each job, if its value exceeds its cost.
    ranked = np.lexsort((-left, runs.job))
    best = ranked[np.unique(runs.job[ranked], return_index=True)[1]]
    best = best[left[best] > 0]
    chosen = np.zeros(len(runs.job), dtype=np.bool_)
    chosen[best] = True
    mine = chosen[alternative]
    used = np.zeros(len(prices))
    np.add.at(used, bin_[mine], taken[mine])
    return float(prices.sum() * capacity + left[best].sum()), used
