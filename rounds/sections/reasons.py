"""Why a job waits; only proven reasons are given.

Each reason rests on a necessary condition: an option cannot start where one of its groups alone
finds too few places (in every domain of the level that it requires, by its own slices and failure
domains), nor where all groups together ask more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.placement.gang_tree import could_place
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    NO_LEVEL,
    Choice,
    Group,
    JobClass,
    TaskPlacement,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.residual import residual
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Reason
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

_Asked = tuple[tuple[Group, ...], int]
"""The groups of an option, and its joint level."""


def reasons_of(problem: Problem, candidate: Candidate) -> dict[int, Reason]:
    """Return the reason of every pending job that the candidate does not start."""
    waiting = {
        c: jobs
        for c, job_class in enumerate(problem.classes)
        if not job_class.running
        and (jobs := [j for j in job_class.jobs if j not in candidate.starts])
    }
    if not waiting:
        return {}
    after = Placement(problem)
    _apply_moves(after, candidate)
    moved = bool(candidate.preempted) or any(j in problem.running for j in candidate.starts)
    started = [j for j in candidate.starts if j not in problem.running]
    for job in started:
        _hold_start(after, candidate, job)
    quota = after.quota_left()
    for job in started:
        _charge_start(problem, candidate, job, quota)
    empty, before, left = (
        StartTest(empty_placement(problem)),
        StartTest(Placement(problem)),
        StartTest(after),
    )
    reasons: dict[int, Reason] = {}
    open_jobs: dict[tuple[int, int], list[int]] = {}  # by class and priority
    for c, jobs in waiting.items():
        job_class = problem.classes[c]
        if not empty.some_option_may_start(job_class):
            reason = Reason.NEVER_FITS
        elif not any(
            problem.within_quota(quota, job_class.tenant, choice) for choice in job_class.choices
        ):
            reason = Reason.QUOTA
        elif not before.some_option_may_start(job_class) and not (
            moved and left.some_option_may_start(job_class)
        ):
            reason = Reason.CAPACITY
        else:
            for j in jobs:
                open_jobs.setdefault((c, problem.round.jobs[j].priority), []).append(j)
            continue
        reasons |= dict.fromkeys(jobs, reason)
    for jobs, reason in _displaced_by_priority(problem, candidate, open_jobs):
        reasons |= dict.fromkeys(jobs, reason)
    return reasons


def empty_placement(problem: Problem) -> Placement:
    """Return the cluster with nothing on it, every host healthy and open to all."""
    bare = State.empty(problem.cluster)
    every_host = np.ones_like(problem.open)
    return Placement(replace(residual(problem, {}), state=bare, cleared=bare, open=every_host))


def _displaced_by_priority(
    problem: Problem, candidate: Candidate, open_jobs: dict[tuple[int, int], list[int]]
) -> Iterator[tuple[list[int], Reason]]:
    """Return the jobs that fit nowhere beside the started jobs of strictly higher precedence."""
    jobs, class_of = problem.round.jobs, problem.class_of

    def of_start(job: int) -> tuple[bool, int]:
        choice = problem.classes[class_of[job]].choices[candidate.starts[job][0]]
        return choice.entitled, jobs[job].priority

    def of_best(key: tuple[int, int]) -> tuple[bool, int]:
        c, priority = key
        return any(choice.entitled for choice in problem.classes[c].choices), priority

    started = sorted((j for j in candidate.starts if j not in problem.running), key=of_start)
    placement = Placement(problem)
    _apply_moves(placement, candidate)
    test = StartTest(placement)
    for key in sorted(open_jobs, key=of_best, reverse=True):
        while started and of_start(started[-1]) > of_best(key):
            _hold_start(placement, candidate, started.pop())
            test = StartTest(placement)
        may = test.some_option_may_start(problem.classes[key[0]])
        yield open_jobs[key], Reason.NOT_CHOSEN if may else Reason.DISPLACED_BY_PRIORITY


def _choice(problem: Problem, candidate: Candidate, job: int) -> Choice:
    return problem.classes[problem.class_of[job]].choices[candidate.starts[job][0]]


def _hold_start(placement: Placement, candidate: Candidate, job: int) -> None:
    """Subtract what a started pending job holds."""
    groups = _choice(placement.problem, candidate, job).groups
    for group, _, host, gpus in candidate.starts[job][1]:
        placement.hold(groups[group].shape, host, gpus)


def _charge_start(
    problem: Problem, candidate: Candidate, job: int, quota: dict[tuple[int, int], int]
) -> None:
    tenant = problem.classes[problem.class_of[job]].tenant
    problem.charge_quota(quota, tenant, _choice(problem, candidate, job))


def _apply_moves(placement: Placement, candidate: Candidate) -> None:
    """Carry out what the candidate does with running jobs."""
    problem = placement.problem
    moved = [j for j in problem.running if j in candidate.starts]
    for job in (*moved, *candidate.preempted):
        placement.stop(placement.start_of(job))
    for job in moved:
        job_class = problem.running[job].job_class
        groups = problem.classes[job_class].choices[0].groups
        puts = [
            TaskPlacement(group, host, 1, gpus) for group, _, host, gpus in candidate.starts[job][1]
        ]
        for put in puts:
            placement.hold(groups[put.group].shape, put.host, put.gpus)
        placement.start(job_class, 0, puts, job)


class StartTest:
    """Necessary conditions for a start in a placement that does not change, cached by groups."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._known: dict[_Asked, bool] = {}

    def some_option_may_start(self, job_class: JobClass) -> bool:
        """Whether some option of a class may fit; if not, no job of it can start."""
        return any(self._for(choice) for choice in job_class.choices)

    def _for(self, choice: Choice) -> bool:
        asked = choice.groups, choice.joint_level
        if asked not in self._known:
            self._known[asked] = _each_fits(self._placement, choice) and _all_fit(
                self._placement, choice
            )
        return self._known[asked]


def _each_fits(placement: Placement, choice: Choice) -> bool:
    """Whether each group of an option alone finds enough places."""
    if choice.is_tied:
        return could_place(placement, choice)
    cluster = placement.problem.cluster
    for group in choice.groups:
        fitting = placement.fits(group.shape)
        if group.required != NO_LEVEL:
            fitting = np.bincount(
                cluster.domain[group.required], weights=np.minimum(fitting, group.count)
            )
            if fitting.max() < group.count:
                return False
        elif np.minimum(fitting, group.count).sum() < group.count:
            return False
    return True


def _all_fit(placement: Placement, choice: Choice) -> bool:
    """Whether hosts of all groups have what they ask together, in one domain of a joint level."""
    if len(choice.groups) == 1:
        return True
    problem, cluster = placement.problem, placement.problem.cluster
    shapes = np.array([group.shape for group in choice.groups])
    hosts = np.any([placement.fits(s) > 0 for s in shapes], axis=0)
    joint = choice.joint_level != NO_LEVEL
    domain = cluster.domain[choice.joint_level] if joint else np.zeros(len(hosts), dtype=np.int64)

    def within(has: NDArray[np.int64]) -> NDArray[Any]:
        return np.bincount(domain[hosts], weights=has[hosts], minlength=1)

    count = np.array([group.count for group in choice.groups])
    whole = ~problem.is_share[shapes]
    asked = [
        (within(placement.free_milli_gpu), int(problem.shape_gpu[shapes] @ count)),
        (within(placement.whole * WHOLE_GPU), int(problem.shape_gpu[shapes[whole]] @ count[whole])),
    ]
    asked += [
        (within(placement.free[:, r]), int(demand @ count))
        for r, demand in enumerate(problem.shape_demand[shapes].T)
    ]
    return bool(np.all([has >= wanted for has, wanted in asked], axis=0).any())
