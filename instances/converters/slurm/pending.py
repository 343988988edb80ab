"""Pending jobs of Slurm as jobs of a round: options and task groups out of what each asks for."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm import eligibility
from placewright.instances.converters.slurm.allowed_nodes import (
    allowed_nodes,
    fields,
    only,
    without,
)
from placewright.instances.converters.slurm.context import (
    Allowed,
    Context,
    common_fields,
    keep_apart,
    required_level,
    source_ids,
)
from placewright.instances.converters.slurm.nodes import NODE, WHOLE_NODE
from placewright.instances.converters.slurm.partitions import usable
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError, Shape, shapes
from placewright.instances.documents.arrangement import Slices
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup


def pending_job(components: Sequence[SlurmJob], context: Context, book: Bookkeeping) -> Job:
    """Return a pending job of one or more components.

    Raises
    ------
    LeftOutError
        It waits for what a round does not decide, or asks for what a round cannot say.
    """
    job = components[0]
    several = len(components) > 1
    asked: list[list[tuple[TaskGroup, ...]]] = []
    parts_of = [_in_usable_partitions(component, context) for component in components]
    for component in parts_of:
        qos = context.qos_of(component)
        eligibility.check_pending(component, context.limits, context.now, qos)
        asked.append(_choices(component, context, several))
        least = min(asked[-1], key=lambda groups: sum(group.milli_gpu for group in groups))
        eligibility.check_limits(component, least, qos, context.limits)
    if not any(group.gpu for choices in asked for groups in choices for group in groups):
        raise LeftOutError("asks for no GPU")
    choices = asked[0]
    parts = [
        component for component, of_one in zip(components, asked, strict=True) for _ in of_one[0]
    ]
    if several:  # of a range of nodes the least: combinations are too many
        choices = [tuple(group for of_one in asked for group in of_one[0])]
        if any(len(of_one) > 1 for of_one in asked):
            book.cannot_say("ranges of nodes of heterogeneous jobs", job.name)
    level = required_level(components, context)
    return Job(
        **common_fields(job, context),
        options=tuple(
            Option(
                name="default"
                if len(choices) == 1
                else f"nodes-{sum(group.count for group in groups)}",
                groups=groups,
                required=level,
            )
            for groups in choices
        ),
        held=eligibility.held(job),
        not_before=eligibility.not_before(job, context.now),
        annotations=source_ids(job, parts, context),
    )


def _in_usable_partitions(job: SlurmJob, context: Context) -> SlurmJob:
    """Return a job that asks for those of its partitions alone in which it may start."""
    names, why = usable(job, context.scheduler.partitions, context.limits)
    if job.partition and not names:
        raise LeftOutError(why)
    return job.model_copy(update={"partition": tuple(names)}) if why else job


def _choices(job: SlurmJob, context: Context, several: bool) -> list[tuple[TaskGroup, ...]]:
    """Return the task groups of each shape that a pending job may have.

    Of a job that names some of its nodes, these are one group, and the others another.
    """
    allowed = allowed_nodes(job, context)
    if not allowed.nodes:
        raise LeftOutError("may use no node of the dump")
    name = f"component-{job.het_job_offset or 0}" if several else "tasks"
    named = frozenset(job.named_nodes)
    if not named <= set(context.nodes.by_name):
        raise LeftOutError("names a node that is not in the dump")
    if not named <= allowed.nodes:
        raise LeftOutError("may not use a node that it names")
    choices: list[tuple[TaskGroup, ...]] = []
    for shape in shapes(job):
        nodes = shape.tasks if shape.apart else job.node_count or 1
        if not named or len(named) >= nodes:
            where = Allowed(named, ()) if named else allowed
            choices.append((_group(name, shape, job, where, context),))
            continue
        if not (shape.apart and allowed.nodes - named) or (job.segment_size or 0) > 1:
            raise LeftOutError("names some of its nodes and leaves others open")
        parts = (
            (f"{name}-named", len(named), Allowed(named, ())),
            (f"{name}-open", shape.tasks - len(named), without(allowed, named, context)),
        )
        choices.append(
            tuple(
                _group(part, shape._replace(tasks=tasks), job, where, context)
                for part, tasks, where in parts
            )
        )
    return choices


def _group(name: str, shape: Shape, job: SlurmJob, allowed: Allowed, context: Context) -> TaskGroup:
    if shape.model and shape.model not in context.nodes.models:
        raise LeftOutError("asks for a GPU model that no node has")
    if shape.gpus > MAX_GPUS_PER_HOST or max(shape.cpu, shape.memory) > MAX_AMOUNT:
        raise LeftOutError("asks for more than a node can have")
    segment = job.segment_size or 0
    sliced = segment > 1 and bool(context.topology.levels) and shape.tasks % segment == 0
    return TaskGroup(
        name=name,
        count=shape.tasks,
        gpu=shape.gpus,
        cpu=f"{shape.cpu}m",
        memory=f"{shape.memory}Mi",
        gpu_models=(shape.model,) if shape.model else None,
        **(fields(allowed, context) if allowed.conditions else only(allowed.nodes, context)),
        apart=keep_apart(shape.tasks, shape.gpus, allowed.nodes, context) if shape.apart else None,
        slices=Slices(size=segment, required=context.topology.levels[-1]) if sliced else None,
        resources={NODE: WHOLE_NODE if job.exclusive else 1} if context.alone else {},
    )
