"""The plan section `shares`: what each tenant holds after the round, out of the whole cluster."""

from __future__ import annotations

from typing import Any

from placewright.formulations.gang.problem.limits import SCALE, TenantShare
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate

KIND = "shares"


def share_section(problem: Problem, candidate: Candidate) -> dict[str, Any] | None:
    """Return the section of a candidate; None if the policy does not ask for shares.

    A tenant's `share` is in units of 1 / 100,000 of the cluster, its weight taken into account, and
    `resource` its dominant resource.
    """
    if "share" not in problem.terms:
        return None
    held = {share.tenant: share for share in problem.shares}
    for job_class in problem.classes:
        if job_class.tenant not in held:
            continue
        for job in job_class.jobs:
            if job in candidate.starts:
                option = candidate.starts[job][0]
            elif job_class.running and job not in candidate.preempted:
                option = job_class.choices[0].index
            else:
                continue
            choice = next(c for c in job_class.choices if c.index == option)
            mine = held[job_class.tenant]
            held[job_class.tenant] = mine.plus(problem.amounts_of(choice))
    return {"kind": KIND, "tenants": [_entry(problem, share) for share in held.values()]}


def _entry(problem: Problem, share: TenantShare) -> dict[str, Any]:
    names = {-1: "gpu", **dict(enumerate(problem.cluster.resources))}
    of = {names[r]: SCALE * share.held[r] // per for r, per in share.denominator.items()}
    return {
        "tenant": problem.round.tenants[share.tenant].name,
        "share": max(of.values(), default=0),
        "resource": max(of, key=lambda name: (of[name], name), default=None),
    }
