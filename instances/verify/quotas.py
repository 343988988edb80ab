"""The rule about tenants' quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from placewright.instances.round import Option
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule


def quota(reading: Reading) -> Iterator[Finding]:
    """Require that started jobs fit in what running ones leave of their tenant's quota.

    Running jobs may hold more than a quota that was lowered meanwhile; then nothing is left.
    """
    quotas = {tenant.name: tenant.quota for tenant in reading.round.tenants if tenant.quota}
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in reading.round.jobs:
        if job.running is not None and job.tenant in quotas:
            held[job.tenant].update(_demand(job.options[job.running.option]))
    added: defaultdict[str, Counter[str]] = defaultdict(Counter)
    last: dict[str, tuple[str | int, ...]] = {}
    for placed in reading.started:
        if placed.job.tenant in quotas:
            added[placed.job.tenant].update(_demand(placed.option))
            last[placed.job.tenant] = placed.path
    for tenant, asked in added.items():
        for resource, limit in quotas[tenant].items():
            left = max(0, limit - held[tenant][resource])
            if asked[resource] > left:
                yield Finding(
                    last[tenant],
                    f"started jobs of tenant {tenant!r} ask {asked[resource]} of {resource} "
                    f"together; expected at most {left} (quota {limit}, "
                    f"running {held[tenant][resource]})",
                )


def _demand(option: Option) -> Counter[str]:
    total: Counter[str] = Counter()
    for group in option.groups:
        total["gpu"] += group.milli_gpu
        for resource, amount in demand(group):
            total[resource] += group.count * amount
    return total


RULES: tuple[Rule[Reading], ...] = (Rule("quota", quota),)
