"""The best plan for `value` that needs no solver, for rounds that are a small part of another."""

from __future__ import annotations

from placewright.formulations.gang.moving.clearing import clear
from placewright.formulations.gang.moving.landing import displace
from placewright.formulations.gang.moving.ousting import oust
from placewright.formulations.gang.moving.settling import settle
from placewright.formulations.gang.placing.filling import fill
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Session


def quickly(problem: Problem, session: Session) -> Placement:
    """Return a placement that starts what fits, makes room, and displaces what is worth less.

    If jobs of higher precedence still wait once there is room, all is decided again, precedence by
    precedence. The better plan counts.
    """
    gentle = Placement(problem)
    fill(gentle)
    if not _waits(gentle):
        return gentle
    clear(session, gentle)
    if not _waits(gentle, rank=1):
        return gentle
    keen = Placement(problem)
    for rank in range(int(problem.shape_rank.max(initial=0)), -1, -1):
        with keen.held_back(rank):
            _enforce(session, keen)
    return max(gentle, keen, key=lambda placement: placement.value)


def _enforce(session: Session, placement: Placement) -> None:
    """Start what waits, if need be where others move or stop that are worth less."""
    fill(placement)
    if not _waits(placement):
        return
    clear(session, placement)
    displace(placement)
    settle(placement)
    oust(session, placement)
    clear(session, placement)
    settle(placement)


def _waits(placement: Placement, rank: int = 0) -> bool:
    """Whether some pending job of at least this rank waits."""
    problem = placement.problem
    return any(
        n and not c.running and problem.shape_rank[c.choices[0].groups[0].shape] >= rank
        for c, n in zip(problem.classes, placement.waiting, strict=True)
    )
