"""Replicas to search towards: points of the program that SCIP finds by branching.

All copies at once are too many to find good points among. At first only those are free that an
optimum of the relaxation has, then those that it nearly has: such points are soon found, and better
ones than a search from job to job comes to. Jobs of a point may be split; who makes a draft of it
has to mend that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.formulations.replicas.branching import relaxed
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.pool import pool_of
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.whole import MOST_COPIES, Whole, worth_a_try
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools

STAGES = ((-1.0, 0.25), (0.03, 1.0))
"""What a copy may cost beyond its worth, in parts of its size, and the share of the time left.

None costs so much less than it is worth as the first says.
"""

MORE = 1.01
"""Overload of a draft, in times of the least, that points may have too."""

BETTER = 3e-3
"""Points must be better than the best by so much, relative to it; this is also the gap."""


def is_branched(problem: Problem) -> bool:
    """Whether the program of a problem is small enough to be branched on."""
    fresh = problem.may_hold & ~problem.now
    return int(fresh[problem.group].sum()) <= MOST_COPIES


def guides(
    problem: Problem, session: Session, draft: Draft, refused: Bools, seconds: float
) -> Iterator[Bools]:
    """Yield replicas (groups, regions), each better than those before and than the draft.

    Overload and remote reads are no worse than the draft's, and overload is as little as can be
    where the draft has much more than that; jobs may be split.

    Parameters
    ----------
    refused
        (groups, regions): copies that are not to be made.
    """
    pool = pool_of(problem.wan)
    overload, remote_reads, copies = draft.rank(problem)
    best = float(copies)
    whole = Whole.of(pool)
    reserve = session.remaining() - seconds
    try:
        least = relaxed(whole.program.arrays("overload", {"remote_reads": remote_reads}), session)
        if least is not None and overload > least.bound * MORE:
            overload, best = least.bound, np.inf
        holds = {"overload": overload, "remote_reads": remote_reads}
        arrays = whole.program.arrays("copies", holds)
        root = relaxed(arrays, session)
    except ArithmeticError:
        return
    if root is None:
        return
    for beyond, share in STAGES:
        left = session.remaining() - reserve
        if left <= 0:
            return
        only = worth_a_try(whole.program, arrays, root, beyond) & ~refused[problem.group]
        outcome = session.optimise(
            whole.arrays("copies", holds, only),
            share=share * left / session.remaining(),
            gap=BETTER,
            cutoff=best * (1 - BETTER) if best < np.inf else None,
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            continue
        best = outcome.objective
        held = pool.fresh & (np.append(outcome.values, 0.0)[whole.program.replica] > 0.5)
        replicas = np.zeros_like(problem.now)
        np.logical_or.at(replicas, problem.group, held)
        yield replicas
