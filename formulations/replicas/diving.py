"""A relaxation of which some datasets become whole, one after the other, the dearest doubt first.

Branch and bound begins with a vertex, and where the simplex method takes minutes for that it never
comes to a point. An interior-point method takes seconds for each relaxation, and some dozen of
them are enough to make the largest datasets whole: most are in an optimum, or become so with what
others are rounded to. What is rounded is never taken back, so it costs more than branching would.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.branching import Relaxed, relaxed_if_any
from placewright.formulations.replicas.partly import copies_of
from placewright.formulations.replicas.program import Program
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools
from placewright.solver import Arrays

SLIGHT = 0.01
"""A dataset of which so much of a copy is in doubt counts as whole."""


def dive(
    program: Program, arrays: Arrays, found: Relaxed, datasets: Bools, session: Session, end: float
) -> Relaxed | None:
    """Return a relaxation with the datasets of a mask (datasets,) whole but for tolerance.

    None where both ways to round one leave no point, or when so many seconds are left at most.

    Parameters
    ----------
    arrays, found
        A relaxation of the program, and what it says.
    """
    pool, undecided = program.pool, datasets.copy()
    while found.point is not None:
        copies = copies_of(program, found)
        parts = np.minimum(copies, 1 - copies).clip(0.0)
        doubt = np.where(undecided, parts.sum(axis=1), 0.0)
        doubt[doubt < SLIGHT] = 0.0
        p = int((pool.wan.size * doubt).argmax())
        if not doubt[p]:
            return found
        whole, this = copies > 0.5, np.arange(len(doubt)) == p
        other = whole.copy()
        other[p, parts[p].argmax()] ^= True
        for copied in (whole, other):
            if session.expired(end):
                return None
            tried = with_copies(arrays, program, copied, this)
            outcome = relaxed_if_any(tried, session)
            if outcome is not None:
                break
        else:
            return None
        arrays, found = tried, outcome
        undecided[p] = False
    return None


def with_copies(arrays: Arrays, program: Program, copied: Bools, datasets: Bools) -> Arrays:
    """Return a relaxation with copies (datasets, regions) of some datasets (datasets,) settled."""
    settled = program.pool.fresh & datasets[:, None]
    columns = program.replica[settled]
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    lower[columns] = upper[columns] = copied[settled]
    return replace(arrays, lower=lower, upper=upper)
