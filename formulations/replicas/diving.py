"""A relaxation of which some datasets become whole, one after the other, the dearest doubt first.

Branch and bound begins with a vertex, and where the simplex method takes minutes for that it never
comes to a point. An interior-point method takes seconds for each relaxation, and some dozen of
them are enough to make the largest datasets whole: most are in an optimum, or become so with what
others are rounded to. What is rounded is never taken back, so it costs more than branching would;
nor is it refused by the links later, which the program knows as sums only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from placewright.formulations.replicas.branching import Relaxed, relaxed_if_any
from placewright.formulations.replicas.carrying import carried
from placewright.formulations.replicas.partly import copies_of, parts_of
from placewright.formulations.replicas.program import Program
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools
from placewright.solver import Arrays
from placewright.solver.arrays import Floats

SLIGHT = 0.01
"""A dataset of which so much of a copy is in doubt counts as whole."""

AT_ONCE = 3
"""So many are rounded at once if that leaves a point; to see that it does not takes a second."""


def doubts(program: Program, found: Relaxed, datasets: Bools) -> Floats:
    """Return the GiB in doubt (datasets,) of those of a mask (datasets,) that are not whole."""
    parts = parts_of(program, found).sum(axis=1)
    gib: Floats = np.where(datasets & (parts >= SLIGHT), parts * program.pool.wan.size, 0.0)
    return gib


def dive(
    program: Program,
    ways: Sequence[Arrays],
    found: Relaxed,
    datasets: Bools,
    session: Session,
    end: float,
) -> Relaxed:
    """Return a relaxation with the datasets of a mask (datasets,) whole but for tolerance.

    Not so where no rounding of one leaves a point, or when so many seconds are left at most.

    Parameters
    ----------
    ways, found
        Relaxations of the program, each tried if those before it have no point, and what the first
        says.
    """
    copied, settled = np.zeros_like(program.pool.fresh), np.zeros_like(datasets)
    undecided = datasets.copy()
    while found.point is not None:
        doubt = doubts(program, found, datasets)
        gib, sure = np.where(undecided, doubt, 0.0), datasets & (doubt == 0)
        if not gib.any():
            break
        roundings = list(_roundings(copies_of(program, found), gib))
        for arrays, (these, rounded) in product(ways, roundings):
            if session.expired(end):
                return found
            wanted = np.where(these[:, None], rounded, copied)
            made = program.pool.fresh & rounded & (sure | these)[:, None]
            if not carried(program.pool.wan, made):
                continue
            tried = with_copies(arrays, program, wanted, settled | these)
            outcome = relaxed_if_any(tried, session)
            if outcome is not None:
                found, copied, settled = outcome, wanted, settled | these
                break
        undecided &= ~these
    return found


def _roundings(copies: Floats, gib: Floats) -> Iterator[tuple[Bools, Bools]]:
    """Yield datasets (datasets,) of most GiB in doubt, and copies (datasets, regions) of them.

    The last is one dataset with the dearest doubt rounded the other way.
    """
    whole, order = copies > 0.5, np.argsort(-gib, kind="stable")
    for number in (AT_ONCE, 1):
        these = np.zeros(len(gib), dtype=np.bool_)
        these[order[:number]] = True
        yield these & (gib > 0), whole
    other, p = whole.copy(), order[0]
    other[p, np.minimum(copies, 1 - copies)[p].argmax()] ^= True
    yield these, other


def with_copies(arrays: Arrays, program: Program, copied: Bools, datasets: Bools) -> Arrays:
    """Return a relaxation with copies (datasets, regions) of some datasets (datasets,) settled."""
    settled = program.pool.fresh & datasets[:, None]
    columns = program.replica[settled]
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    lower[columns] = upper[columns] = copied[settled]
    return replace(arrays, lower=lower, upper=upper)
