"""Greedy emptying of domains (`freed`): all jobs of a domain move to hosts in use elsewhere.

`repack_domains.py` frees more, but knows neither GPU memory nor MIG slices, and moves one-task jobs
alone; this needs no solver and moves all jobs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.evacuate import relocate
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.problem import Problem


def empty_domains(placement: Placement) -> None:
    """Empty domains one after the other, those first that hold fewest GPUs for their worth.

    A domain is tried only if its moves cost less than it is worth and nothing has moved in. If one
    of its jobs finds no host outside, all its jobs are back where they were.
    """
    problem = placement.problem
    freeing = FreeableDomains(problem)
    jobs_in: dict[int, list[int]] = {}
    held = np.zeros(len(freeing.worth_of_domain))
    for job, running in problem.running.items():
        groups = problem.classes[running.job_class].choices[0].groups
        for group, _, host, _ in running.places:
            held[freeing.domain[host]] += int(problem.shape_gpu[groups[group].shape])
        for d in {int(freeing.domain[place[2]]) for place in running.places}:
            jobs_in.setdefault(d, []).append(job)
    usable = problem.state.busy & problem.open
    moved: set[int] = set()
    taken: set[int] = set()
    order = np.argsort(held / np.maximum(freeing.worth_of_domain, 1), kind="stable")
    for d in order[freeing.freeable[order] & (freeing.worth_of_domain[order] > 0)].tolist():
        jobs = jobs_in[d]
        here = freeing.domain == d
        if (
            d in taken
            or not moved.isdisjoint(jobs)
            or _disruption(problem, jobs, here) >= freeing.worth_of_domain[d]
        ):
            continue
        within = usable & ~here
        done = []
        for job in sorted(jobs, key=lambda j: -_largest_task(problem, j)):
            if not relocate(placement, job, here, within):
                break
            done.append(job)
        if len(done) < len(jobs):
            for job in reversed(done):
                placement.stop(placement.start_of(job))
                placement.restart(problem.running_placement_of[job])
            continue
        usable &= ~here
        moved.update(jobs)
        for job in jobs:
            puts = placement.get(placement.start_of(job))
            taken.update(int(freeing.domain[put.host]) for put in (puts.tasks if puts else ()))


def _largest_task(problem: Problem, job: int) -> int:
    return max(
        int(problem.shape_gpu[g.shape])
        for g in problem.classes[problem.running[job].job_class].choices[0].groups
    )


def _disruption(problem: Problem, jobs: list[int], here: NDArray[np.bool_]) -> int:
    """Disruption of moving jobs off some hosts."""
    total = 0
    for job in jobs:
        running = problem.running[job]
        groups = problem.classes[running.job_class].choices[0].groups
        total += running.migrate_cost + sum(
            int(problem.shape_gpu[groups[g].shape]) for g, _, h, _ in running.places if here[h]
        )
    return total
