"""Accounts: the quotas and caps that jobs count in, and what they hold of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import demand
from placewright.instances.verify.rules.gang.caps import counted

Resource: TypeAlias = str | Measure
"""What is limited: of a quota a resource by name, of a cap a measure."""

Held: TypeAlias = Counter[Resource]


class Account(NamedTuple):
    """A tenant, in the whole cluster or in a region; or a cap."""

    kind: str
    name: str
    region: str | None = None

    def __str__(self) -> str:
        where = "" if self.region is None else f" in {self.region}"
        return f"{self.kind} {self.name + where!r}"


def limits_of(round_: Round, *, by_region: bool) -> Mapping[Account, Mapping[Resource, int]]:
    """Return what may be held in each account; `by_region`: also in those of regions."""
    limits: dict[Account, Mapping[Resource, int]] = {}
    for tenant in round_.tenants:
        if tenant.quota:
            limits[Account("tenant", tenant.name)] = dict(tenant.quota.items())
    for name, cap in round_.caps.items():
        limits[Account("cap", name)] = dict(cap.limits.items())
    for region in round_.geo.regions if by_region else ():
        for name, quota in region.quotas.items():
            limits[Account("tenant", name, region.name)] = {"gpu": quota}
    return limits


def accounts_of(job: Job, region: str | None = None) -> list[Account]:
    """Return the accounts that a job counts in, in a region if one is given."""
    found = [Account("cap", name) for name in job.caps]
    if job.tenant is not None:
        found.append(Account("tenant", job.tenant))
        if region is not None:
            found.append(Account("tenant", job.tenant, region))
    return found


def asked_in(account: Account, option: Option) -> Mapping[Resource, int]:
    """Return what a job with an option counts in an account."""
    return dict(counted(option).items()) if account.kind == "cap" else asked_by(option)


def asked_by(option: Option) -> Held:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked: Held = Counter(option.uses)
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked


def text_of(resource: Resource, amount: int) -> str:
    """Return an amount with its unit."""
    return resource.text(amount) if isinstance(resource, Measure) else amount_text(resource, amount)
