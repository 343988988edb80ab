"""Precedence decomposition without a solver, for rounds that are parts of a larger decision."""

from __future__ import annotations

from placewright.formulations.gang.heuristics.displace import displace_greedily
from placewright.formulations.gang.heuristics.drop_add import drop_and_add
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session


def plan_without_solver(problem: Problem, session: Session) -> Placement:
    """Return a placement by greedy, gang insertion, displacement and drop/add.

    If jobs of higher precedence do not all fit, ranks are decided one after the other.
    """
    placement = Placement(problem)
    fill_by_policy(placement)
    if not _any_waiting(placement, rank=1):
        insert_gangs(session, placement)
        return placement
    placement = Placement(problem)
    for rank in range(int(problem.shape_rank.max(initial=0)), -1, -1):
        with placement.only_from_rank(rank):
            _start_by_displacing(session, placement)
    return placement


def _start_by_displacing(session: Session, placement: Placement) -> None:
    """Start waiting jobs, if need be by moving or displacing others that are worth less."""
    fill_by_policy(placement)
    if not _any_waiting(placement):
        return
    insert_gangs(session, placement)
    before = placement.value
    displace_greedily(placement)
    repair_disruptions(placement)
    drop_and_add(session, placement)
    if placement.value > before:
        insert_gangs(session, placement)
        repair_disruptions(placement)


def _any_waiting(placement: Placement, rank: int = 0) -> bool:
    """Whether some pending job of at least this rank waits."""
    problem = placement.problem
    return any(
        n and not c.running and problem.shape_rank[c.choices[0].groups[0].shape] >= rank
        for c, n in zip(problem.classes, placement.waiting, strict=True)
    )
