"""Pending jobs of Slurm as jobs of a round: options and task groups out of what each asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
from placewright.instances.converters.slurm.partitions import counts, usable
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import (
    Counts,
    LeftOutError,
    Shape,
    asked_of,
    names_of,
)
from placewright.instances.documents.arrangement import HostCount, Slices
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology.units import WHOLE_GPU

BEYOND = "a range of nodes beyond MaxNodes of its partition, which Slurm 22.05 does not start"

LEAST_MEMORY = "how much all memory of its nodes is, which differ: limits count the least"
OVERCOMMIT = "more tasks than its nodes have CPUs (--overcommit), which Slurm may refuse"


def pending_job(components: Sequence[SlurmJob], context: Context, book: Bookkeeping) -> Job:
    """Return a pending job of one or more components.

    Raises
    ------
    LeftOutError
        It waits for what a round does not decide, or asks for what a round cannot say.
    """
    job = components[0]
    several = len(components) > 1
    asked: list[list[_Choice]] = []
    parts_of = [_in_usable_partitions(component, context) for component in components]
    for component in parts_of:
        qos = context.qos_of(component)
        eligibility.check_pending(component, context.limits, context.now, qos)
        asked.append(_choices(component, context, several, book))
        least = min(asked[-1], key=lambda choice: sum(one.milli_gpu for one in choice.groups))
        eligibility.check_limits(component, least.groups, qos, context.limits)
    if not any(g.gpu for choices in asked for choice in choices for g in choice.groups):
        raise LeftOutError("asks for no GPU")
    choices = asked[0]
    parts = [
        component
        for component, of_one in zip(components, asked, strict=True)
        for _ in of_one[0].groups
    ]
    if several:  # of a range of nodes the least: combinations are too many
        choices = [_Choice(tuple(group for of_one in asked for group in of_one[0].groups))]
        if any(len(of_one) > 1 for of_one in asked):
            book.cannot_say("ranges of nodes of heterogeneous jobs", job.name)
        if any(of_one[0].hosts for of_one in asked):
            raise LeftOutError("asks for several GPU models, or names nodes, as one of components")
    level = required_level(components, context)
    return Job(
        **common_fields(job, context),
        options=tuple(
            Option(
                name="default"
                if len(choices) == 1
                else f"nodes-{sum(group.count for group in choice.groups)}",
                groups=choice.groups,
                hosts=choice.hosts,
                value=choice.value,
                required=level,
            )
            for choice in choices
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


def _within(nodes: Counts, job: SlurmJob, context: Context) -> Counts:
    """Return numbers of nodes of which none is beyond what QOS and accounts allow a single job."""
    found = context.limits.of_job(job.account or "", job.user_name, context.qos_of(job))
    limit = next((most for _, one in found if (most := one.asked.others.get("node"))), None)
    if limit is None or (nodes.most is not None and nodes.most <= limit):
        return nodes
    return nodes._replace(most=max(nodes.least, limit))


class _Choice(NamedTuple):
    """Task groups that a job has together, on how many hosts, and what they are worth."""

    groups: tuple[TaskGroup, ...]
    hosts: HostCount | None = None
    value: int | None = None


def _choices(job: SlurmJob, context: Context, several: bool, book: Bookkeeping) -> list[_Choice]:
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
    room = context.nodes.room(allowed.nodes)
    if job.all_memory:
        job = job.model_copy(update={"memory_per_node": min(room.memory)})
        if len(room.memory) > 1:
            book.cannot_say(LEAST_MEMORY, job.name)
    nodes = counts(job, context.scheduler.partitions, context.limits)
    asked = asked_of(job, room, _within(nodes, job, context))
    made = [_choice(name, shapes, job, allowed, context) for shapes in asked.choices]
    if nodes.most is not None and job.names_most_nodes and nodes.most < (job.most_nodes or 0):
        book.cannot_say(BEYOND, job.name)
    most_cpus = MAX_AMOUNT if nodes.most is None else nodes.most * room.cpus
    if (job.tasks or 1) > max(job.cpus or 0, job.tres_req_str.cpus, most_cpus):
        book.cannot_say(OVERCOMMIT, job.name)
    for guess in asked.guesses:
        book.cannot_say(guess, job.name)
    untyped = any(group.gpu_models is None for group in made[0].groups if group.gpu)
    if untyped and room.models & context.nodes.mixed.keys():
        book.cannot_say("which GPUs of nodes with several models it takes", job.name)
    if asked.alike:
        worth = sum(group.milli_gpu for group in made[0].groups)
        made = [one._replace(value=worth) for one in made]
    return made


def _choice(
    name: str, shapes: Sequence[Shape], job: SlurmJob, allowed: Allowed, context: Context
) -> _Choice:
    """Return the task groups of shapes that a job has together."""
    named, first = frozenset(job.named_nodes), shapes[0]
    most = first.most if first.most is not None else MAX_COUNT
    if len(shapes) > 1 or (named and len(named) < most and not first.apart):
        return _on_named(name, shapes, named, job, allowed, context)
    if not named or len(named) >= first.least == first.most or len(named) >= most:
        where = Allowed(named, ()) if named else allowed
        return _Choice((_group(name, first, job, where, context),))
    if not (allowed.nodes - named) or (job.segment_size or 0) > 1:
        raise LeftOutError("names some of its nodes and leaves others open")
    parts = (
        (f"{name}-named", len(named), Allowed(named, ())),
        (f"{name}-open", first.tasks - len(named), without(allowed, named, context)),
    )
    return _Choice(
        tuple(
            _group(part, first._replace(tasks=n, least=n, most=n), job, where, context)
            for part, n, where in parts
        )
    )


def _on_named(
    name: str,
    shapes: Sequence[Shape],
    named: frozenset[str],
    job: SlurmJob,
    allowed: Allowed,
    context: Context,
) -> _Choice:
    """Return groups that divide in any way among nodes; with a task on each that is named."""
    first = shapes[0]
    if (named and len(shapes) > 1) or first.tasks < len(named):
        raise LeftOutError("names some of its nodes and leaves others open")
    hosts = _hosts(first._replace(tasks=sum(one.tasks for one in shapes)), max(1, len(named)))
    parts = [
        (part, one._replace(tasks=one.tasks - len(named), least=1, most=None), allowed)
        for part, one in names_of(shapes, name)
        if one.tasks > len(named)
    ]
    if named:
        own = first._replace(tasks=len(named), apart=True, least=1, most=None)
        parts.insert(0, (f"{name}-named", own, Allowed(named, ())))
    groups = tuple(_group(part, one, job, where, context) for part, one, where in parts)
    return _Choice(groups, hosts)


def _hosts(shape: Shape, least: int = 1) -> HostCount | None:
    """Return on how many hosts the tasks of a shape are, None if on any number."""
    least = max(least, shape.least)
    most = None if shape.most is None or shape.most >= shape.tasks else shape.most
    if shape.apart or (least == 1 and most is None):
        return None
    return HostCount(min=least, max=most)


def _group(name: str, shape: Shape, job: SlurmJob, allowed: Allowed, context: Context) -> TaskGroup:
    gpus = context.nodes.of_gpus(shape.gpus, allowed.nodes) if shape.gpus else {"resources": {}}
    if not gpus:
        several = len(shape.gpus) > 1
        what = "GPU models that no node has together" if several else "a GPU model that no node has"
        raise LeftOutError(f"asks for {what}")
    if max(shape.cpu, shape.memory) > MAX_AMOUNT or shape.milli_gpu > MAX_GPUS_PER_HOST * 1000:
        raise LeftOutError("asks for more than a node can have")
    segment = job.segment_size or 0
    sliced = segment > 1 and bool(context.topology.levels) and shape.tasks % segment == 0
    number = shape.milli_gpu // WHOLE_GPU
    resources = {NODE: WHOLE_NODE if job.exclusive else 1} if context.alone else {}
    parts = {f"gres/{shape.parts[0]}": shape.parts[1]} if shape.parts else {}
    return TaskGroup(
        name=name,
        count=shape.tasks,
        gpu=f"{shape.milli_gpu}m",
        cpu=f"{shape.cpu}m",
        memory=f"{shape.memory}Mi",
        gpu_models=gpus.get("gpu_models"),
        **(fields(allowed, context) if allowed.conditions else only(allowed.nodes, context)),
        apart=keep_apart(shape.tasks, number, allowed.nodes, context) if shape.apart else None,
        num_hosts=_hosts(shape),
        slices=Slices(size=segment, required=context.topology.levels[-1]) if sliced else None,
        resources=resources | parts | gpus["resources"],
    )
