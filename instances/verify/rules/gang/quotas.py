"""The rule about tenants' quotas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from placewright.instances.documents.option import Option
from placewright.instances.documents.quantities import amount_text
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule


def quota(reading: Reading) -> Iterator[Finding]:
    """Require that a tenant holds no more than its quota, or than it held before if that is more.

    Running jobs may hold more than a quota that was lowered meanwhile. Kept and migrated jobs go on
    holding what they held, so only a tenant of which a job starts can come to hold more.
    """
    quotas = {tenant.name: tenant.quota for tenant in reading.round.tenants if tenant.quota}
    last = {placed.job.tenant: placed.path for placed in reading.started}
    before: defaultdict[str, Counter[str]] = defaultdict(Counter)
    change: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in reading.running:
        tenant = reading.jobs[name].tenant
        if tenant in quotas and tenant in last:
            before[tenant].update(_demand(reading.option_run(name)))
    for placed in reading.started:
        if placed.job.tenant in quotas:
            change[placed.job.tenant].update(_demand(placed.option))
    for victim in reading.preempted:
        if victim.job.tenant in quotas and victim.job.tenant in last:
            change[victim.job.tenant].subtract(_demand(reading.option_run(victim.job.name)))
    for tenant, changes in change.items():
        for resource, limit in quotas[tenant].items():
            held = before[tenant][resource]
            after = held + changes[resource]
            if after > max(limit, held):
                yield Finding(
                    last[tenant],
                    f"jobs of tenant {tenant!r} hold {amount_text(resource, after)} together; "
                    f"expected at most {amount_text(resource, max(limit, held))} "
                    f"(quota {amount_text(resource, limit)}, "
                    f"held before the round {amount_text(resource, held)})",
                )


def _demand(option: Option) -> Counter[str]:
    total: Counter[str] = Counter()
    for group in option.groups:
        total["gpu"] += group.milli_gpu
        for resource, amount in demand(group):
            total[resource] += group.count * amount
    return total


RULES_OF_QUOTAS: tuple[Rule[Reading], ...] = (Rule("quota", quota),)
