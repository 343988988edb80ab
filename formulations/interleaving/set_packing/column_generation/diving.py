"""Diving: fix columns of an LP solution, solve the LP of what is left, and repeat.

Columns that the LP uses integrally are fixed, and of the fractional ones those of largest value.
The LP over the columns that still fit then completes them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    Grouping,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation.master import (
    MasterSolution,
    solve_master,
)
from placewright.formulations.session import Session

INTEGRAL = 1 - 1e-6
"""LP value from which a column counts as used once."""


def dive(packing: PackingProblem, solution: MasterSolution, session: Session) -> Grouping | None:
    """Return a grouping by diving from a master LP; None without time, or if one must wait.

    The relaxation is that of the packing problem.
    """
    chosen = [np.zeros((0, 4), dtype=np.int64)]
    value, left = 0, packing
    while len(solution.columns):
        fixed, left = _fix_columns(left, solution)
        if not len(fixed):
            break
        chosen.append(solution.columns.members[fixed])
        value += int(solution.columns.value[fixed].sum())
        columns = solution.columns.take(_columns_that_fit(left, solution.columns.members))
        solved = solve_master(left, columns, session) if len(columns) else None
        if solved is None:
            break
        solution = solved
    if left.count[packing.must_cover].any() or (left.limit < 0).any():
        return None
    return Grouping(np.concatenate(chosen), value, "diving")


def _fix_columns(packing: PackingProblem, solution: MasterSolution) -> tuple[Ints, PackingProblem]:
    """Return the columns to fix, repeated as often as used, and the residual problem."""
    members, values = solution.columns.members, solution.values
    use = packing.usage(members)
    count, limit = packing.count.copy(), packing.limit.copy()
    enough = parameters.PARAMETERS.min_dive_share * values.sum()
    fixed: list[int] = []
    order = np.argsort(-values, kind="stable")
    for column in order[values[order] > 0].tolist():
        if values[column] < parameters.PARAMETERS.min_dive_value and len(fixed) >= enough:
            break
        present = members[column][members[column] != ALONE]
        for _ in range(max(int(values[column] + 1 - INTEGRAL), 1)):
            after = count.copy()
            np.subtract.at(after, present, 1)
            if (after < 0).any() or (use[column] > limit).any():
                break
            count, limit = after, limit - use[column]
            fixed.append(column)
    return np.array(fixed, dtype=np.int64), replace(packing, count=count, limit=limit)


def _columns_that_fit(packing: PackingProblem, members: Ints) -> Bools:
    """Return which columns the remaining jobs and rows still allow."""
    often = (members[:, :, None] == members[:, None, :]).sum(axis=2)
    enough = (members == ALONE) | (often <= packing.count[members])
    fits: Bools = enough.all(axis=1) & (packing.usage(members) <= packing.limit).all(axis=1)
    return fits
