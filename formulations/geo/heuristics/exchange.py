"""Exchange of identical jobs between regions: an exact transportation problem per class of jobs.

Jobs with equal options and priority may take each other's places, as long as no quota or cap
distinguishes them: nothing but the cost of their reads changes. The number of jobs in each region,
and of those that wait, stays. So who runs where at minimum cost is a transportation problem from
jobs to regions, which is solved as a minimum-cost flow.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.quotas import accounts_of, limits_of
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.solver.network_flow import transportation


def minimise_remote_reads(
    problem: Problem, gangs: Gangs, candidate: Candidate, costs: Ints
) -> Candidate:
    """Return a candidate with identical jobs exchanged so that reads cost the least.

    `costs` (jobs, regions) are the costs of jobs in regions.
    """
    where = problem.wan.host_region
    region = np.full(len(problem.current_region), NONE, dtype=np.int64)
    for started, (_, places) in candidate.starts.items():
        region[started] = where[places[0][2]]
    successor: dict[int, int] = {}  # the job that takes the place of each job
    limited = {*limits_of(problem.round), *(("tenant", tenant) for _, tenant in problem.quota)}
    identical: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for job_class in gangs.classes:
        for j in () if job_class.running else job_class.jobs:
            job = problem.round.jobs[j]
            accounts = frozenset(a for a in accounts_of(job) if a in limited)
            identical[job_class.choices, accounts, job.priority].append(j)
    for jobs in identical.values():
        mine = np.array(jobs, dtype=np.int64)
        found = exchange(region[mine], costs[mine], problem.eligible[mine])
        moved = np.flatnonzero(found != region[mine])
        for r in np.unique(region[mine[moved]]).tolist():
            if r != NONE:
                left = mine[moved[region[mine[moved]] == r]]
                came = mine[moved[found[moved] == r]]
                successor |= dict(zip(left.tolist(), came.tolist(), strict=True))
    if not successor:
        return candidate
    return replace(
        candidate,
        starts={successor.get(job, job): start for job, start in candidate.starts.items()},
        slots={successor.get(job, job): slots for job, slots in candidate.slots.items()},
        preempted={job: successor.get(by, by) for job, by in candidate.preempted.items()},
    )


def exchange(region: Ints, costs: Ints, eligible: Bools) -> Ints:
    """Return regions of jobs at minimum cost, as many jobs in each as now (jobs,).

    Of all minimum-cost solutions it is one in which the fewest jobs move.

    Parameters
    ----------
    region
        (jobs,): the current regions, NONE of jobs that wait, at no cost.
    costs, eligible
        (jobs, regions): costs, and where jobs may run.
    """
    sinks, sink = np.unique(region, return_inverse=True)
    # The last column, which NONE refers to, is to wait.
    cost = np.pad(costs, ((0, 0), (0, 1)))[:, sinks]
    allowed = np.pad(eligible, ((0, 0), (0, 1)), constant_values=True)[:, sinks]
    cost = np.where(allowed, cost, 0)
    best = np.where(allowed, cost, np.iinfo(np.int64).max).min(axis=1)
    if len(sinks) < 2 or (cost[np.arange(len(sink)), sink] == best).all():
        return region
    # Jobs with equal costs are one source.
    rows, group = np.unique(np.hstack([cost, allowed]), axis=0, return_inverse=True)
    group = group.reshape(-1)
    current = np.zeros((len(rows), len(sinks)), dtype=np.int64)
    np.add.at(current, (group, sink), 1)
    plan = transportation(
        current.sum(axis=1),
        current.sum(axis=0),
        rows[:, : len(sinks)],
        rows[:, len(sinks) :] > 0,
        current,
    )
    return region if plan is None else sinks[_deal(group, sink, current, plan)]


def _deal(group: Ints, sink: Ints, current: Ints, plan: Ints) -> Ints:
    """Return the sinks of jobs in a plan (jobs,): those of a group that can stay do."""
    found = sink.copy()
    for g in np.flatnonzero((plan != current).any(axis=1)).tolist():
        mine = np.flatnonzero(group == g)
        excess = np.maximum(0, current[g] - plan[g])
        movable = [mine[sink[mine] == s][-n:] for s, n in enumerate(excess.tolist()) if n]
        lack = np.maximum(0, plan[g] - current[g])
        found[np.concatenate(movable)] = np.repeat(np.arange(len(lack)), lack)
    return found
