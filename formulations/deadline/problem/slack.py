"""Slack: milli-GPU leases that promises leave before each time; a quick filter of alternatives.

Until time T an alternative needs at least the leases that it cannot have after T (demand-bound
test). So the promises of a schedule never need more than all leases before T have, and an
alternative that would is rejected without a look at single leases.

An alternative that needs n leases before `end` must begin by end - n: before that nothing is
forced, one lease more in each lease from there to `end`, and all n afterwards. Two numbers describe
it, and no array is as large as alternatives times leases.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.problem import NONE, Problem


def forced_leases(problem: Problem, alternatives: Ints, leases: Ints) -> Ints:
    """Return the leases each alternative needs by each lease's end (alternatives, leases)."""
    late = problem.end[alternatives] - problem.need[alternatives]
    needed: Ints = np.clip(leases + 1 - late[:, None], 0, problem.need[alternatives, None])
    return needed


class Slack:
    """Residual milli-GPU leases before each T, with the forced demand of promises taken off.

    Attributes
    ----------
    residual
        (rows, horizon): for T of 1 to the horizon; negative where the promises cannot all be kept.
    """

    def __init__(self, problem: Problem, alternative: Ints) -> None:
        self.problem = problem
        self._steps = np.arange(1, problem.horizon + 1)
        alternatives = alternative[alternative != NONE]
        # Forced demand rises from lease to lease from an alternative's latest start to its end.
        rise = np.zeros((problem.horizon + 1, len(problem.capacity)), dtype=np.int64)
        np.add.at(
            rise,
            problem.end[alternatives] - problem.need[alternatives],
            problem.demand[alternatives],
        )
        np.subtract.at(rise, problem.end[alternatives], problem.demand[alternatives])
        taken = rise[:-1].cumsum(axis=0).cumsum(axis=0).T
        self.residual: Ints = problem.capacity.cumsum(axis=1) - taken

    def add(self, alternative: int) -> None:
        """Add the forced demand of a promise."""
        self._change(alternative, -1)

    def drop(self, alternative: int) -> None:
        """Remove the forced demand of a promise."""
        self._change(alternative, 1)

    def admits(self, alternative: int) -> bool:
        """Whether one more promise may fit; False is certain."""
        late, end, need = self._latest_start(alternative)
        demand = self.problem.demand[alternative][:, None]
        return bool(
            late >= self.problem.first[alternative]
            and (self.residual[:, :late] >= 0).all()
            and (self.residual[:, late:end] >= demand * self._steps[:need]).all()
            and (self.residual[:, end:] >= demand * need).all()
        )

    def admits_each(self, alternatives: Ints) -> Bools:
        """Return whether each alternative, alone, may fit beside the promises (alternatives,)."""
        problem = self.problem
        need, end = problem.need[alternatives], problem.end[alternatives]
        late = end - need
        fits: Bools = late >= problem.first[alternatives]
        for row, left in enumerate(self.residual):
            demand = problem.demand[alternatives, row]
            before = np.append(0, np.minimum.accumulate(left))
            after = np.append(np.minimum.accumulate(left[::-1])[::-1], np.iinfo(np.int64).max)
            fits &= (before[np.maximum(0, late)] >= 0) & (after[end] >= demand * need)
            for each in np.unique(demand[fits]).tolist():
                mine = np.flatnonzero(fits & (demand == each))
                ramp = left - each * self._steps
                least = _range_minimum(ramp, late[mine], end[mine])
                fits[mine] = least >= -each * late[mine]
        return fits

    def _latest_start(self, alternative: int) -> tuple[int, int, int]:
        end, need = int(self.problem.end[alternative]), int(self.problem.need[alternative])
        return end - need, end, need

    def _change(self, alternative: int, sign: int) -> None:
        late, end, need = self._latest_start(alternative)
        demand = sign * self.problem.demand[alternative][:, None]
        self.residual[:, late:end] += demand * self._steps[:need]
        self.residual[:, end:] += demand * need


def _range_minimum(values: Ints, first: Ints, end: Ints) -> Ints:
    """Return the minimum of the values over each interval, none empty (sparse table).

    The minima of all runs of 1, 2, 4, ... values are made once; two of them cover an interval.
    """
    runs, length = [values], end - first
    for step in range(int(length.max(initial=1)).bit_length() - 1):
        runs.append(np.minimum(runs[-1][: -(1 << step)], runs[-1][1 << step :]))
    level = np.frexp(length.astype(np.float64))[1] - 1
    least = np.empty(len(length), dtype=np.int64)
    for step, run in enumerate(runs):
        of = np.flatnonzero(level == step)
        least[of] = np.minimum(run[first[of]], run[end[of] - (1 << step)])
    return least
