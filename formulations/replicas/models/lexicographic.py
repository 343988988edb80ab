"""The MIP of all terms, minimised lexicographically, for small problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placewright.array_types import Bools
from placewright.formulations.bound_arithmetic import HOLD_SLACK, proven_whole
from placewright.formulations.plan_messages import Bound
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.mip import NeighbourhoodMip, whole_problem
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session
from placewright.solver import Status

_LAST = ("imbalance", "hottest")
"""Terms that only drops or homes improve, not copies: with them drops are no longer idle."""


def is_small(problem: Problem) -> bool:
    """Whether the MIP of the whole problem is small enough to be solved."""
    cells = int(problem.allowed_homes.sum()) + int(problem.may_hold.sum())
    return (
        cells + len(problem.read_gib) * problem.regions <= parameters.PARAMETERS.exact_max_columns
    )


def solve_lexicographically(
    problem: Problem, session: Session, solution: Solution, refused: Bools
) -> Iterator[Solution | Bound]:
    """Yield the optimum of each term with those before it held, and the solver's bound on it.

    The MIP leaves out transfers: where all copies of the last solution can be scheduled, it is
    optimal. Refused copies (dataset classes, regions) are left out; if there are any, nothing is
    proven.
    """
    terms = problem.terms
    neighbourhood = whole_problem(problem)
    neighbourhood = replace(neighbourhood, holds=neighbourhood.holds & ~refused)
    proving = single(problem) and not refused.any()
    mip = NeighbourhoodMip(problem, neighbourhood, solution, terms)
    holds: list[tuple[str, int]] = []
    share = parameters.PARAMETERS.exact_term_time_share
    for term in terms:
        outcome = session.optimise(mip.model.arrays(term), share=share, gap=0.0)
        if outcome is None:
            return
        if outcome.bound is not None and proving:
            yield Bound(term, proven_whole(outcome.bound), tuple(holds))
        if outcome.values is None:
            return
        solution = mip.solution(outcome.values)
        yield solution if term in _LAST else solution.without_idle_copies(problem)
        if outcome.status is not Status.OPTIMAL:
            return
        value = round(mip.model.value_of(term, outcome.values))
        holds.append((term, value))
        mip.model.hold(term, value, HOLD_SLACK)


def single(problem: Problem) -> bool:
    """Whether each dataset is a class of its own, so that the MIP is exact."""
    return problem.dataset_classes == len(problem.wan.size)
