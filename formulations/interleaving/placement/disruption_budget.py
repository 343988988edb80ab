"""Disruption budget of job groups: what a group counts with when it stops or moves as one gang.

Members that run elsewhere migrate wherever their group goes; those in the group's place stop or
migrate with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from placewright.formulations.gang.problem.disruption_budget import (
    NOTHING,
    Disruption,
    DisruptionBudget,
    Stop,
)
from placewright.formulations.interleaving.placement.kept_places import members_in_place
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.plan_messages import Candidate, Group


def budget_of_groups(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> DisruptionBudget | None:
    """Return what the members that have to move leave of the budget, with groups in place of jobs.

    None without a budget.
    """
    budget = DisruptionBudget.of(problem.round)
    if budget is None:
        return None
    stops: dict[int, Stop] = {}
    for number, (job_group, anchor) in enumerate(zip(job_groups, anchors, strict=True)):
        mine = [] if anchor is None else members_in_place(problem, job_group, anchor)
        counted = [budget.stops[j] for j in mine if j in budget.stops]
        if counted:
            stops[number] = Stop(
                _total(stop.preempted for stop in counted),
                _total(stop.migrated for stop in counted),
                any(stop.protected for stop in counted),
            )
    moving = [j for mine in moving_members(problem, job_groups, anchors).values() for j in mine]
    return replace(budget.after(budget.used((), moving)), stops=stops)


def moving_members(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> Mapping[int, list[int]]:
    """Return, by group, the running members that are not in its place, of groups that have some."""
    found: dict[int, list[int]] = {}
    for number, (job_group, anchor) in enumerate(zip(job_groups, anchors, strict=True)):
        here = () if anchor is None else members_in_place(problem, job_group, anchor)
        mine = [j for j in job_group.members if j in problem.colocated and j not in here]
        if mine:
            found[number] = mine
    return found


def is_within_budget(problem: Interleaving, plan: Candidate) -> bool:
    """Whether a plan of the round is within its disruption budget, if it has one."""
    budget = DisruptionBudget.of(problem.round)
    moved = [j for j in plan.starts if problem.round.jobs[j].running is not None]
    return budget is None or budget.allows(plan.preempted, moved)


def groups_beyond_budget(
    problem: Interleaving, job_groups: Sequence[Group], anchors: Sequence[int | None]
) -> set[int]:
    """Return the groups, those with most members to move first, that the budget does not allow."""
    budget = DisruptionBudget.of(problem.round)
    if budget is None:
        return set()
    moving = moving_members(problem, job_groups, anchors)
    left = {j for mine in moving.values() for j in mine}
    beyond: set[int] = set()
    for number, mine in sorted(moving.items(), key=lambda item: (-len(item[1]), item[0])):
        if budget.allows((), left):
            break
        beyond.add(number)
        left.difference_update(mine)
    return beyond


def _total(uses: Iterable[Disruption]) -> Disruption:
    total = NOTHING
    for use in uses:
        total = total.plus(use)
    return total
