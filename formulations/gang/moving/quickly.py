"""The best plan for `value` that needs no solver, for rounds that are a small part of another."""

from __future__ import annotations

from placewright.formulations.gang.moving.clearing import clear
from placewright.formulations.gang.moving.landing import displace
from placewright.formulations.gang.moving.settling import settle
from placewright.formulations.gang.placing.filling import fill
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Session


def quickly(problem: Problem, session: Session) -> Placement:
    """Return a placement that starts what fits, makes room, and displaces what is worth less.

    Room is made first in one of two plans and last in the other. The better one counts.
    """
    gentle = Placement(problem)
    fill(gentle)
    if not _waits(gentle):
        return gentle
    clear(session, gentle)
    if not _waits(gentle, rank=1):
        return gentle
    rough = Placement(problem)
    for placement in (gentle, rough):
        displace(placement)
        settle(placement)
        clear(session, placement)
        settle(placement)
    return max(gentle, rough, key=lambda placement: placement.value)


def _waits(placement: Placement, rank: int = 0) -> bool:
    """Whether some pending job of at least this rank waits."""
    problem = placement.problem
    return any(
        n and not c.running and problem.shape_rank[c.choices[0].groups[0].shape] >= rank
        for c, n in zip(problem.classes, placement.waiting, strict=True)
    )
