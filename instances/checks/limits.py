"""Checks of caps and cells: they limit what the cluster has, and jobs count in what there is.

What is wrong is an `InvalidInputError` with its path in the Round document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from placewright.instances.derived.cell_trees import (
    EntryKey,
    HostChain,
    bindings_in_use,
    chains_of,
    guaranteed,
    owned_cells,
)
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.names import check_known
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path
from placewright.topology.chain import claims_fit

# Checks of caps: they limit what the cluster has, and jobs count in caps that there are.


def check_caps(round_: Round, resources: Collection[str]) -> None:
    """Refuse caps on GPU models or resources that the round does not have."""
    if not round_.caps:
        return
    has = (hardware(entry) for entry in round_.cluster.hosts)
    models = {one.gpu_model for one in has if one.gpu_model is not None}
    errors = Errors()
    for name, cap in round_.caps.items():
        for model in cap.gpus_by_model:
            with errors:
                path: Path = ("caps", name, "gpus_by_model", model)
                check_known(model, models, "GPU model", path)
        for resource in cap.resources:
            if "@" in resource:
                continue  # of a flavor: what options use of it
            with errors:
                path = ("caps", name, "resources", resource)
                check_known(resource, resources, "resource", path)
    errors.refuse()


def check_caps_of_jobs(round_: Round) -> None:
    """Refuse jobs that count in a cap which does not exist, or twice in one.

    Where a cap limits GPUs of a model, what a job counts must not depend on its place: a task group
    that may have this model has no other.
    """
    errors = Errors()
    models = {name: frozenset(cap.gpus_by_model) for name, cap in round_.caps.items()}
    for i, job in enumerate(round_.jobs):
        for k, name in enumerate(job.preempts or ()):
            errors.note(check_known, name, models, "cap", ("jobs", i, "preempts", k))
        if job.caps:
            errors.note(_check_job, job, i, models)
    errors.refuse()


def _check_job(job: Job, index: int, models: dict[str, frozenset[str]]) -> None:
    errors = Errors()
    for k, name in enumerate(job.caps):
        path: Path = ("jobs", index, "caps", k)
        with errors:
            check_known(name, models, "cap", path)
            if name in job.caps[:k]:
                raise InvalidInputError("cap given twice; expected each name once", path, name)
    errors.refuse()
    capped = frozenset[str]().union(*(models[name] for name in job.caps))
    for j, option in enumerate(job.options) if capped else ():
        for k, group in enumerate(option.groups):
            may = None if group.gpu_models is None else frozenset(group.gpu_models)
            if group.gpu and (may is None or (len(may) > 1 and may & capped)):
                name = next(n for n in job.caps if models[n] and (may is None or may & models[n]))
                errors.add(
                    InvalidInputError(
                        f"several allowed, and cap {name} counts GPUs by model; expected one "
                        "in each task group, and an option for each model",
                        ("jobs", index, "options", j, "groups", k, "gpu_models"),
                    )
                )
    errors.refuse()


# Checks of cells: those that tenants own exist, and guaranteed jobs run in bound ones.


def check_cells(round_: Round) -> None:
    """Refuse cells that the cluster does not have, and bindings that contradict them.

    Parameters
    ----------
    round_
        Its cluster, tenants, jobs and what they run on have been checked.
    """
    if not round_.bindings and not any(tenant.cells for tenant in round_.tenants):
        return
    chains = chains_of(round_.cluster, round_.tenants)
    _check_owned(round_, chains)
    _check_labels(round_)
    tenant_of: dict[str, str] = {}
    bound = Counter[EntryKey]()
    for b, kind, cell in bindings_in_use(round_, chains):
        binding = round_.bindings[b]
        bound[kind] += 1
        owned = round_.tenants[kind[0]].cells[kind[1]].count
        if bound[kind] > owned:
            raise InvalidInputError(
                f"is one cell more than the tenant owns; expected at most {owned}", ("bindings", b)
            )
        for host in chains[kind].hosts(cell):
            if host in tenant_of:
                raise InvalidInputError(
                    f"host {host} is in two cells that are bound; expected one",
                    ("bindings", b, "domain"),
                    binding.domain,
                )
            tenant_of[host] = binding.tenant
    for index in guaranteed(round_):
        job = round_.jobs[index]
        for k, task in enumerate(job.running.tasks if job.running else ()):
            if tenant_of.get(task.host) != job.tenant:
                raise InvalidInputError(
                    f"host {task.host} is in no cell that is bound to tenant {job.tenant}; "
                    "expected a binding, or a job that is opportunistic",
                    ("jobs", index, "running", "tasks", k, "host"),
                    task.host,
                )


def _check_owned(round_: Round, chains: dict[EntryKey, HostChain]) -> None:
    """Refuse cells that do not fit their chains, all tenants together."""
    claims: dict[int, list[int]] = {}
    for kind, entry in owned_cells(round_.tenants):
        chain = chains[kind]
        mine = claims.setdefault(id(chain), [0] * len(chain.levels))
        mine[chain.levels.index(entry.level)] += entry.count
        there = [0] * (len(chain.levels) - 1) + [len(chain.names[-1])]
        if not claims_fit(chain.shape, mine, there):
            raise InvalidInputError(
                "with the cells of the tenants before, more than the cluster has; "
                f"expected what {there[-1]} of level {chain.levels[-1]} hold",
                ("tenants", kind[0], "cells", kind[1], "count"),
                entry.count,
            )


def _check_labels(round_: Round) -> None:
    """Refuse guaranteed jobs that others could keep out of their tenant's cells by a label."""
    mine = set(guaranteed(round_))
    labelled = [(j, job) for j, job in enumerate(round_.jobs) if job.anti_affinity is not None]
    owners: dict[str, set[str | None]] = {}
    for j, job in labelled:
        if job.anti_affinity is not None:
            owner = job.tenant if j in mine else None
            owners.setdefault(job.anti_affinity.label, set()).add(owner)
    for j, job in labelled:
        if j in mine and job.anti_affinity and len(owners[job.anti_affinity.label]) > 1:
            raise InvalidInputError(
                "is the label of jobs outside the tenant's guarantee, too; expected one of its own",
                ("jobs", j, "anti_affinity", "label"),
                job.anti_affinity.label,
            )
