"""Quotas and caps of region subproblems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from placewright.formulations.gang.problem.quotas import (
    Account,
    accounts_of,
    add_held,
    held_before,
    limits_of,
)
from placewright.formulations.geo.heuristics.fixed_decisions import FixedDecisions
from placewright.formulations.geo.heuristics.subproblem import Quotas
from placewright.formulations.geo.problem.compile import Problem
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job

GPUS = Measure("gpus")


def quotas_of_regions(
    problem: Problem, fixed: FixedDecisions, jobs_of_region: Mapping[int, Sequence[int]]
) -> dict[int, Quotas]:
    """Return the quotas and caps of each region subproblem.

    Those of the whole round are split: a region gets what the jobs in question hold there, and what
    those assigned to it request as long as some is left. What preempted jobs gave back is not left.
    """
    jobs, current_region = problem.round.jobs, problem.current_region
    limits = limits_of(problem.round)
    here = dict(problem.quota)
    for j in fixed.preempted:
        key, running = (int(current_region[j]), jobs[j].tenant), jobs[j].running
        if key in here and running is not None:
            here[key] = max(0, here[key] - jobs[j].options[running.option].milli_gpu)
    found: dict[int, dict[Account, dict[Measure, int]]] = {r: {} for r in jobs_of_region}
    for (r, tenant), most in here.items():
        if r in found:
            found[r]["tenant", tenant] = {GPUS: most}
    if not limits:
        return dict(found)

    def nothing() -> dict[Account, dict[Measure, int]]:
        return {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}

    before, every = held_before(problem.round, limits), nothing()
    held: defaultdict[int, dict[Account, dict[Measure, int]]] = defaultdict(nothing)
    where = problem.wan.host_region
    for j, job in enumerate(jobs):
        if not accounts_of(job):
            continue
        start = fixed.starts.get(j)
        if job.running is not None:
            option, region = job.options[job.running.option], int(current_region[j])
            holds = j not in fixed.preempted
        elif start is not None:
            option, region, holds = job.options[start[0]], int(where[start[1][0][2]]), True
        else:
            continue
        if holds:
            add_held(held[region], job, option)
        add_held(every, job, option)
    for account, limit in limits.items():
        left = {m: max(most, before[account][m]) - every[account][m] for m, most in limit.items()}
        for r, pending in jobs_of_region.items():
            mine = [jobs[j] for j in pending if account in accounts_of(jobs[j])]
            quota = {}
            for measure in limit:
                more = max(0, min(left[measure], _most(mine, measure)))
                left[measure] -= more
                quota[measure] = held[r][account][measure] + more
            there = here.get((r, account[1])) if account[0] == "tenant" else None
            if there is not None:
                quota[GPUS] = min(quota.get(GPUS, there), there)
            found[r][account] = quota
    return dict(found)


def _most(jobs: Sequence[Job], measure: Measure) -> int:
    """Return the most that some jobs may ask together."""
    return sum(max(map(measure.asked_by, job.options)) for job in jobs)
