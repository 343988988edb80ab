"""Tenant quotas of region subproblems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.geo.heuristics.fixed_decisions import FixedDecisions
from placewright.formulations.geo.heuristics.subproblem import Quotas
from placewright.formulations.geo.problem.compile import Problem


def quotas_of_regions(
    problem: Problem, fixed: FixedDecisions, jobs_of_region: Mapping[int, Sequence[int]]
) -> dict[int, Quotas]:
    """Return the tenant quotas of each region subproblem.

    A quota of the whole round is split: a region gets what the tenant holds there, and what the
    jobs assigned to it request as long as some of the quota is left. What preempted jobs gave back
    is not left.
    """
    jobs, current_region = problem.round.jobs, problem.current_region
    limits = {t.name: dict(t.quota) for t in problem.round.tenants if t.quota}
    here = dict(problem.quota)
    for j in fixed.preempted:
        key, running = (int(current_region[j]), jobs[j].tenant), jobs[j].running
        if key in here and running is not None:
            here[key] = max(0, here[key] - jobs[j].options[running.option].milli_gpu)
    found: dict[int, dict[str, dict[str, int]]] = {r: {} for r in jobs_of_region}
    for (r, tenant), most in here.items():
        if r in found:
            found[r][tenant] = {**limits.get(tenant, {}), "gpu": most}
    if not limits:
        return dict(found)
    held: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    every: defaultdict[str, Counter[str]] = defaultdict(Counter)
    before: defaultdict[str, Counter[str]] = defaultdict(Counter)
    where = problem.wan.host_region
    for j, job in enumerate(jobs):
        if job.tenant not in limits:
            continue
        if job.running is not None:
            asked = resources_held(job.options[job.running.option])
            before[job.tenant].update(asked)
            region, holds = int(current_region[j]), j not in fixed.preempted
        else:
            start = fixed.starts.get(j)
            asked = resources_held(job.options[start[0]]) if start else {}
            region, holds = int(where[start[1][0][2]]) if start else NONE, start is not None
        if holds:
            held[region, job.tenant].update(asked)
        every[job.tenant].update(asked)
    for tenant, limit in limits.items():
        left = {
            name: max(most, before[tenant][name]) - every[tenant][name]
            for name, most in limit.items()
        }
        for r, pending in jobs_of_region.items():
            asks: Counter[str] = Counter()
            for j in pending:
                if jobs[j].tenant == tenant:
                    options = [resources_held(option) for option in jobs[j].options]
                    for name in limit:
                        asks[name] += max(option.get(name, 0) for option in options)
            quota = {}
            for name in limit:
                more = max(0, min(left[name], asks[name]))
                left[name] -= more
                quota[name] = held[r, tenant][name] + more
            cap = here.get((r, tenant))
            if cap is not None:
                quota["gpu"] = min(quota.get("gpu", cap), cap)
            found[r][tenant] = quota
    return dict(found)
