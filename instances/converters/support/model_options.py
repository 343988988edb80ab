"""Jobs in a cap of GPUs by model: each task group names one model, and each model has an option."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placewright.instances.derived.names import AllowedHosts
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup

MAX_OPTIONS = 64


def with_one_model_each(
    job: Job, model_of: Mapping[str, str | None], capped: Collection[str]
) -> Job | None:
    """Return a job of which what counts by model is known; None if a round cannot say it.

    A running job has the model that it runs on. An option of a pending one becomes one for each
    model that all of its groups may have.

    Parameters
    ----------
    model_of
        The GPU model of each host.
    capped
        GPU models of which GPUs are limited.
    """
    if job.running is not None:
        there: dict[int, set[str | None]] = {}
        for task in job.running.tasks:
            there.setdefault(task.group, set()).add(model_of[task.host])
        option = job.options[job.running.option]
        found = [there.get(g, set()) for g in range(len(option.groups))]
        if any(len(models) != 1 for models, g in zip(found, option.groups, strict=True) if g.gpu):
            return None
        options = [_with_models(option, [next(iter(models), None) for models in found])]
        return job.model_copy(update={"options": tuple(options)})
    options = []
    for option in job.options:
        able = [_models_of(group, model_of) if group.gpu else None for group in option.groups]
        asked = [models for models in able if models is not None]
        if not any(models.intersection(capped) for models in asked):
            options.append(option)
            continue
        common = sorted(frozenset.intersection(*asked))
        if all(len(models) == 1 for models in asked):
            options.append(_with_models(option, [next(iter(m), None) if m else None for m in able]))
        for model in common if any(len(models) > 1 for models in asked) else ():
            named = option.model_copy(update={"name": f"{option.name}-{model}"})
            options.append(_with_models(named, [model if m else None for m in able]))
    if not options or len(options) > MAX_OPTIONS:
        return None
    return job.model_copy(update={"options": tuple(options)})


def _models_of(group: TaskGroup, model_of: Mapping[str, str | None]) -> frozenset[str]:
    """Return the GPU models that a group may have."""
    hosts = AllowedHosts({}).of(group)
    there = model_of.values() if hosts is None else (model_of[name] for name in hosts)
    found = frozenset(model for model in there if model is not None)
    return found if group.gpu_models is None else found.intersection(group.gpu_models)


def _with_models(option: Option, models: Collection[str | None]) -> Option:
    groups = tuple(
        group if model is None or not group.gpu else _of_model(group, model)
        for group, model in zip(option.groups, models, strict=True)
    )
    return option.model_copy(update={"groups": groups})


def _of_model(group: TaskGroup, model: str) -> TaskGroup:
    return group.model_copy(update={"gpu_models": (model,)})
