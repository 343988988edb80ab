"""Free more hosts: take a few apart, one that is to be freed among them, and pack them anew.

The host-indexed model (exact/) decides what stays, what moves and which hosts become free; it is
kept only if `freed` grows. Hosts that a job has moved to or from are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.exact.expand import expand_into
from placewright.formulations.gang.exact.gpus import add_gpus
from placewright.formulations.gang.exact.model import build
from placewright.formulations.gang.exact.moves import add_freed
from placewright.formulations.gang.freeing import Freeing
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem
from placewright.formulations.session import HOLD_SLACK, Candidate, Session
from placewright.instances.documents import WHOLE_GPU

HOSTS = 10
SECONDS = 3.0
PATIENCE = 60
WORTH_TELLING = 25
"""Improvements after which the plan is verified."""


def rearrange(problem: Problem, session: Session, placement: Placement) -> Iterator[Candidate]:
    """Improve `freed` of single hosts until time or patience ends; yield the better plans."""
    if problem.round.policy.freeing is None or problem.round.policy.freeing.level != "host":
        return
    freeing = Freeing(problem)
    rng = np.random.default_rng(session.seed)
    jobs_of: dict[int, set[int]] = {h: set() for h in range(problem.cluster.num_hosts)}
    for job, running in problem.running.items():
        for _, _, host, _ in running.places:
            jobs_of[host].add(job)
    failures = gained = 0
    while failures < PATIENCE and not session.expired(2 * SECONDS):
        hosts = _choose(problem, placement, freeing, jobs_of, rng)
        if len(hosts) < 2:
            break
        if _repack(problem, session, placement, hosts, jobs_of):
            failures, gained = 0, gained + 1
            if gained % WORTH_TELLING == 0:
                yield candidate(placement, "rearranging")
        else:
            failures += 1
    if gained % WORTH_TELLING:
        yield candidate(placement, "rearranging")


def _choose(
    problem: Problem,
    placement: Placement,
    freeing: Freeing,
    jobs_of: dict[int, set[int]],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw hosts of one GPU model in use, with room, where every job is in place and alone."""
    free = placement.whole * WHOLE_GPU + placement.partial.sum(axis=1)
    fit = problem.state.busy & problem.open & freeing.clearable & (free > 0)
    for _, start in placement.moved():
        places = [put.host for put in start.puts]
        if start.job in problem.running:
            places += [p[2] for p in problem.running[start.job].places]
        fit[places] = False
    for host in np.flatnonzero(fit).tolist():
        jobs = jobs_of[host]
        fit[host] = bool(jobs) and all(
            {p[2] for p in problem.running[j].places} == {host} for j in jobs
        )
    mine = np.flatnonzero(fit)
    if len(mine) < 2:
        return mine
    share = free[mine] / np.maximum(freeing.worth_of_hosts[mine], 1)
    weight = share + share.mean() * 0.1
    first = rng.choice(mine, p=weight / weight.sum())
    same = mine[problem.cluster.gpu_model[mine] == problem.cluster.gpu_model[first]]
    same = same[same != first]
    size = min(HOSTS - 1, len(same))
    weight = free[same].astype(np.float64)
    others = rng.choice(same, size=size, replace=False, p=weight / weight.sum())
    return np.sort(np.append(others, first))


def _repack(
    problem: Problem,
    session: Session,
    placement: Placement,
    hosts: NDArray[np.int64],
    jobs_of: dict[int, set[int]],
) -> bool:
    jobs = sorted(set().union(*(jobs_of[h] for h in hosts.tolist())))
    for job in jobs:
        placement.stop(placement.start_of(job))
    none = np.zeros(len(problem.classes), dtype=np.int64)
    with placement.reopened(jobs):
        exact = build(problem, placement, hosts, none, jobs)
        slots = add_gpus(exact)
        rows = exact.model.rows("all run", len(jobs), lower=1.0)
        exact.model.add(rows, exact.y, 1.0)
        add_freed(exact)
    exact.model.hold("freed", 1, HOLD_SLACK)
    outcome = session.optimise(exact.model.arrays("freed"), most=SECONDS, gap=1e-2)
    if outcome is not None and outcome.values is not None:
        expand_into(exact, slots, outcome.values, placement)
        return True
    for job in jobs:
        placement.restart(problem.start_of[job])
    return False
