"""Homes: which team keeps the place of its running members, as long as it fits there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from placewright.formulations.interleaving.heuristics.usage_in_place import (
    Held,
    places_of,
    running_of,
)
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.merged_groups import merged
from placewright.formulations.session import Group
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup


def homes_of(problem: Interleaving, teams: Sequence[Group]) -> list[int | None]:
    """Return for each team a running member whose place it keeps, None if it keeps none.

    Where most would be lost by moving comes first. A team that others join stays only where they
    may arrive, and where all its members fit beside those who stay elsewhere.
    """
    homes: list[int | None] = [None] * len(teams)
    taken: set[int] = set()
    for _, claimant, there in sorted(_claims(problem, teams)):
        place = problem.together[there][0]
        if homes[claimant] is None and place not in taken:
            homes[claimant] = there
            taken.add(place)
    held = Held(problem)
    for j in problem.stays:
        if problem.together[j][0] == j:
            held.add(_merged(problem, problem.together[j]), places_of(problem, j))
    for number, member in enumerate(homes):
        if member is not None:
            here = at_home(problem, teams[number], member)
            held.add(_merged(problem, here), places_of(problem, member))
    for number, member in enumerate(homes):
        if member is None or set(teams[number].members) <= set(problem.together[member]):
            continue
        places = places_of(problem, member)
        held.add(_merged(problem, at_home(problem, teams[number], member)), places, -1)
        after = _merged(problem, teams[number].members)
        required = problem.round.jobs[member].options[0].required
        if held.admits(required, after, places):
            held.add(after, places)
        else:
            homes[number] = None
    return homes


def at_home(problem: Interleaving, team: Group, member: int) -> tuple[int, ...]:
    """Return the members of a team that run where this one does."""
    here = problem.together[member]
    return tuple(j for j in team.members if j in here)


def stop_cost(problem: Interleaving, job: Job, given: int | None) -> int:
    """Return the milli-GPU-seconds of stopping a running job; `given`: what the round says."""
    if given is not None:
        return given
    running = running_of(job)
    lost = 0 if running.checkpoint is None else problem.round.now - running.checkpoint
    return job.options[running.option].milli_gpu * (lost + running.restart_s)


def _claims(problem: Interleaving, teams: Sequence[Group]) -> Iterator[tuple[int, int, int]]:
    """Yield, negative, what each team would lose by leaving a place, the team, and who is there."""
    for number, team in enumerate(teams):
        cost: defaultdict[int, int] = defaultdict(int)
        for j in team.members:
            if j in problem.together:
                job = problem.round.jobs[j]
                moved = job.options[running_of(job).option].milli_gpu
                lost = stop_cost(problem, job, running_of(job).migrate_cost)
                cost[problem.together[j][0]] += moved + lost
        for place, lost in cost.items():
            first = next(j for j in team.members if j in problem.together[place])
            yield -lost, number, first


def _merged(problem: Interleaving, members: Sequence[int]) -> tuple[TaskGroup, ...]:
    jobs = [problem.round.jobs[j] for j in members]
    if len(jobs) == 1 and jobs[0].running is not None:
        return jobs[0].options[jobs[0].running.option].groups
    return merged(jobs, problem.sharing)
