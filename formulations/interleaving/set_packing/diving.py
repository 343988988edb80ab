"""From a relaxation over some columns to a choice of them: fix, relax what is left, and again.

Columns that the relaxation uses whole are fixed, and of those that it uses in part the ones it uses
most. What they take is gone; the relaxation over the columns that still fit says what goes best
with them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.master import (
    Relaxation,
    relaxed_over,
)
from placewright.formulations.interleaving.set_packing.problem import (
    ALONE,
    Bools,
    Grouping,
    Ints,
    Pool,
)
from placewright.formulations.session import Session

WHOLE = 1 - 1e-6
"""Used at least so often, a column counts as used once."""

SURE = 0.7
"""Columns of at least such a value are fixed at once."""

LEAST = 0.1
"""Of all that is used: what is fixed per step at least."""


def dived(pool: Pool, relaxed: Relaxation, session: Session) -> Grouping | None:
    """Return a grouping of the columns of a relaxation; None without time or where one must wait.

    The relaxation is that of the pool.
    """
    chosen = [np.zeros((0, 4), dtype=np.int64)]
    value, left = 0, pool
    while len(relaxed.columns):
        fixed, left = _fixed(left, relaxed)
        if not len(fixed):
            break
        chosen.append(relaxed.columns.members[fixed])
        value += int(relaxed.columns.worth[fixed].sum())
        columns = relaxed.columns.take(_fitting(left, relaxed.columns.members))
        solved = relaxed_over(left, columns, session) if len(columns) else None
        if solved is None:
            break
        relaxed = solved
    if left.count[pool.must].any() or (left.limit < 0).any():
        return None
    return Grouping(np.concatenate(chosen), value, "diving")


def _fixed(pool: Pool, relaxed: Relaxation) -> tuple[Ints, Pool]:
    """Return columns to use, one as often as it stands there, and the pool that they leave."""
    members, values = relaxed.columns.members, relaxed.values
    use = pool.use(members)
    count, limit = pool.count.copy(), pool.limit.copy()
    enough = LEAST * values.sum()
    fixed: list[int] = []
    order = np.argsort(-values, kind="stable")
    for column in order[values[order] > 0].tolist():
        if values[column] < SURE and len(fixed) >= enough:
            break
        present = members[column][members[column] != ALONE]
        for _ in range(max(int(values[column] + 1 - WHOLE), 1)):
            after = count.copy()
            np.subtract.at(after, present, 1)
            if (after < 0).any() or (use[column] > limit).any():
                break
            count, limit = after, limit - use[column]
            fixed.append(column)
    return np.array(fixed, dtype=np.int64), replace(pool, count=count, limit=limit)


def _fitting(pool: Pool, members: Ints) -> Bools:
    """Tell for which columns there are still jobs and room."""
    often = (members[:, :, None] == members[:, None, :]).sum(axis=2)
    enough = (members == ALONE) | (often <= pool.count[members])
    fits: Bools = enough.all(axis=1) & (pool.use(members) <= pool.limit).all(axis=1)
    return fits
