"""Checks of caps: they limit what the cluster has, and jobs count in caps that there are."""

from __future__ import annotations

from collections.abc import Collection

from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.names import check_known
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.errors import Errors, InvalidInputError, Path


def check_caps(round_: Round, resources: Collection[str]) -> None:
    """Refuse caps on GPU models or resources that the round does not have.

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Round document.
    """
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

    Raises
    ------
    InvalidInputError
        All errors, with their paths in the Round document.
    """
    errors = Errors()
    models = {name: frozenset(cap.gpus_by_model) for name, cap in round_.caps.items()}
    for i, job in enumerate(round_.jobs):
        for k, name in enumerate(job.preempts or ()):
            with errors:
                check_known(name, models, "cap", ("jobs", i, "preempts", k))
        if job.caps:
            with errors:
                _check_job(job, i, models)
    errors.refuse()


def _check_job(job: Job, index: int, models: dict[str, frozenset[str]]) -> None:
    errors = Errors()
    for k, name in enumerate(job.caps):
        path: Path = ("jobs", index, "caps", k)
        with errors:
            check_known(name, models, "cap", path)
            if name in job.caps[:k]:
                raise InvalidInputError(
                    "cap given twice; expected each name once", path=path, value=name
                )
    errors.refuse()
    capped = frozenset[str]().union(*(models[name] for name in job.caps))
    for j, option in enumerate(job.options) if capped else ():
        for k, group in enumerate(option.groups):
            may = None if group.gpu_models is None else frozenset(group.gpu_models)
            if group.gpu and (may is None or (len(may) > 1 and may & capped)):
                name = next(n for n in job.caps if models[n] and (may is None or may & models[n]))
                with errors:
                    raise InvalidInputError(
                        f"several allowed, and cap {name} counts GPUs by model; expected one "
                        "in each task group, and an option for each model",
                        path=("jobs", index, "options", j, "groups", k, "gpu_models"),
                        show_value=False,
                    )
    errors.refuse()
