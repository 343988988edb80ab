"""The incumbent: the best solution whose transfers exist, and the copies that links refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.drop_replicas import drop_idle_replicas
from placewright.formulations.replicas.heuristics.greedy import GreedyPlacement
from placewright.formulations.replicas.heuristics.lns import LargeNeighbourhoodSearch
from placewright.formulations.replicas.heuristics.transfer_repair import (
    repair_transfers,
    untransferable_copies,
)
from placewright.formulations.replicas.models.lexicographic import is_small
from placewright.formulations.replicas.problem.minimum_remote_reads import forced_replicas
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session


class Incumbent:
    """The best solution so far, from which heuristics continue.

    Attributes
    ----------
    solution
        At first a greedy one, whose transfers are not known yet.
    refused : Bools
        (dataset classes, regions): copies that links refused beside those of earlier solutions.
    """

    def __init__(self, problem: Problem, session: Session) -> None:
        self.problem, self.session = problem, session
        self.solution = GreedyPlacement(problem).solution()
        self.refused: Bools = np.zeros_like(problem.current)

    @property
    def objective(self) -> tuple[int, int, int]:
        """The leading terms of the solution."""
        return self.solution.objective(self.problem)

    def accept(self, solution: Solution, source: str) -> Candidate:
        """Return a solution with transfers as a candidate; it becomes the incumbent if better."""
        problem = self.problem
        solution = drop_idle_replicas(problem, solution)
        grace = parameters.PARAMETERS.grace_s - min(0.0, self.session.before_deadline())
        late = partial(self.session.overdue, grace)
        solution, plan, refused = repair_transfers(problem, solution, self.refused, late)
        self.solution = min(solution, self.solution, key=lambda each: each.objective(problem))
        if not is_small(problem):
            # Without these a job must read more remotely; beside other copies they may do.
            left = replace(problem, may_hold=problem.may_hold & ~self.refused)
            refused &= ~forced_replicas(left)
        self.refused |= refused
        return Candidate({}, source, final=True, data=plan)

    def retry_refused_copies(self) -> None:
        """Refuse only copies that links cannot carry even alone."""
        self.refused = self._untransferable.copy()

    @cached_property
    def _untransferable(self) -> Bools:
        reserve = (1 - parameters.PARAMETERS.transfer_test_time_share) * self.session.remaining()
        return untransferable_copies(self.problem, lambda: self.session.expired(reserve))

    def search_from(
        self, solution: Solution, relaxed: Floats | None = None
    ) -> LargeNeighbourhoodSearch:
        """Return a search from a solution, without refused copies."""
        search = LargeNeighbourhoodSearch(self.problem, self.session, solution, relaxed)
        search.set_incumbent(solution, self.refused)
        return search

    def recombine(self, solution: Solution, seconds: float) -> Solution:
        """Return the better of a solution and the incumbent, recombined with the other one."""
        best, other = sorted(
            (self.solution, solution), key=lambda each: each.objective(self.problem)
        )
        search = self.search_from(best)
        search.recombine(other.replicas, seconds)
        return search.solution
