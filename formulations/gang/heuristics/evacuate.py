"""Evacuation: tasks leave hosts for others that fit them; the other tasks stay in place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.greedy import place_group
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group, RunningJob, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem


def evacuate(placement: Placement) -> None:
    """Relocate tasks from the policy's hosts to vacate, jobs with the largest tasks first."""
    problem = placement.problem
    jobs = [
        job
        for job, running in problem.running.items()
        if any(
            problem.vacate[host] and problem.shape_gpu[_groups(problem, running)[g].shape]
            for g, _, host, _ in running.places
        )
    ]
    for job in sorted(jobs, key=lambda j: (-_largest(problem, problem.running[j]), j)):
        if not relocate(placement, job, problem.vacate):
            _eject_one(placement, job)


def _eject_one(placement: Placement, job: int) -> bool:
    """One-step ejection: another job leaves a host, and the evacuated one takes its place."""
    problem = placement.problem
    running = problem.running[job]
    groups = _groups(problem, running)
    leaving = [groups[g].shape for g, _, host, _ in running.places if problem.vacate[host]]
    if len(leaving) != 1:
        return False
    others: defaultdict[int, list[int]] = defaultdict(list)
    for other, there in problem.running.items():
        hosts = {place[2] for place in there.places}
        if len(hosts) == 1 and placement.in_place(other):
            others[hosts.pop()].append(other)
    tries, most = 0, parameters.PARAMETERS.insertion.max_evacuation_ejections
    free = placement.free_milli_gpu
    fit = np.flatnonzero(problem.shape_hosts[leaving[0]])
    for host in fit[np.argsort(-free[fit], kind="stable")].tolist():
        here = np.zeros(problem.cluster.num_hosts, dtype=np.bool_)
        here[host] = True
        for other in sorted(others[host], key=lambda j: _largest(problem, problem.running[j])):
            tries += 1
            if tries > most:
                return False
            if relocate(placement, other, here, ~here & problem.open):
                if relocate(placement, job, problem.vacate, here):
                    return True
                placement.stop(placement.start_of(other))
                placement.restart(problem.running_placement_of[other])
    return False


def evacuation_cost(problem: Problem) -> int:
    """Return the least disruption of emptying the policy's hosts of all that may move."""
    cost = 0
    for running in problem.running.values():
        groups = _groups(problem, running)
        milli = [problem.shape_gpu[groups[g].shape] for g, _, _, _ in running.places]
        leaving = [problem.vacate[host] for _, _, host, _ in running.places]
        moved = sum(int(m) for m, a in zip(milli, leaving, strict=True) if a)
        if moved:
            cost += min(running.migrate_cost + moved, running.preempt_cost + int(sum(milli)))
    return cost


def _largest(problem: Problem, running: RunningJob) -> int:
    return max(group.milli_gpu // group.count for group in _groups(problem, running))


def _groups(problem: Problem, running: RunningJob) -> tuple[Group, ...]:
    return problem.classes[running.job_class].choices[0].groups


def relocate(
    placement: Placement,
    job: int,
    sources: NDArray[np.bool_],
    within: NDArray[np.bool_] | None = None,
) -> bool:
    """Move the tasks of a running job in place off the hosts `leave`, if they fit elsewhere.

    What runs on a host that failed moves, too; the other tasks stay. `within` restricts where tasks
    go. Returns whether the job was moved; if not, it is in place as before. A job whose tasks are
    tied to each other, or kept from others, is not.
    """
    problem = placement.problem
    running = problem.running[job]
    if problem.classes[running.job_class].choices[0].is_tied:
        return False
    groups = _groups(problem, running)
    start = problem.running_placement_of[job]
    leaving = sources | ~problem.state.healthy
    staying = [put for put in start.tasks if not leaving[put.host]]
    placement.stop(placement.start_of(job))
    with placement.without_rank_limits([job]):
        for put in staying:
            placement.keep(groups[put.group].shape, put)
        puts: list[TaskPlacement] = []
        for k, group in enumerate(groups):
            here = [put.host for put in staying if put.group == k]
            mask = _allowed_hosts(problem, group, here, within)
            found = None if mask is None else _place_moving(placement, group, k, len(here), mask)
            if found is None:
                for put in (*staying, *puts):
                    placement.lift(groups[put.group].shape, put)
                break
            puts += found
        else:
            staying += puts
    if len(staying) and sum(put.count for put in staying) == sum(group.count for group in groups):
        placement.start(running.job_class, 0, staying, job)
        return True
    placement.restart(start)
    return False


def _allowed_hosts(
    problem: Problem, group: Group, here: list[int], within: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Hosts that the moving tasks of a group may use; None if those that stay are apart already.

    A job that runs may be apart against its required level, but not one that moves: not even the
    groups of it that stay.
    """
    mask = np.ones(problem.cluster.num_hosts, dtype=np.bool_) if within is None else within
    if group.required == NO_LEVEL or not here:
        return mask
    domain = problem.cluster.domain[group.required]
    if len(set(domain[here].tolist())) > 1:
        return None
    same: NDArray[np.bool_] = domain == domain[here[0]]
    return mask & same


def _place_moving(
    placement: Placement, group: Group, index: int, num_staying: int, mask: NDArray[np.bool_]
) -> list[TaskPlacement] | None:
    if num_staying == group.count:
        return []
    return place_group(placement, replace(group, count=group.count - num_staying), index, mask)
