"""The plan sections `communication`, `shares`, and those of replicas and flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placewright.formulations.common.wan.arrays import Wan
from placewright.formulations.gang.problem.limits import SCALE, TenantShare
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, DataPlan
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.collectives import bottleneck, time_us

# The plan section `communication`: bottleneck and time of each collective that is placed anew.


def collective_section(
    round_: Round, cluster: Cluster, candidate: Candidate
) -> dict[str, Any] | None:
    """Return the section for a candidate, or None if no group that it places has a collective.

    Groups go in the order in which a plan is read: migrated jobs, then started ones, each in the
    round's order. `bottleneck_mbit` is rounded down, and None where no link limits the group.
    """
    jobs, groups = round_.jobs, []
    for index in sorted(candidate.starts, key=lambda j: (jobs[j].running is None, j)):
        option, places = candidate.starts[index]
        for number, group in enumerate(jobs[index].options[option].groups):
            asked = group.communication
            if asked is None or asked.data_mib is None:
                continue
            mine = sorted(place for place in places if place[0] == number)
            ranks = [(host, gpu) for _, _, host, named in mine for gpu in named]
            hosts, gpus = np.array(ranks, dtype=np.int64).T
            slowest = bottleneck(cluster, hosts, gpus, asked.pattern)
            entry: Mapping[str, Any] = {
                "job": jobs[index].name,
                "group": number,
                "bottleneck_mbit": None if slowest is None else int(slowest),
                "time_us": time_us(asked.pattern, len(ranks), asked.data_mib, slowest),
            }
            groups.append(entry)
    return {"kind": "communication", "groups": groups} if groups else None


# The plan section `shares`: what each tenant holds after the round, out of the whole cluster.


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


# Plan sections of replicas and flows, from what a candidate says of data.


def replica_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `replicas`."""
    jobs = wan.round.jobs
    return {
        "kind": "replicas",
        "creates": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "ready": ready}
            for d, r, ready in data.creates
        ],
        "drops": [
            {"dataset": wan.datasets[d], "region": wan.regions[r], "at": at}
            for d, r, at in data.drops
        ],
        "homes": [
            {"job": jobs[j].name, "region": wan.regions[r], "gpu_model": wan.models[m]}
            for j, (r, m) in sorted(data.homes.items())
        ],
    }


def flow_section(wan: Wan, data: DataPlan) -> dict[str, Any]:
    """Return the section `flows`, in the order of their start."""
    return {
        "kind": "flows",
        "flows": [
            {
                "dataset": wan.datasets[flow.dataset],
                "path": [wan.regions[r] for r in flow.path],
                "gib": flow.gib,
                "start": flow.start,
                "end": flow.end,
            }
            for flow in sorted(data.flows, key=lambda f: (f.start, f.dataset, f.path))
        ],
    }
