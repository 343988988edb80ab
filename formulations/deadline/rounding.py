"""From parts of ways to whole ones: branch and bound over the ways that prices leave in doubt.

A relaxation chooses all but a few ways whole, and its prices say what any other choice of a job
loses at least. So an integer program over the ways that lose least comes as near to the bound as
one over all of them, or says how near it may have come (`placewright.solver.core`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np

from placewright.formulations.deadline.demand import Floats
from placewright.formulations.deadline.problem import NONE, Ints, Problem
from placewright.formulations.deadline.relaxing import Aim, Program, Relaxed
from placewright.formulations.session import Session
from placewright.solver import Core, doubt_of

CORE = 300
"""Ways in doubt of which branch and bound chooses."""

SEARCH_SECONDS = 1.0
"""Most time of one branch and bound: the leases decide about the last promises, not this."""

MOST_SEARCHES = 6
"""Searches in which rows were missing after which a choice is left as it is."""

WHOLE = 1e-6
"""How far from a whole number a solver's value may be and still count as that number."""


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A way for each job, or `NONE`, and what no choice is worth more than, if that is claimed."""

    way: Ints
    bound: int | None = None


def floored(program: Program, chosen: Floats) -> Choice:
    """Return the ways that are chosen whole, and the largest part of jobs that must have one."""
    problem = program.demands.problem
    order = np.argsort(chosen, kind="stable")
    order = order[(chosen[order] > 0) & program.must[problem.job[order]]]
    choice = _choice(problem, chosen >= 1 - WHOLE)
    choice.way[problem.job[order]] = order
    return choice


def searched(
    program: Program, relaxed: Relaxed, aim: Aim, known: Ints, session: Session
) -> Choice | None:
    """Return the best choice of whole ways, as far as `CORE` ways in doubt can be told apart.

    It breaks no row of a window, if time has allowed. Ways of the choice that is `known` (jobs,)
    are in doubt, too, so that what must be kept can be. None if nothing was found.
    """
    problem = program.demands.problem
    if relaxed.outcome.row_duals is None:
        return None
    doubt = doubt_of(relaxed.arrays, relaxed.outcome.row_duals, relaxed.chosen)
    if doubt is None:
        return None
    kept = np.ones(problem.ways, dtype=np.bool_)
    if problem.ways > CORE:
        kept = doubt.within(float(np.partition(doubt.loss, CORE)[CORE]))
    start = np.zeros(problem.ways)
    start[known[known != NONE]] = 1.0
    if aim.held or program.must.any():
        kept |= start != doubt.point
    outside = doubt.most - float(doubt.loss[~kept].min(initial=np.inf))
    best: Choice | None = None
    for _ in range(MOST_SEARCHES):
        core = Core.of(program.arrays(aim), kept, doubt.point)
        outcome = session.optimise(
            core.arrays, most=SEARCH_SECONDS, gap=0.0, start=core.inside(start)
        )
        if outcome is None or outcome.values is None:
            break
        bound = None
        if outcome.bound is not None:
            bound = floor(max(outcome.bound, outside) * (1 + WHOLE) + WHOLE)
        values = core.whole(outcome.values)
        best = _choice(problem, values > 0.5, bound)
        if not program.require(program.demands.broken(values)):
            break
    return best


def _choice(problem: Problem, chosen: np.ndarray, bound: int | None = None) -> Choice:
    ways = np.flatnonzero(chosen)
    way = np.full(problem.jobs, NONE, dtype=np.int64)
    way[problem.job[ways]] = ways
    return Choice(way, bound)
