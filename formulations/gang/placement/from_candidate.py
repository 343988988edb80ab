"""A candidate as a placement, so that a search may go on from a plan."""

from __future__ import annotations

from collections import defaultdict

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, Place
from placewright.topology.units import WHOLE_GPU


def placement_of(problem: Problem, candidate: Candidate) -> Placement:
    """Return the placement of a candidate: kept jobs in place, others where they start or go.

    GPUs of started jobs whose tasks take whole ones are left to the assignment.
    """
    placement = Placement(problem)
    for job in (*candidate.preempted, *candidate.starts):
        if job in problem.running:
            placement.stop(placement.start_of(job))
    # Running jobs first: their GPUs have names.
    for job in sorted(candidate.starts, key=lambda job: job not in problem.running):
        placement.restart(_start(problem, candidate, job))
    return placement


def _start(problem: Problem, candidate: Candidate, job: int) -> JobPlacement:
    option, places = candidate.starts[job]
    job_class = problem.classes[problem.class_of[job]]
    choice = job_class.choice_of(option)
    groups = job_class.choices[choice].groups
    slots = candidate.slots.get(job) or (None,) * len(places)
    tasks: list[TaskPlacement] = []
    unnamed: defaultdict[tuple[int, int], int] = defaultdict(int)
    runs = job in problem.running
    before = _placed(problem, job) if runs else set()
    for place, slot in zip(places, slots, strict=True):
        group, _, host, gpus = place
        shape = groups[group].shape
        parts = problem.part_demands
        part = parts is not None and (parts.is_slice[shape] or parts.memory[shape])
        if not runs and not part and not 0 < problem.shape_gpu[shape] < WHOLE_GPU:
            unnamed[group, host] += 1
        else:
            tasks.append(TaskPlacement(group, host, 1, gpus, (place, slot) in before, slot))
    tasks += [TaskPlacement(group, host, n, ()) for (group, host), n in unnamed.items()]
    return JobPlacement(problem.class_of[job], choice, tasks, job if runs else ANY_JOB)


def _placed(problem: Problem, job: int) -> set[tuple[Place, int | None]]:
    """Return place and MIG slot of each task of a running job."""
    running = problem.running[job]
    slots = running.slots or (None,) * len(running.places)
    return set(zip(running.places, slots, strict=True))
