"""Rounds that follow each other: most of the last plan is still right, so little is decided anew.

The running jobs are the last plan. They stay, but for those that make way where a waiting job is
worth more, and a bound says how good that is: the linear relaxation, which the patterns that the
last one used make quick to solve. Only if the plan lags further behind the bound than the last one
did, a plan is made from that relaxation, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.hostpatterns import HostPatterns
from placewright.formulations.gang.landing import displace
from placewright.formulations.gang.models import (
    PatternModel,
    pattern_model,
    relaxation,
    room_of,
)
from placewright.formulations.gang.moving import landed_by
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import VALUE, Problem
from placewright.formulations.gang.run import run, small, trivial_bounds
from placewright.formulations.session import Bound, Candidate, Session
from placewright.solver import Outcome
from placewright.topology import Cluster

Ints = NDArray[np.int64]

TOLERANCE = 1e-4
"""By how much of the value of all that runs the distance to the bound may grow in a round."""

LANDING_SECONDS = 0.7
KEPT_PATTERNS = 5_000
"""Patterns of least loss at the relaxation's prices that the next round begins with."""


class Warm:
    """The gang formulation of an engine; remembers patterns, and how far the bound was."""

    def __init__(self) -> None:
        self._distance: float | None = None
        self._patterns: _Patterns | None = None

    def __call__(self, problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds, as `run` does."""
        if self._distance is not None and not session.expired() and _applies(problem):
            try:
                yield from self._adapt(problem, session, self._distance)
            except Exception as error:  # noqa: BLE001 - a fault here must not cost the plan
                session.degraded.append(f"adapted: {type(error).__name__}: {error}")
        if session.best is None:
            yield from run(problem, session)
        if session.best is not None and session.first_bound is not None:
            self._distance = abs(session.first_bound - session.best[problem.terms[0]])

    def _adapt(
        self, problem: Problem, session: Session, distance: float
    ) -> Iterator[Candidate | Bound]:
        """Decide little anew; yield nothing if host patterns do not apply."""
        placement = Placement(problem)
        displace(placement)
        found = candidate(placement, "adapted", final=True)
        value = placement.value
        empty = Placement(problem, cleared=True)
        model = pattern_model(problem, empty, room_of(empty))
        if model is None:
            return
        if self._patterns is None or not self._patterns.recalled(model.patterns):
            model.patterns.learn(placement)
        bounds, relaxed = _drained(relaxation(session, *model, VALUE))
        if relaxed is not None and relaxed.row_duals is not None:
            self._patterns = _Patterns.of(model, relaxed.row_duals)
        bound = min((bound.value for bound in bounds), default=np.inf)
        if bound - value > distance + TOLERANCE * (problem.running_value + abs(value)):
            other = landed_by(session, model, relaxed, LANDING_SECONDS)
            if other is not None:
                more = candidate(other, "displacing", final=True)
                found = more if other.value > value else found
        yield found
        yield from trivial_bounds(problem)
        yield from bounds


def _applies(problem: Problem) -> bool:
    """Whether the plan is to be worth most, on hosts that are full of jobs that may make way."""
    return problem.terms[0] == VALUE and not problem.vacate.any() and not small(problem)


def _drained(steps: Generator[Bound, None, Outcome | None]) -> tuple[list[Bound], Outcome | None]:
    """Return what a generator yields and returns: bounds wait for the plan that they speak of."""
    bounds: list[Bound] = []
    while True:
        try:
            bounds.append(next(steps))
        except StopIteration as end:
            return bounds, end.value


@dataclass(frozen=True, eq=False, slots=True)
class _Patterns:
    """Patterns (cuts per shape) with the keys of their host classes; sizes of the shapes then.

    Shapes keep their indices as long as the cluster is the same object.
    """

    cluster: Cluster
    sizes: Ints
    keys: Ints
    cuts: Ints

    @classmethod
    def of(cls, model: PatternModel, row_duals: NDArray[np.float64]) -> Self:
        """Return those that lose least at these prices; what the relaxation uses loses nothing."""
        counts, patterns = model
        pool = patterns.pool
        arrays = counts.model.arrays(VALUE, relax=True)
        worth = arrays.reduced_costs(row_duals)[pool.columns]
        best = np.argsort(-worth, kind="stable")[:KEPT_PATTERNS]
        keys = patterns.keys[pool.kind[best]]
        return cls(counts.problem.cluster, patterns.grid.sizes, keys, pool.cuts[best])

    def recalled(self, patterns: HostPatterns) -> bool:
        """Add the patterns to those of another round, unless its shapes are not these."""
        sizes = patterns.grid.sizes
        known = len(self.sizes)
        same = patterns.counts.problem.cluster is self.cluster
        if not same or not np.array_equal(sizes[:known], self.sizes):
            return False
        index = {tuple(key): a for a, key in enumerate(patterns.keys.tolist())}
        kinds = np.array([index.get(tuple(key), -1) for key in self.keys.tolist()], dtype=np.int64)
        cuts = np.zeros((len(kinds), len(sizes)), dtype=np.int64)
        cuts[:, :known] = self.cuts
        patterns.add(kinds[kinds >= 0], cuts[kinds >= 0])
        return bool((kinds >= 0).any())
