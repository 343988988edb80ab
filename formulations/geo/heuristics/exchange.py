"""Jobs that are alike but for their data change places, so that less is read over links.

Jobs of equal options and priority may have each other's places, where no quota tells their tenants
apart: nothing but costs of data changes. Of
two regions, those go over and back that save most together; whoever waits is in a region of its
own, where nothing costs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.session import Candidate

ROUNDS = 5
"""How often all pairs of regions are gone through."""

FORBIDDEN = 2**40
"""Cost of a region in which a job may not start."""


def minimise_remote_reads(
    problem: Problem, gangs: Gangs, candidate: Candidate, costs: Ints
) -> Candidate:
    """Return a candidate that is the same but for who is where; `costs` are (jobs, regions)."""
    where = problem.wan.host_region
    region = np.full(len(problem.current_region), NONE, dtype=np.int64)
    for started, (_, places) in candidate.starts.items():
        region[started] = where[places[0][2]]
    takes: dict[int, int] = {}  # by the job that had a place, the one that has it now
    capped = {tenant.name for tenant in problem.round.tenants if tenant.quota}
    capped |= {tenant for _, tenant in problem.quota}
    equal: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for job_class in gangs.classes:
        for j in () if job_class.running else job_class.jobs:
            job = problem.round.jobs[j]
            tenant = job.tenant if job.tenant in capped else None
            equal[job_class.choices, tenant, job.priority].append(j)
    for jobs in equal.values():
        mine = np.array(jobs, dtype=np.int64)
        takes |= _changed(mine, region[mine], costs[mine], problem.eligible[mine])
    if not takes:
        return candidate
    return replace(
        candidate,
        starts={takes.get(job, job): start for job, start in candidate.starts.items()},
        slots={takes.get(job, job): slots for job, slots in candidate.slots.items()},
        preempted={job: takes.get(by, by) for job, by in candidate.preempted.items()},
    )


def _changed(jobs: Ints, region: Ints, costs: Ints, eligible: Bools) -> dict[int, int]:
    """Return who takes whose place, of jobs in these regions (jobs,)."""
    used = np.unique(region)
    if len(used) < 2:
        return {}
    # The last column is to wait.
    cost = np.column_stack(
        [np.where(eligible, costs, FORBIDDEN), np.zeros(len(jobs), dtype=np.int64)]
    )
    now = {r: np.flatnonzero(region == r) for r in used.tolist()}
    most = {r: _most_saved(now, cost, r) for r in now}
    for _ in range(ROUNDS):
        swapped = False
        for a, b in combinations(now, 2):
            if most[a][b] + most[b][a] > 0:
                _swap(now, cost, a, b)
                most |= {r: _most_saved(now, cost, r) for r in (a, b)}
                swapped = True
        if not swapped:
            break
    takes: dict[int, int] = {}
    for r, after in now.items():
        had, has = set(jobs[region == r].tolist()), set(jobs[after].tolist())
        if r != NONE:
            takes |= dict(zip(sorted(had - has), sorted(has - had), strict=True))
    return takes


def _most_saved(now: dict[int, Ints], cost: Ints, r: int) -> Ints:
    """Return what one job of a region saves at most by going to each (regions + 1,)."""
    mine = cost[now[r]]
    saved: Ints = (mine[:, r, None] - mine).max(axis=0)
    return saved


def _swap(now: dict[int, Ints], cost: Ints, a: int, b: int) -> None:
    """Swap jobs of two regions as long as that saves something.

    `now` has the jobs of each region.
    """
    of_a, of_b = now[a], now[b]
    over, back = cost[of_a, a] - cost[of_a, b], cost[of_b, b] - cost[of_b, a]
    of_a, of_b = of_a[np.argsort(-over, kind="stable")], of_b[np.argsort(-back, kind="stable")]
    pairs = min(len(of_a), len(of_b))
    saved = np.sort(over)[::-1][:pairs] + np.sort(back)[::-1][:pairs]
    many = int((saved > 0).sum())
    now[a] = np.sort(np.concatenate([of_b[:many], of_a[many:]]))
    now[b] = np.sort(np.concatenate([of_a[:many], of_b[many:]]))
