"""Edits of what tenants and the policy allow: quotas, and limits of the disruption budget."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.derived.names import check_known
from placewright.instances.documents.edits import LimitsEdit, QuotaEdit
from placewright.instances.documents.geo import Region
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits, Tenant
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GEO


def quota(round_: Round, edits: dict[str, QuotaEdit]) -> Round:
    """Change quotas of tenants, by name."""
    known = {tenant.name for tenant in round_.tenants}
    for name in edits:
        check_known(name, known, "tenant", (name,))
    tenants = tuple(
        _with_quota(tenant, edits[tenant.name]) if tenant.name in edits else tenant
        for tenant in round_.tenants
    )
    for name, edit in edits.items():
        round_ = _in_regions(round_, name, edit.in_regions)
    return round_.model_copy(update={"tenants": tenants})


def _in_regions(round_: Round, tenant: str, amounts: Mapping[str, int]) -> Round:
    """Set what a tenant may hold in regions."""
    geo = round_.geo
    known = {one.name for one in round_.cluster.domains if one.level == geo.level}
    for region in amounts:
        path = (tenant, "in_regions", region)
        if round_.policy.spec is not GEO:
            problem = f"policy {round_.policy.formulation} knows no quotas of regions; expected geo"
            raise InvalidInputError(problem, path=path, show_value=False)
        check_known(region, known, "region", path)
    regions = {one.name: one for one in geo.regions}
    for name, amount in amounts.items():
        entry = regions.get(name, Region(name=name))
        quotas = {**entry.quotas, tenant: amount}
        regions[name] = entry.model_copy(update={"quotas": quotas})
    if not amounts:
        return round_
    changed = geo.model_copy(update={"regions": tuple(regions.values())})
    return round_.model_copy(update={"geo": changed})


def _with_quota(tenant: Tenant, edit: QuotaEdit) -> Tenant:
    amounts = {**tenant.quota, **edit.to}
    for field, sign in (("more", 1), ("less", -1)):
        for resource, change in getattr(edit, field).items():
            path = (tenant.name, field, resource)
            if resource not in tenant.quota:
                raise InvalidInputError(
                    "no quota of it so far; expected to, with an amount",
                    path=path,
                    show_value=False,
                )
            amounts[resource] += sign * change
            if amounts[resource] < 0:
                raise InvalidInputError(
                    f"expected at most the quota, {amount_text(resource, tenant.quota[resource])}",
                    path=path,
                    value=amount_text(resource, change),
                )
    for i, resource in enumerate(edit.without):
        check_known(resource, tenant.quota, "quota", (tenant.name, "without", i))
        del amounts[resource]
    return tenant if amounts == tenant.quota else tenant.model_copy(update={"quota": amounts})


def limits(round_: Round, edit: LimitsEdit) -> Round:
    """Change limits of the disruption budget."""
    policy = round_.policy
    have = policy.limits.disruption if policy.limits is not None else None
    have = DisruptionLimits() if have is None else have
    update = {name: getattr(edit.to, name) for name in edit.to.model_fields_set}
    for i, name in enumerate(edit.without):
        if getattr(have, name) is None:
            raise InvalidInputError(
                "no such limit; expected one that the policy has", path=("without", i), value=name
            )
        update[name] = None
    changed = have.model_copy(update=update)
    if changed == have:
        return round_
    new = None if changed == DisruptionLimits() else PolicyLimits(disruption=changed)
    return round_.model_copy(update={"policy": policy.model_copy(update={"limits": new})})
