"""Running jobs of Slurm as jobs of a round: pinned, or free to move where Slurm would let them."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.converters.slurm.allowed_nodes import allowed_nodes, fields
from placewright.instances.converters.slurm.context import (
    Context,
    common_fields,
    keep_apart,
    required_level,
    source_ids,
)
from placewright.instances.converters.slurm.nodes import gpu_model
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.converters.slurm.running import Occupied, place
from placewright.instances.converters.support.host_sets import Condition
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology.units import WHOLE_GPU


def running_job(components: Sequence[SlurmJob], context: Context, occupied: Occupied) -> Job:
    """Return a running job of one or more components, and note what it holds.

    Raises
    ------
    LeftOutError
        The dump does not say where it runs, or its nodes do not have what it holds.
    """
    groups, tasks, parts = place(components, context.nodes, occupied, alone=context.alone)
    job = components[0]
    free = context.movable and _movable(components, {task.host for task in tasks}, context)
    how = context.preemption.how(job)
    if free:
        groups = tuple(group.model_copy(update=_bounds(job, group, context)) for group in groups)
    elif how:  # it stays where it is, or stops
        nowhere = context.host_sets.fields((Condition("nowhere", frozenset()),), frozenset())
        how = how if nowhere.get("host_sets") else ""
        groups = tuple(group.model_copy(update=nowhere if how else {}) for group in groups)
    made = Job(
        **common_fields(job, context),
        options=(
            Option(groups=groups, required=required_level(components, context) if free else None),
        ),
        annotations=source_ids(job, parts, context),
        running=Running(
            tasks=tasks,
            pinned=not (free or how),
            started=min(job.start_time or context.now, context.now),
        ),
    )
    return context.preemption.running(made, job, how)


def _movable(components: Sequence[SlurmJob], places: set[str], context: Context) -> bool:
    """Whether Slurm may requeue a job of which the round can say where else it may be."""
    job = components[0]
    simple = len(components) == 1 and (job.segment_size or 0) <= 1 and not job.named_nodes
    if not (simple and job.requeue):
        return False
    models = _models(job, context)
    there = {gpu_model(context.nodes.by_name[host]) for host in places}
    if there.intersection(context.nodes.mixed) or any(gres.parts for gres in job.gres_detail):
        return False
    if models and not there.issubset(models):
        return False  # the dump contradicts itself
    try:
        return places <= allowed_nodes(job, context).nodes
    except LeftOutError:
        return False


def _bounds(job: SlurmJob, group: TaskGroup, context: Context) -> dict[str, object]:
    """Return what keeps the tasks of a running job that may move where it may be."""
    allowed = allowed_nodes(job, context)
    return {
        **fields(allowed, context),
        "gpu_models": _models(job, context) or None,
        "apart": keep_apart(group.count, group.gpu // WHOLE_GPU, allowed.nodes, context),
    }


def _models(job: SlurmJob, context: Context) -> tuple[str, ...]:
    """Return the GPU models that a job names; none if it names none that a node has."""
    typed = [m for g in (job.tres_per_node, job.tres_per_task, job.tres_per_job) for m in g.gpus]
    return tuple(model for model in dict.fromkeys(typed) if model in context.nodes.models)
