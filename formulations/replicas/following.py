"""Plans that follow a guide: annealed anew where the largest datasets are rounded.

Whole jobs may not fit beside the replicas of a point that has all small data in part, and an exact
model of all that is left open finds nothing in time. Annealing always ends somewhere: first where
the guide has replicas, which settles what goes together, then, cooler, wherever data may be, so
that the small data makes up for regions that are too full. In between it learns what the links
refuse: a copy that many jobs are beside is not made up for by moving these alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.replicas.annealing import Annealing
from placewright.formulations.replicas.carrying import refused_of
from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.frugal import frugal_homes, only_ways
from placewright.formulations.replicas.guides import Guide
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools

AGAIN, COOLER = 2, 0.6
"""How often it is annealed again, and how far down the noise begins then."""


def follow(
    problem: Problem, session: Session, guide: Guide, draft: Draft, refused: Bools, seconds: float
) -> Draft:
    """Return a draft after so many seconds; it reads no more from afar than jobs must, if these do.

    Parameters
    ----------
    refused
        (groups, regions): copies that are not to be made.
    """
    frugal = draft.rank(problem)[1] <= frugal_homes(problem)[1]
    for places, begin in ((guide.replicas, 0.0), *[(problem.may_hold, COOLER)] * AGAIN):
        left = replace(problem, may_hold=problem.may_hold & ~refused)
        least, _ = frugal_homes(left)
        given = _with(problem, guide.replicas & guide.rounded[:, None] & left.may_hold)
        if frugal:
            given = replace(given, may=problem.may & least[:, :, None])
        annealing = Annealing(given, draft, places & left.may_hold, session.seed)
        draft = annealing.run(session, seconds / (1 + AGAIN), begin).trimmed(problem)
        refused = refused | (refused_of(problem, draft) & ~only_ways(left))
    return draft


def _with(problem: Problem, settled: Bools) -> Problem:
    """Return a problem in which replicas (groups, regions) are there: they are copied anyway."""
    new, origin = settled & ~problem.now, problem.origin
    moved = new.any(axis=1) & (origin >= 0)
    outgoing = problem.outgoing.copy()
    np.subtract.at(outgoing, origin[moved], problem.size[moved])
    return replace(
        problem,
        now=problem.now | new,
        incoming=problem.incoming - problem.size @ new,
        outgoing=outgoing,
    )
