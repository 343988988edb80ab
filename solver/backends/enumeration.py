"""Exhaustive enumeration: the oracle for tiny integer models."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats
from placewright.solver.arrays import ALWAYS, Arrays, UnsupportedModelError, row_slack
from placewright.solver.outcome import Limits, Outcome, Report, Status, audit

MOST_POINTS = 2_000_000
"""The largest box that is searched."""

_CHUNK = 1 << 15


@dataclass(frozen=True, slots=True)
class _Search:
    """The unconditional rows, dense, and how much the columns from each depth on can add."""

    matrix: Floats
    row_lower: Floats
    row_upper: Floats
    least: Floats
    most: Floats


def solve(
    arrays: Arrays,
    limits: Limits,  # noqa: ARG001
    start: Floats | None = None,  # noqa: ARG001
    report: Report | None = None,  # noqa: ARG001
) -> Outcome:
    """Try every point; the first best one in lexicographic order wins. Limits do not matter.

    Raises UnsupportedModelError if a column is continuous or the box has more than `MOST_POINTS`
    points.
    """
    began = time.monotonic()
    _check_size(arrays)
    search = _prepare(arrays)
    best: Floats | None = None
    value = -math.inf
    for points in _leaves(arrays, search, np.zeros((1, 0)), 0):
        for point_value, point in _feasible(arrays, points, value):
            value, best = point_value, point
    outcome = Outcome(
        Status.INFEASIBLE if best is None else Status.OPTIMAL,
        values=best,
        objective=None if best is None else arrays.objective_of(best),
        bound=None if best is None else arrays.objective_of(best),
        seconds=time.monotonic() - began,
        backend="enumeration",
        version=f"numpy {np.__version__}",
    )
    return audit(arrays, outcome)


def _check_size(arrays: Arrays) -> None:
    if not arrays.integer.all():
        column = int(np.flatnonzero(~arrays.integer)[0])
        raise UnsupportedModelError(f"column {column} is continuous; enumeration needs integers")
    points = float(np.prod(arrays.upper - arrays.lower + 1))
    if points > MOST_POINTS:
        raise UnsupportedModelError(
            f"the column bounds hold {points:g} points; at most {MOST_POINTS} were expected"
        )


def _prepare(arrays: Arrays) -> _Search:
    matrix = np.zeros((arrays.rows, arrays.columns))
    matrix[arrays.entry_rows(), arrays.indices] = arrays.data
    always = arrays.when == ALWAYS
    matrix = matrix[always]
    ends = np.stack([matrix * arrays.lower, matrix * arrays.upper])

    def from_each_depth(part: Floats) -> Floats:
        sums = np.cumsum(part[:, ::-1], axis=1)[:, ::-1]
        return np.concatenate([sums, np.zeros((len(part), 1))], axis=1)

    lower, upper = arrays.row_lower[always], arrays.row_upper[always]
    return _Search(
        matrix,
        lower - row_slack(lower, 1e-6),
        upper + row_slack(upper, 1e-6),
        from_each_depth(ends.min(axis=0)),
        from_each_depth(ends.max(axis=0)),
    )


def _leaves(arrays: Arrays, search: _Search, points: Floats, depth: int) -> Iterator[Floats]:
    """Yield whole points below these prefixes, in lexicographic order, chunk by chunk."""
    activity = points @ search.matrix[:, :depth].T
    keep = (activity + search.least[:, depth] <= search.row_upper).all(axis=1)
    keep &= (activity + search.most[:, depth] >= search.row_lower).all(axis=1)
    points = points[keep]
    if depth == arrays.columns:
        yield points
        return
    choices = np.arange(arrays.lower[depth], arrays.upper[depth] + 1)
    step = max(1, _CHUNK // len(choices))
    for first in range(0, len(points), step):
        prefix = points[first : first + step]
        grown = np.column_stack(
            [np.repeat(prefix, len(choices), axis=0), np.tile(choices, len(prefix))]
        )
        yield from _leaves(arrays, search, grown, depth + 1)


def _feasible(arrays: Arrays, points: Floats, value: float) -> Iterator[tuple[float, Floats]]:
    """Yield ever better feasible points; rows with conditions are checked here, point by point."""
    merit = arrays.sign * (points @ arrays.cost)
    conditional = bool((arrays.when != ALWAYS).any()) or arrays.intervals is not None
    while (candidates := np.flatnonzero(merit > value)).size:
        chosen = candidates[np.argmax(merit[candidates])]
        if not conditional or arrays.feasible(points[chosen]):
            value = float(merit[chosen])
            yield value, points[chosen]
        merit[chosen] = -math.inf
