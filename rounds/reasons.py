"""Why a job waits; only what is proven is claimed.

Each reason rests on a necessary condition: an option cannot start where one of its groups alone
finds too few places (in every domain of the level that it requires,
by its own slices and failure domains).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.gang.jobs import NO_LEVEL, Choice, JobClass, Put
from placewright.formulations.gang.placing.arranging import may_place
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Candidate
from placewright.instances.plan import Reason
from placewright.topology import State


def reasons_of(problem: Problem, candidate: Candidate) -> dict[int, Reason]:
    """Return the reason of every pending job that the candidate does not start."""
    empty = emptied(problem)
    before = Placement(problem)
    quota = before.quota_left()
    reasons: dict[int, Reason] = {}
    open_jobs: list[tuple[int, int]] = []  # (job, class)
    for c, job_class in enumerate(problem.classes):
        if job_class.running:
            continue
        waiting = [j for j in job_class.jobs if j not in candidate.starts]
        if not waiting:
            continue
        if not may_start(empty, job_class):
            reason = Reason.NEVER_FITS
        elif not any(
            problem.within_quota(quota, job_class.tenant, choice) for choice in job_class.choices
        ):
            reason = Reason.QUOTA
        elif not may_start(before, job_class):
            reason = Reason.CAPACITY
        else:
            open_jobs += [(j, c) for j in waiting]
            continue
        reasons |= dict.fromkeys(waiting, reason)
    return reasons | dict(_displaced(problem, candidate, open_jobs))


def emptied(problem: Problem) -> Placement:
    """Return the cluster with nothing on it, every host healthy and open to all."""
    bare = State.empty(problem.cluster)
    every_host = np.ones_like(problem.open)
    return Placement(replace(problem.frozen({}), state=bare, cleared=bare, open=every_host))


def _displaced(
    problem: Problem, candidate: Candidate, open_jobs: list[tuple[int, int]]
) -> Iterator[tuple[int, Reason]]:
    """Tell who finds no place beside the started jobs of strictly higher precedence."""
    jobs = problem.round.jobs
    class_of = problem.class_of

    def of_start(job: int) -> tuple[bool, int]:
        choice = problem.classes[class_of[job]].choices[candidate.starts[job][0]]
        return choice.entitled, jobs[job].priority

    def of_best(job: int) -> tuple[bool, int]:
        choices = problem.classes[class_of[job]].choices
        return any(choice.entitled for choice in choices), jobs[job].priority

    started = sorted((j for j in candidate.starts if j not in problem.running), key=of_start)
    placement = Placement(problem)
    _move(placement, candidate)
    verdict: dict[tuple[int, int], bool] = {}
    for job, c in sorted(open_jobs, key=lambda entry: of_best(entry[0]), reverse=True):
        while started and of_start(started[-1]) > of_best(job):
            above = started.pop()
            option, places = candidate.starts[above]
            choice = problem.classes[class_of[above]].choices[option]
            for group, _, host, gpus in places:
                placement.hold(choice.groups[group].shape, host, gpus)
        key = c, jobs[job].priority
        if key not in verdict:
            verdict[key] = may_start(placement, problem.classes[c])
        yield job, Reason.NOT_CHOSEN if verdict[key] else Reason.DISPLACED_BY_PRIORITY


def _move(placement: Placement, candidate: Candidate) -> None:
    """Carry out what the candidate does with running jobs."""
    problem = placement.problem
    moved = [j for j in problem.running if j in candidate.starts]
    for job in (*moved, *candidate.preempted):
        placement.stop(placement.start_of(job))
    for job in moved:
        job_class = problem.running[job].job_class
        groups = problem.classes[job_class].choices[0].groups
        puts = [Put(group, host, 1, gpus) for group, _, host, gpus in candidate.starts[job][1]]
        for put in puts:
            placement.hold(groups[put.group].shape, put.host, put.gpus)
        placement.start(job_class, 0, puts, job)


def may_start(placement: Placement, job_class: JobClass) -> bool:
    """Whether each group of some option alone finds enough places: a job may start only then."""
    return any(_may_place(placement, choice) for choice in job_class.choices)


def _may_place(placement: Placement, choice: Choice) -> bool:
    if choice.tied:
        return may_place(placement, choice)
    cluster = placement.problem.cluster
    for group in choice.groups:
        room = placement.fits(group.shape)
        if group.required != NO_LEVEL:
            room = np.bincount(
                cluster.domain[group.required], weights=np.minimum(room, group.count)
            )
            if room.max() < group.count:
                return False
        elif np.minimum(room, group.count).sum() < group.count:
            return False
    return True
