"""From parts of ways to whole ones: branch and bound over the ways that prices leave in doubt.

A relaxation chooses all but a few ways whole, and its prices say what any other choice of a job
loses at least. So an integer program of the jobs that lose least comes as near to the bound as one
of all of them, or says how near it may have come.

References
----------
Balas and Zemel, "An algorithm for large zero-one knapsack problems", Operations Research 28, 1980
(the core of a program).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np

from placewright.formulations.deadline.demand import Floats
from placewright.formulations.deadline.problem import NONE, Bools, Ints, Problem
from placewright.formulations.deadline.relaxing import Priced, Program
from placewright.formulations.session import Session

CORE = 150
"""Jobs in doubt of which branch and bound decides."""

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

    def value(self, problem: Problem) -> int:
        """Value of all promises that it would give."""
        return int(problem.value[self.way[self.way != NONE]].sum())


def floored(program: Program, chosen: Floats) -> Choice:
    """Return the ways that are chosen whole, and the largest part of jobs that must have one."""
    problem = program.problem
    order = np.argsort(chosen, kind="stable")
    order = order[(chosen[order] > 0) & program.must[problem.job[order]]]
    choice = _choice(problem, chosen >= 1 - WHOLE)
    choice.way[problem.job[order]] = order
    return choice


def searched(program: Program, priced: Priced, known: Ints, session: Session) -> Choice | None:
    """Return the best choice of whole ways, as far as `CORE` jobs in doubt can be told apart.

    It breaks no row of a window, nor of `cuts`, if time has allowed. Where something must be kept
    the choice that is `known` to keep it (jobs,) is looked at, too. None if nothing was found.
    """
    problem = program.problem
    also = known != priced.best
    if not (program.aim.held or program.must.any()):
        also[:] = False
    doubt, lost = priced.in_doubt(CORE, also)
    start = np.zeros(problem.ways)
    start[known[known != NONE]] = 1.0
    best: Choice | None = None
    for _ in range(MOST_SEARCHES):
        part = program.part(priced.best, doubt)
        if not len(part.ways):
            return _choice(problem, part.whole(np.zeros(0), problem.ways) > 0.5, priced.bound)
        outcome = session.optimise(
            part.arrays, most=SEARCH_SECONDS, gap=0.0, start=start[part.ways]
        )
        if outcome is None or outcome.values is None:
            break
        bound = None
        if outcome.bound is not None:
            bound = floor(max(outcome.bound, priced.most - lost) * (1 + WHOLE) + WHOLE)
        values = part.whole(outcome.values, problem.ways)
        best = _choice(problem, values > 0.5, bound)
        rows = program.demands.broken(values)
        if not program.require(rows) and not program.sharpen(values, session):
            break
    return best


def _choice(problem: Problem, chosen: Bools, bound: int | None = None) -> Choice:
    ways = np.flatnonzero(chosen)
    way = np.full(problem.jobs, NONE, dtype=np.int64)
    way[problem.job[ways]] = ways
    return Choice(way, bound)
