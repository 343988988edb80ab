"""Rounds that follow each other: most of the last plan is still right, so little is decided anew.

The running jobs are the last plan. They stay, but for those that make way where a waiting job is
worth more; the relaxation says how good that is. Only if it leaves more on the table than the last
round did, the round is decided as if it were the first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from placewright.formulations.gang.hostpatterns import HostPatterns
from placewright.formulations.gang.landing import displace
from placewright.formulations.gang.models import models_of, relaxation
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import VALUE, Problem
from placewright.formulations.gang.run import run, small, trivial_bounds
from placewright.formulations.session import Bound, Candidate, Session

TOLERANCE = 1e-4
"""By how much of the value of all that runs the distance to the bound may grow in a round."""


class Warm:
    """The gang formulation of an engine; it remembers how far the last plan was from its bound."""

    def __init__(self) -> None:
        self._distance: float | None = None

    def __call__(self, problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds, as `run` does."""
        done = False
        if self._distance is not None and problem.terms[0] == VALUE and not small(problem):
            done = yield from self._adapt(problem, session, self._distance)
        if not done:
            yield from run(problem, session)
        if session.best is not None and session.first_bound is not None:
            self._distance = abs(session.first_bound - session.best.get(VALUE, 0))

    def _adapt(
        self, problem: Problem, session: Session, distance: float
    ) -> Generator[Candidate | Bound, None, bool]:
        """Keep what runs, displace where that pays; return whether that is good enough."""
        if session.expired() or problem.vacate.any():
            return False
        placement = Placement(problem)
        displace(placement)
        found = candidate(placement, "adapted", final=True)
        tightest = next(models_of(problem, placement))
        if not isinstance(tightest.patterns, HostPatterns):
            return False
        bounds = [*relaxation(session, *tightest, VALUE)]
        value = placement.value
        best = min((bound.value for bound in bounds), default=float("inf"))
        allowed = distance + TOLERANCE * (problem.running_value + abs(value))
        if best - value > allowed:
            return False
        yield found
        yield from trivial_bounds(problem)
        yield from bounds
        return True
