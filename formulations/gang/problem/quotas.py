"""Accounts: quotas of tenants, caps and pools, in which jobs count what they hold.

An **account** is a tenant's quota, a cap, what the whole cluster has of a resource of pools, or
what all pools of it can give in total. A job counts in that of its tenant, in its caps and in the
pools that it takes from. Each limits some amounts; every amount is a linear row over the options of
the jobs in the account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TypeAlias

from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.topology import Cluster

Account: TypeAlias = tuple[str, str]
"""`tenant`, `cap`, `pool` (of the whole cluster) or `total` (of pools), and name or resource."""

QuotaKey: TypeAlias = tuple[int, int]
"""An account and an amount that it limits.

The amount is a resource index, `GPUS`, `JOBS`, GPUs of a model (`of_model`) or a use (`of_use`).
"""

GPUS, JOBS = -1, -2
_FIRST_MODEL = -3
_FIRST_USE = 1 << 20


def of_model(model: int) -> int:
    """Return the number of the amount that is milli-GPU of a GPU model (an index)."""
    return _FIRST_MODEL - model


def model_of(amount: int) -> int | None:
    """Return the GPU model (an index) of which an amount is the milli-GPU, None if of none."""
    return _FIRST_MODEL - amount if amount <= _FIRST_MODEL else None


def of_use(use: int) -> int:
    """Return the number of the amount that jobs use of a resource (an index) in pools."""
    return _FIRST_USE + use


def use_of(amount: int) -> int | None:
    """Return the resource (an index) of which an amount is what jobs use, None if of none."""
    return amount - _FIRST_USE if amount >= _FIRST_USE else None


def use_numbers(round_: Round) -> dict[str, int]:
    """Return the number of each resource that is counted per job: of pools, or of caps alone."""
    names = dict.fromkeys(p.resource for p in round_.cluster.pools if p.per == "job")
    capped = dict.fromkeys(n for cap in round_.caps.values() for n in cap.resources if "@" in n)
    if capped:
        there = {name for host in round_.cluster.hosts for name in host.resources}
        there |= {pool.resource for pool in round_.cluster.pools}
        names |= {name: None for name in capped if name not in there}
    return {name: k for k, name in enumerate(names)}


def account_numbers(round_: Round) -> dict[Account, int]:
    """Return the number of each account: tenants in the round's order, then caps, then pools."""
    tenants = [("tenant", tenant.name) for tenant in round_.tenants]
    caps = [("cap", name) for name in round_.caps]
    resources = dict.fromkeys(pool.resource for pool in round_.cluster.pools)
    pools = [(kind, name) for name in resources for kind in ("pool", "total")]
    return {account: i for i, account in enumerate([*tenants, *caps, *pools])}


def accounts_of(job: Job) -> list[Account]:
    """Return the accounts that a job counts in."""
    tenant = [] if job.tenant is None else [("tenant", job.tenant)]
    return [*tenant, *(("cap", name) for name in job.caps)]


def limits_of(round_: Round) -> dict[Account, Mapping[Measure, int]]:
    """Return what the jobs of each account may hold together; accounts without a limit are left."""
    limits: dict[Account, Mapping[Measure, int]] = {
        ("tenant", tenant.name): {quota_measure(name): most for name, most in tenant.quota.items()}
        for tenant in round_.tenants
        if tenant.quota
    }
    return limits | {("cap", name): cap.limits for name, cap in round_.caps.items() if cap.limits}


def quota_measure(resource: str) -> Measure:
    """Return what a quota of a resource limits."""
    return Measure("gpus") if resource == "gpu" else Measure("resources", resource)


def quota_of(limits: Mapping[Measure, int]) -> dict[str, int]:
    """Return a tenant's quota with these limits."""
    return {"gpu" if m == Measure("gpus") else m.name: most for m, most in limits.items()}


def held_before(
    round_: Round, limits: Mapping[Account, Mapping[Measure, int]], without: Collection[int] = ()
) -> dict[Account, dict[Measure, int]]:
    """Return what running jobs hold of what is limited; `without` some, by index."""
    held = {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}
    for j, job in enumerate(round_.jobs if limits else ()):
        if job.running is not None and j not in without:
            add_held(held, job, job.options[job.running.option])
    return held


def add_held(
    held: Mapping[Account, dict[Measure, int]], job: Job, option: Option, times: int = 1
) -> None:
    """Add what a job with an option counts in its accounts."""
    for account in accounts_of(job):
        mine = held.get(account, {})
        for measure in mine:
            mine[measure] += times * measure.asked_by(option)


def remaining_quotas(round_: Round, cluster: Cluster) -> dict[QuotaKey, int]:
    """Return what jobs that are not pinned may hold.

    An account that holds more than it may, since it was lowered, may keep what it holds. What
    nothing in the cluster has is left out.
    """
    limits = limits_of(round_)
    if not limits:
        return {}
    pinned = {j for j, job in enumerate(round_.jobs) if job.running and job.running.pinned}
    held, movable = held_before(round_, limits), held_before(round_, limits, pinned)
    numbers, amounts = account_numbers(round_), amount_numbers(cluster, round_)
    return {
        (numbers[account], amounts[measure]): max(most, held[account][measure])
        - (held[account][measure] - movable[account][measure])
        for account, measures in limits.items()
        for measure, most in measures.items()
        if measure in amounts
    }


def amount_numbers(cluster: Cluster, round_: Round) -> dict[Measure, int]:
    """Return the number of each amount of which the cluster has something, or jobs use it."""
    return {
        Measure("gpus"): GPUS,
        Measure("jobs"): JOBS,
        **{Measure("resources", name): r for r, name in enumerate(cluster.resources)},
        **{Measure("resources", name): of_use(use) for name, use in use_numbers(round_).items()},
        **{
            Measure("gpus_by_model", name): of_model(m) for m, name in enumerate(cluster.gpu_models)
        },
    }


def resources_held(option: Option) -> dict[str, int]:
    """Return what a job holds with an option, by resource name (`gpu` in milli-GPU)."""
    held: defaultdict[str, int] = defaultdict(int)
    for group in option.groups:
        wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory}
        for name, amount in (wanted | group.resources).items():
            held[name] += amount * group.count
    return held
