"""Job groups, of one job or several: offsets of the members' stages, and the group's value.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM'22, section 4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from operator import mul

import numpy as np

from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.period import best_offsets, contended
from placewright.formulations.plan_messages import Group
from placewright.instances.derived.speed import speed
from placewright.topology.units import MILLION


def job_groups_of(problem: Interleaving, sets: Iterable[tuple[int, ...]]) -> list[Group]:
    """Return job groups with their best offsets; a job on its own has offset 0.

    Parameters
    ----------
    sets
        Members of each job group, by their indices in the round.
    """
    by_size: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
    for members in sets:
        by_size[len(members)].append(tuple(sorted(members)))
    alone = (Group(members, (0,), 0) for members in by_size.pop(1, ()))
    shared = (_with_offsets(problem, size, sets_) for size, sets_ in sorted(by_size.items()))
    return sorted(chain(alone, *shared), key=lambda job_group: job_group.members)


def _with_offsets(problem: Interleaving, size: int, sets: list[tuple[int, ...]]) -> list[Group]:
    jobs, sharing = problem.round.jobs, problem.sharing
    stages_of = {j: p.stages for members in sets for j in members if (p := jobs[j].profile)}
    stages = np.array([[stages_of[j] for j in members] for members in sets], dtype=np.int64)
    bare, offsets = best_offsets(stages, spanning=sharing.spanning)
    period = contended(bare, sharing.contention[size - 2])
    return [
        Group(members, tuple(mine), length)
        for members, mine, length in zip(sets, offsets.tolist(), period.tolist(), strict=True)
    ]


def group_value(problem: Interleaving, job_group: Group, option: int = 0) -> int:
    """Return what a job group adds to the objective, its priority classes weighted.

    Parameters
    ----------
    option
        Of a job on its own; in a group all run their first option.
    """
    of_classes = class_values(problem, job_group, option)
    return sum(map(mul, problem.priorities.weights, of_classes))


def class_values(problem: Interleaving, job_group: Group, option: int = 0) -> tuple[int, ...]:
    """Return what a job group adds to each priority class, the highest first; see `group_value`."""
    jobs = [problem.round.jobs[j] for j in job_group.members]
    alone = len(jobs) == 1
    if problem.objective == "efficiency":
        profiles = [job.profile for job in jobs if job.profile is not None]
        period = profiles[0].alone if alone and profiles else job_group.period
        busy = sum(sum(profile.stages) for profile in profiles)
        return (MILLION * busy // (problem.sharing.slots * period) if profiles else 0,)
    total = [0] * len(problem.priorities.weights)
    for job in jobs:
        rate = speed(job, option)
        if not alone and job.profile is not None:
            rate = rate * job.profile.alone // job_group.period
        if problem.priorities.counts(job):
            weight = job.weight if problem.objective == "weighted_throughput" else 1
            total[problem.priorities.number_of(job)] += rate * weight
    return tuple(total)


def kept_values(problem: Interleaving, job_group: Group) -> tuple[int, ...]:
    """Return what jobs that run, and stay as they are, add to each priority class."""
    running = problem.round.jobs[job_group.members[0]].running
    return class_values(problem, job_group, 0 if running is None else running.option)
