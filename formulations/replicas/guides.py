"""Replicas to search towards: points of the program that SCIP finds by branching.

All copies at once are too many to find good points among. At first only those are free that an
optimum of the relaxation has, then those that it nearly has: such points are soon found, and better
ones than a search from job to job comes to. Jobs of a point may be split; who makes a draft of it
has to mend that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from placewright.formulations.replicas.branching import relaxed
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.pool import pool_of
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.replicas.program import Program
from placewright.formulations.replicas.whole import MOST_COPIES, Whole, worth_a_try
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools

STAGES = ((-1.0, 0.35), (0.03, 1.0))
"""What a copy may cost beyond its worth, in parts of its size, and the share of the time left.

None costs so much less than it is worth as the first says.
"""

MORE = 1.01
"""Overload and remote reads that points may have, in times of the least."""

BETTER = 3e-3
"""Points must be better than the best by so much, relative to it; this is also the gap."""


def is_branched(problem: Problem) -> bool:
    """Whether the program of a problem is small enough to be branched on."""
    fresh = problem.may_hold & ~problem.now
    return int(fresh[problem.group].sum()) <= MOST_COPIES


def guides(
    problem: Problem, session: Session, draft: Draft, refused: Bools, seconds: float
) -> Iterator[Bools]:
    """Yield copies (groups, regions), each time fewer GiB.

    Overload is no more than the draft's, and so are remote reads; both are as little as can be if
    such points are found. Jobs may be split.

    Parameters
    ----------
    refused
        (groups, regions): copies that are not to be made.
    """
    whole = Whole.of(pool_of(problem.wan))
    end = session.remaining() - seconds
    overload, remote_reads, copies = draft.rank(problem)
    held = {"overload": overload, "remote_reads": remote_reads}
    aims = _aims(whole.program, session, held)
    for k, holds in enumerate(aims):
        left = max(0.0, session.remaining() - end)
        until = session.remaining() - left / (len(aims) - k)
        # Points that are better before may copy more.
        cutoff = copies * (1 - BETTER) if holds == held else None
        found = False
        for replicas in _points(problem, session, whole, holds, ~refused, until, cutoff):
            found = True
            yield replicas
        if found:
            return


def _aims(program: Program, session: Session, held: dict[str, int]) -> list[dict[str, int]]:
    """Return what points are to be no worse than, the best first; what is held is the last."""
    aims = [held]
    reads = {"remote_reads": held["remote_reads"]}
    overload = _least(program, session, "overload", reads, held)
    if overload < held["overload"]:
        aims.insert(0, {"overload": overload, **reads})
    first = {"overload": aims[0]["overload"]}
    remote_reads = _least(program, session, "remote_reads", first, held)
    if remote_reads < held["remote_reads"]:
        aims.insert(0, {**first, "remote_reads": remote_reads})
    return aims


def _least(
    program: Program, session: Session, term: str, holds: Mapping[str, int], held: Mapping[str, int]
) -> int:
    """Return about the least of a term at what others hold, no more than is held."""
    try:
        least = relaxed(program.arrays(term, holds), session)
    except ArithmeticError:
        return held[term]
    return held[term] if least is None else min(held[term], int(least.bound * MORE))


def _points(
    problem: Problem,
    session: Session,
    whole: Whole,
    holds: Mapping[str, int],
    allowed: Bools,
    end: float,
    cutoff: float | None,
) -> Iterator[Bools]:
    """Yield the points of all stages, until so many seconds of the session are left."""
    program = whole.program
    arrays = program.arrays("copies", holds)
    try:
        root = relaxed(arrays, session)
    except ArithmeticError:
        return
    if root is None:
        return
    for beyond, share in STAGES:
        left = session.remaining() - end
        if left <= 0:
            return
        only = worth_a_try(program, arrays, root, beyond) & allowed[problem.group]
        outcome = session.optimise(
            whole.arrays("copies", holds, only),
            share=share * left / session.remaining(),
            gap=BETTER,
            cutoff=cutoff,
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            continue
        cutoff = outcome.objective * (1 - BETTER)
        copied = np.append(outcome.values, 0.0)[program.replica] > 0.5
        replicas = np.zeros_like(problem.now)
        np.logical_or.at(replicas, problem.group, program.pool.fresh & copied)
        yield replicas
