"""Whether the names in a round refer to something, and to one thing only."""

from __future__ import annotations

from collections.abc import Collection

from placewright.instances.cluster_references import HOST_LEVEL, check_cluster
from placewright.instances.documents import CORE_RESOURCES
from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.hardware import hardware
from placewright.instances.naming import check_known, check_unique
from placewright.instances.round import Round
from placewright.instances.running import check_running

__all__ = ["check_cluster", "check_round"]


def check_round(round_: Round) -> None:
    """Refuse a round whose cluster, names or running jobs make no sense.

    Raises
    ------
    InvalidInputError
        The first fault, with its path in the Round document.
    """
    try:
        check_cluster(round_.cluster)
    except InvalidInputError as error:
        raise error.under("cluster") from None
    check_unique((tenant.name for tenant in round_.tenants), "tenant", ("tenants",))
    check_unique((job.name for job in round_.jobs), "job", ("jobs",))
    levels = (*round_.cluster.levels, HOST_LEVEL)
    for level in round_.policy.spread_weights or ():
        check_known(level, levels, "level", ("policy", "spread_weights", level))
    _check_jobs(round_, levels)
    _check_quotas(round_)
    check_running(round_)


def _check_jobs(round_: Round, levels: Collection[str]) -> None:
    tenants = {tenant.name for tenant in round_.tenants}
    has = (hardware(entry) for entry in round_.cluster.hosts)
    gpu_models = {one.gpu_model for one in has if one.gpu_model is not None}
    for i, job in enumerate(round_.jobs):
        if job.tenant is not None:
            check_known(job.tenant, tenants, "tenant", ("jobs", i, "tenant"))
        for j, option in enumerate(job.options):
            for k, group in enumerate(option.groups):
                if group.gpu_models is None and group.required is None and group.preferred is None:
                    continue
                path: Path = ("jobs", i, "options", j, "groups", k)
                for m, model in enumerate(group.gpu_models or ()):
                    check_known(model, gpu_models, "GPU model", (*path, "gpu_models", m))
                if group.required is not None:
                    check_known(group.required, levels, "level", (*path, "required"))
                for m, level in enumerate(group.preferred or ()):
                    check_known(level, levels, "level", (*path, "preferred", m))


def _check_quotas(round_: Round) -> None:
    if not any(tenant.quota for tenant in round_.tenants):
        return
    resources = {name for entry in round_.cluster.hosts for name in entry.resources}
    for job in round_.jobs:
        for option in job.options:
            for group in option.groups:
                resources.update(group.resources)
    resources.update(CORE_RESOURCES)
    for i, tenant in enumerate(round_.tenants):
        for name in tenant.quota:
            check_known(name, resources, "resource", ("tenants", i, "quota", name))
