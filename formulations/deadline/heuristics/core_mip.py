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

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor

import numpy as np

from placewright.formulations.deadline.models.demand_bound import Floats
from placewright.formulations.deadline.models.master_lp import Priced, Program
from placewright.formulations.deadline.problem.problem import NONE, Bools, Ints, Problem
from placewright.formulations.session import Session

CORES = (40, 150)
"""Jobs in doubt that branch and bound decides about: few at first, soon and hardly worse."""

SEARCH_SECONDS = 1.0
"""Most time of one branch and bound: the leases decide about the last promises, not this."""

MOST_SEARCHES = 4
"""Searches in which rows were missing, each of half the time of the one before."""

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


def searched(program: Program, priced: Priced, known: Ints, session: Session) -> Iterator[Choice]:
    """Yield ever better choices of whole ways, as far as the jobs most in doubt can be told apart.

    They break no row of a window, nor of `cuts`, if time has allowed. The choice that is `known`
    (jobs,) keeps what must be kept.
    """
    keeping = program.aim.held > 0 or bool(program.must.any())
    tries = [(number, False) for number in CORES]
    # With all others at their best maybe nothing keeps what must be kept; then from `known`.
    tries += [(number, True) for number in CORES if keeping]
    best: Ints | None = None
    for number, falling_back in tries:
        if falling_back and best is None:
            best = known
        elif falling_back and best is not known:
            return
        also = np.zeros(len(known), dtype=np.bool_) if best is None else best != priced.best
        doubt, lost = priced.in_doubt(number, also)
        choice = _searched(program, priced, doubt, best, session)
        if choice is None:
            continue
        value = int(program.aim.worth[choice.way[choice.way != NONE]].sum())
        rest = value if np.isinf(lost) else _whole(priced.most - lost)
        if choice.bound is not None:
            choice = Choice(choice.way, max(choice.bound, rest))
        yield choice
        if doubt.all() or value == choice.bound:
            return
        best = choice.way


def _whole(bound: float) -> int:
    """Return the largest whole number that a solver's bound allows."""
    return floor(bound * (1 + WHOLE) + WHOLE)


def _searched(
    program: Program, priced: Priced, doubt: Bools, known: Ints | None, session: Session
) -> Choice | None:
    """Return the best choice in which jobs that are not in doubt take their best way."""
    problem = program.problem
    start = None
    if known is not None:
        start = np.zeros(problem.ways)
        start[known[known != NONE]] = 1.0
    best: Choice | None = None
    for search in range(MOST_SEARCHES):
        part = program.part(priced.best, doubt)
        if not len(part.ways):
            values = part.whole(np.zeros(0), problem.ways)
            bound: int | None = priced.bound
        else:
            seconds = SEARCH_SECONDS / 2**search
            begin = None if start is None else start[part.ways]
            outcome = session.optimise(part.arrays, most=seconds, gap=0.0, start=begin)
            if outcome is None or outcome.values is None:
                break
            bound = None if outcome.bound is None else _whole(outcome.bound)
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
