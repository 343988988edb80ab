"""Rules that bind a job: pools, its tenant's quotas, its caps; if it is guaranteed, cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from placewright.explain.facts.fact import Edit, Fact, Stratum, named
from placewright.instances.derived.phrases import count, several
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Tenant
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.topology.units import UNLIMITED


def rules(round_: Round, name: str) -> Iterator[Fact]:
    """Yield the rules that bind a pending job."""
    job = named(name, round_)
    yield from _pools(round_, job)
    for cap in job.caps:
        yield from _caps(round_, cap)
    own = next((tenant for tenant in round_.tenants if tenant.name == job.tenant), None)
    if own is None:
        return
    yield from _quotas(round_, own)
    if own.cells and not job.opportunistic:
        for tenant in sorted(round_.tenants, key=lambda one: one is not own):
            if tenant.cells:
                yield _cells(tenant, own=tenant is own)


def _quotas(round_: Round, tenant: Tenant) -> Iterator[Fact]:
    for resource, amount in tenant.quota.items():
        used = round_.used_by(tenant.name, resource)
        in_use = f" ({amount_text(resource, used)} in use)" if used else ""
        yield Fact(
            Stratum.RULES,
            "quota",
            f"tenant {tenant.name} may hold {amount_text(resource, amount)}{in_use}",
            _without_quota(tenant.name, resource),
            {"tenant": tenant.name, "resource": resource, "amount": amount, "used": used},
        )


def _caps(round_: Round, name: str) -> Iterator[Fact]:
    for measure, most in round_.caps[name].limits.items():
        used = round_.held_of(name, measure)
        in_use = f" ({measure.text(used)} in use)" if used else ""
        yield Fact(
            Stratum.RULES,
            "cap",
            f"cap {name} allows {measure.text(most)}{in_use}",
            _without_limit(name, measure),
            {"cap": name, **measure.facts, "amount": most, "used": used},
        )


def _pools(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield the pools from which the job takes."""
    asked = {name for option in job.options for name, amount in option.uses.items() if amount}
    groups = (group for option in job.options for group in option.groups)
    asked |= {name for group in groups for name, amount in group.resources.items() if amount}
    for number, pool in enumerate(round_.cluster.pools):
        if pool.resource not in asked:
            continue
        others = [f"{name} {amount:,}" for name, amount in pool.domains.items()]
        where = "the cluster has" if pool.level is None else f"each {pool.level} has"
        but = f" ({several(others)})" if others else ""
        for_all = "all jobs together" if pool.per == "task" else "all jobs with tasks there"
        yield Fact(
            Stratum.RULES,
            "pool",
            f"{where} {amount_text(pool.resource, pool.capacity)}{but} for {for_all}",
            _without_pool(number),
            {"resource": pool.resource, "level": pool.level, "amount": pool.capacity},
        )


def _without_pool(number: int) -> Edit:
    """Return the edit by which a pool has as much as can be asked."""

    def edit(round_: Round) -> Round:
        pools = [
            pool.model_copy(update={"capacity": UNLIMITED, "domains": {}}) if k == number else pool
            for k, pool in enumerate(round_.cluster.pools)
        ]
        cluster = round_.cluster.model_copy(update={"pools": tuple(pools)})
        return round_.model_copy(update={"cluster": cluster})

    return edit


def _without_limit(name: str, measure: Measure) -> Edit:
    def edit(round_: Round) -> Round:
        left = {one: most for one, most in round_.caps[name].limits.items() if one != measure}
        return round_.model_copy(update={"caps": {**round_.caps, name: Cap.of(left)}})

    return edit


def _cells(tenant: Tenant, *, own: bool) -> Fact:
    owned = ", ".join(
        count(one.count, one.level) + (f" of {one.gpu_model}" if one.gpu_model else "")
        for one in tenant.cells
    )
    text = f"tenant {tenant.name} owns {owned}"
    if own:
        text = f"guaranteed jobs of tenant {tenant.name} run in its cells: {owned}"

    def edit(round_: Round) -> Round:
        bindings = tuple(one for one in round_.bindings if one.tenant != tenant.name)
        return _edit_tenant(
            round_.model_copy(update={"bindings": bindings}), tenant.name, _NO_CELLS
        )

    return Fact(Stratum.RULES, "cells", text, edit, {"tenant": tenant.name, "own": own})


_NO_CELLS: Mapping[str, Any] = {"cells": ()}


def _without_quota(name: str, resource: str) -> Edit:
    def edit(round_: Round) -> Round:
        (quota,) = (one.quota for one in round_.tenants if one.name == name)
        left = {other: amount for other, amount in quota.items() if other != resource}
        return _edit_tenant(round_, name, {"quota": left})

    return edit


def _edit_tenant(round_: Round, name: str, update: Mapping[str, Any]) -> Round:
    tenants = tuple(
        one.model_copy(update=update) if one.name == name else one for one in round_.tenants
    )
    return round_.model_copy(update={"tenants": tenants})
