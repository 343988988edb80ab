"""Free hosts by packing anew what is small: all shares of GPUs, and all that runs on hosts to free.

What to free is chosen by what hosts hold for what they are worth, up to the bound. Those tasks then
are the pending jobs of a round of their own, on the other hosts; who finds no place stays, and so
does all that runs on its host. Everything else stays where it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.freeing import Freeing
from placewright.formulations.gang.greedy import fill, place_choice
from placewright.formulations.gang.models import models_of
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.plans import plans
from placewright.formulations.gang.problem import VALUE, JobClass, Problem, Put
from placewright.formulations.session import Candidate, Place, Session

TIERS = 4
"""Hosts to free, best first, are in so many tiers; what runs on a better one is placed first."""

SHARES = (0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Parts of the bound that are tried in turn, until not all tasks find a place."""

Starts = dict[int, tuple[int, tuple[Place, ...]]]


def repack(problem: Problem, session: Session, most: float) -> Iterator[Candidate]:
    """Yield plans that free hosts worth up to `most`, for single hosts only."""
    goal = problem.round.policy.freeing
    if goal is None or goal.level != "host":
        return
    for share in SHARES:
        tier = _tiers(problem, Freeing(problem), share * most)
        part = _round_of_its_own(problem, tier)
        if not part.classes:
            continue
        placement = Placement(part)
        fill(placement)
        models = models_of(part, placement)
        complete = False
        for step in plans(session, part, placement, next(models), models):
            if isinstance(step, Candidate):
                moves = _moves(problem, tier, dict(step.starts))
                yield candidate(_carried_out(problem, moves, tier), "repacking")
                complete = len(step.starts) == part.counts.sum()
            if complete:
                break
        if not complete or session.expired():
            return


def _tiers(problem: Problem, freeing: Freeing, most: float) -> NDArray[np.int64]:
    """Tier of each host to free, best first; 0 for hosts that stay in use."""
    held = np.zeros(problem.cluster.num_hosts)
    for running in problem.running.values():
        groups = problem.classes[running.job_class].choices[0].groups
        for group, _, host, _ in running.places:
            held[host] += int(problem.shape_gpu[groups[group].shape])
    order = np.argsort(held / np.maximum(freeing.worth, 1), kind="stable")
    order = order[freeing.clearable[order] & (freeing.worth[order] > 0)]
    chosen = order[np.cumsum(freeing.worth[order]) <= most]
    tier = np.zeros(len(held), dtype=np.int64)
    for number, hosts in enumerate(np.array_split(chosen, TIERS)):
        tier[hosts] = TIERS - number
    return tier


def _round_of_its_own(problem: Problem, tier: NDArray[np.int64]) -> Problem:
    """Return the round of the jobs that may move, on what the others leave; nothing may stop."""
    state = problem.state.copy()
    classes = []
    for job_class in problem.classes if not problem.quota else ():
        if not job_class.running:
            continue
        choice = job_class.choices[0]
        share = bool(problem.shared[choice.groups[0].shape])
        by_worth: defaultdict[int, list[int]] = defaultdict(list)
        for job in job_class.jobs:
            tiers = {int(tier[place[2]]) for place in problem.running[job].places}
            if len(choice.groups) == 1 and problem.floats(problem.running[job]):
                if min(tiers) > 0:
                    by_worth[min(tiers)].append(job)
                elif share and tiers == {0}:
                    by_worth[2 * TIERS].append(job)  # its place may be gone: first of all
        for worth, jobs in by_worth.items():
            value = worth * problem.demand_of(choice, -1)
            only = (replace(choice, value=value),)
            classes.append(JobClass(tuple(jobs), job_class.tenant, only))
            for job in jobs:
                problem.hold(state, job, problem.running[job].places, -1)
    open_ = problem.open & problem.state.busy & (tier == 0)
    return replace(
        problem,
        state=state,
        cleared=state,
        classes=tuple(classes),
        running={},
        open=open_,
        terms=(VALUE,),
    )


def _moves(problem: Problem, tier: NDArray[np.int64], starts: Starts) -> Starts:
    """Return who moves where: jobs of a host stay if one of them found no place."""
    stays = {
        host
        for job, running in problem.running.items()
        if job not in starts
        for _, _, host, _ in running.places
        if tier[host]
    }
    found: defaultdict[int, list[tuple[int, tuple[Place, ...]]]] = defaultdict(list)
    jobs: defaultdict[int, list[int]] = defaultdict(list)
    for job, start in starts.items():
        running = problem.running[job]
        if stays.isdisjoint(place[2] for place in running.places):
            found[running.job_class].append(start)
            jobs[running.job_class].append(job)
    moves: Starts = {}
    for job_class, places in found.items():
        # Jobs of a class are interchangeable: who has such a place already keeps it.
        at = {_key(problem.running[job].places): job for job in jobs[job_class]}
        taken = {at[_key(p)] for _, p in places if _key(p) in at}
        rest = iter([job for job in jobs[job_class] if job not in taken])
        moves |= {next(rest): start for start in places if _key(start[1]) not in at}
    return moves


def _carried_out(problem: Problem, moves: Starts, tier: NDArray[np.int64]) -> Placement:
    """Move jobs where they are to go; where a job that found no place is in the way, elsewhere."""
    placement = Placement(problem)
    for job in moves:
        placement.stop(placement.start_of(job))
    left = []
    with placement.reopened(list(moves)):
        for job, (_, places) in moves.items():
            if not _move(placement, job, places):
                left.append(job)
        for job in left:
            running = problem.running[job]
            choice = problem.classes[running.job_class].choices[0]
            inside = dict.fromkeys(range(len(choice.groups)), problem.state.busy & (tier == 0))
            puts = place_choice(placement, choice, inside)
            if puts is None and not placement.fits_in_place(job):
                puts = place_choice(placement, choice)
            if puts is not None:
                placement.start(running.job_class, 0, puts, job)
            elif placement.fits_in_place(job):
                placement.restart(problem.start_of[job])
    return placement


def _move(placement: Placement, job: int, places: tuple[Place, ...]) -> bool:
    """Start a job in some places, if they are free."""
    problem = placement.problem
    running = problem.running[job]
    groups = problem.classes[running.job_class].choices[0].groups
    puts: list[Put] = []
    for group, _, host, gpus in places:
        shape = groups[group].shape
        put = Put(group, host, 1, gpus)
        if not placement.fits_gpus(shape, put):
            for done in puts:
                placement.lift(groups[done.group].shape, done)
            return False
        placement.keep(shape, put)
        puts.append(put)
    placement.start(running.job_class, 0, puts, job)
    return True


def _key(places: tuple[Place, ...]) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    return tuple(sorted((group, host, tuple(sorted(gpus))) for group, _, host, gpus in places))
