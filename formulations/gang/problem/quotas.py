"""Quotas of tenants: what a job counts with, and what jobs that are not pinned may hold."""

from __future__ import annotations

from collections import defaultdict

from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.topology import Cluster


def remaining_quotas(round_: Round, cluster: Cluster) -> dict[tuple[int, int], int]:
    """Return what jobs that are not pinned may hold, by (tenant, resource or -1 for milli-GPU).

    A tenant that holds more than a quota, since the quota was lowered, may keep what it holds.
    """
    index = {name: i for i, name in enumerate(cluster.resources)} | {"gpu": -1}
    tenants = {t.name: i for i, t in enumerate(round_.tenants)}
    quota = {
        (tenants[t.name], index[name]): amount
        for t in round_.tenants
        for name, amount in t.quota.items()
        if name in index
    }
    held = dict.fromkeys(quota, 0)
    pinned = dict.fromkeys(quota, 0)
    for job in round_.jobs if quota else ():
        if job.running is not None and job.tenant is not None:
            for name, amount in resources_held(job.options[job.running.option]).items():
                key = (tenants[job.tenant], index.get(name, -2))
                if key in quota:
                    held[key] += amount
                    pinned[key] += amount * job.running.pinned
    return {key: max(amount, held[key]) - pinned[key] for key, amount in quota.items()}


def resources_held(option: Option) -> dict[str, int]:
    """Return what a job holds with an option, by resource name (`gpu` in milli-GPU)."""
    held: defaultdict[str, int] = defaultdict(int)
    for group in option.groups:
        wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory}
        for name, amount in (wanted | group.resources).items():
            held[name] += amount * group.count
    return held
