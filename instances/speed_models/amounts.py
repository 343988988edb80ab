"""From measured speeds to whole numbers, the only ones that documents have."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.option import TaskGroup
from placewright.instances.errors import InvalidInputError, Path

SCALE = 1000
"""What one unit of speed-up counts in `value` or `progress`, unless the caller says otherwise."""

WORKER = TaskGroup(gpu=1)
"""A worker with one GPU."""


def whole(amount: float, path: Path) -> int:
    """Round an amount to the nearest integer that a document may hold.

    Raises InvalidInputError if it is negative, too large or no number.
    """
    if not 0 <= amount <= MAX_AMOUNT:  # not a number fails, too
        raise InvalidInputError(f"expected 0 to {MAX_AMOUNT}", path, amount)
    return round(amount)


def positive(amount: float, path: Path) -> float:
    """Return an amount that is above 0 and finite.

    Raises InvalidInputError if it is not.
    """
    if not (isfinite(amount) and amount > 0):
        raise InvalidInputError("expected a number above 0", path, amount)
    return amount


def power_gains(speedups: Mapping[int, float], power: float, scale: int) -> dict[int, int]:
    """Return what each size gains over the slowest, so that sums rank as a power mean does.

    scale * (S^p - S_0^p) / p, with S_0 the least speed-up. For a given set of jobs the sum of these
    is largest where (1/J sum_j S_j^p)^(1/p) is: p = 1 adds speed-ups, p = -1 is the harmonic mean,
    and the smaller p the more the slowest job counts.

    `speedups`: speed of each size, over that of some reference; above 0. `power`: p, not 0. Raises
    InvalidInputError if a speed-up or the power is out of range; the path begins with `speeds` or
    is `power`.
    """
    if power == 0 or not isfinite(power):
        raise InvalidInputError("expected a number other than 0", ("power",), power)
    raised = {n: positive(s, ("speeds", n)) ** power for n, s in speedups.items()}
    least = min((r / power for r in raised.values()), default=0.0)
    return {n: whole(scale * (r / power - least), ("speeds", n)) for n, r in raised.items()}


def workers(worker: TaskGroup, count: int) -> TaskGroup:
    """Return a group of `count` such workers."""
    return worker.model_copy(update={"count": worker.count * count})
