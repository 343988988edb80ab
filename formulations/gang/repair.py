"""Small exact repairs: take a few hosts apart and fill them again, provably as well as possible.

The hosts are those with the most left behind and a random few of the same GPU model; their one-task
jobs go back to the waiting ones, and the host-indexed model (exact.py) decides who gets them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import exact
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import Candidate, Session
from placewright.instances.documents import WHOLE_GPU

HOSTS = 12
ROUNDS = 400
PATIENCE = 25
SECONDS = 3.0


def repair(problem: Problem, session: Session, placement: Placement) -> Iterator[Candidate]:
    """Improve a placement's value until time, patience or the gap says stop; yield what improved."""
    if problem.terms[0] != "value":
        return
    rng = np.random.default_rng(session.seed)
    failures, improved, last = 0, False, placement.value
    for _ in range(ROUNDS):
        if session.remaining() <= SECONDS or failures >= PATIENCE:
            break
        if _repair_once(problem, session, placement, _choose(problem, placement, rng)):
            improved, failures = True, 0
            if placement.value >= last * (1 + session.gap):
                last, improved = placement.value, False
                yield Candidate(placement.places(), "repair")
                if session.satisfied():
                    return
        else:
            failures += 1
    if improved:
        yield Candidate(placement.places(), "repair")


def _choose(
    problem: Problem, placement: Placement, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Hosts of one GPU model, drawn by how many milli-GPU each has left."""
    left = placement.whole * WHOLE_GPU + placement.partial.sum(axis=1)
    left = np.where(problem.shape_hosts.any(axis=0), left, 0)
    if not left.any():
        return np.zeros(0, dtype=np.int64)
    first = rng.choice(len(left), p=left / left.sum())
    model = problem.cluster.gpu_model
    same = np.flatnonzero(
        (model == model[first]) & problem.state.healthy & (np.arange(len(left)) != first)
    )
    weight = left[same] + WHOLE_GPU / 4
    size = min(HOSTS - 1, len(same))
    others = rng.choice(same, size=size, replace=False, p=weight / weight.sum())
    return np.sort(np.append(others, first))


def _repair_once(
    problem: Problem, session: Session, placement: Placement, hosts: NDArray[np.int64]
) -> bool:
    """Refill the hosts; returns whether the value grew, and leaves the placement as good or better."""
    inside = np.zeros(problem.cluster.num_hosts, dtype=np.bool_)
    inside[hosts] = True
    freed = []
    for start, c, o, puts in placement.started():
        if len(puts) == 1 and puts[0].count == 1 and inside[puts[0].host]:
            freed.append((start, c, o, puts))
    before = sum(problem.classes[c].choices[o].value for _, c, o, _ in freed)
    for start, _, _, _ in freed:
        placement.stop(start)
    model = exact.build(problem, placement, hosts, _numbers(problem, placement, hosts))
    model.model.hold("value", before + 1)
    outcome = session.optimise(model.model.arrays("value"), most=SECONDS, gap=1e-4)
    if outcome is not None and outcome.values is not None:
        exact.apply(model, outcome.values, placement)
        return True
    for _, c, o, puts in freed:
        placement.restart(c, o, puts)
    return False


def _numbers(
    problem: Problem, placement: Placement, hosts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Waiting jobs per class, no more than the hosts could hold, one-task options only."""
    numbers = np.zeros(len(problem.classes), dtype=np.int64)
    room = np.array([placement.fits(s)[hosts].sum() for s in range(len(problem.shape_gpu))])
    for c, job_class in enumerate(problem.classes):
        single = all(len(o.groups) == 1 and o.groups[0].count == 1 for o in job_class.choices)
        if placement.waiting[c] and single:
            fit = max(int(room[o.groups[0].shape]) for o in job_class.choices)
            numbers[c] = min(placement.waiting[c], fit)
    return numbers
