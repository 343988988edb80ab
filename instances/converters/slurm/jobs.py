"""Slurm's jobs as jobs of a round: running ones where they are, pending ones as what they ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm import arrays, eligibility
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.nodes import NODE, WHOLE_NODE, Nodes, as_document
from placewright.instances.converters.slurm.records import SlurmJob, SlurmReservation
from placewright.instances.converters.slurm.requests import LeftOutError, Shape, shapes
from placewright.instances.converters.slurm.running import Occupied, place
from placewright.instances.converters.slurm.topology import Topology
from placewright.instances.documents.arrangement import Apart, Slices
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

KIND = "jobs"


@dataclass(frozen=True, slots=True)
class Context:
    """What jobs are read against."""

    now: int
    nodes: Nodes
    topology: Topology
    limits: Limits
    active: tuple[SlurmReservation, ...]
    movable: bool
    alone: bool
    allowed: dict[object, frozenset[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Made:
    """Jobs of a round, what running ones hold, and hosts on which nothing may arrive."""

    jobs: tuple[Job, ...]
    occupied: Occupied
    closed: tuple[str, ...]


def jobs_of(records: Sequence[SlurmJob], context: Context, book: Bookkeeping) -> Made:
    """Return the jobs of a round, by Slurm's priority; the bookkeeping has all records.

    Hosts of running jobs that are left out are closed: nothing may arrive there.
    """
    occupied = Occupied()
    jobs: list[Job] = []
    closed: set[str] = set()
    wanted: set[str] = set()
    order = sorted(_components(records), key=lambda c: (-(c[0].priority or 0), c[0].job_id))
    names: set[str] = set()
    active = Counter(job.array_job_id for job in records if eligibility.runs(job))
    for components in order:
        job = components[0]
        numbers = [component.name for component in components]
        try:
            if job.name in names:
                raise LeftOutError("listed twice")
            if eligibility.runs(job):
                jobs.append(_running(components, context, occupied))
            else:
                jobs += arrays.split(_pending(components, context, book), job, active, book)
                wanted.add(job.resv_name)
        except LeftOutError as error:
            book.leave(KIND, str(error), *numbers)
            if eligibility.runs(job):
                closed.update(name for c in components for name in c.nodes)
            continue
        names.add(job.name)
        book.take(KIND, len(components))
        for component in components:
            _note(component, book)
    for reservation in context.active:
        if reservation.name not in wanted:  # else hosts of its jobs and of others are told apart
            closed.update(reservation.node_list)
    return Made(tuple(jobs), occupied, tuple(sorted(closed & set(context.nodes.by_name))))


def _components(records: Sequence[SlurmJob]) -> list[list[SlurmJob]]:
    """Return the components of each heterogeneous job together, and any other job alone."""
    groups: dict[object, list[SlurmJob]] = {}
    for at, job in enumerate(records):
        key = ("het", job.het_job_id) if job.het_job_id else at
        groups.setdefault(key, []).append(job)
    return [sorted(jobs, key=lambda job: job.het_job_offset or 0) for jobs in groups.values()]


def _running(components: Sequence[SlurmJob], context: Context, occupied: Occupied) -> Job:
    groups, tasks = place(components, context.nodes, occupied, alone=context.alone)
    job = components[0]
    free = context.movable and _movable(components, {task.host for task in tasks}, context)
    if free:
        groups = tuple(group.model_copy(update=_bounds(job, group, context)) for group in groups)
    return Job(
        **_common(job, context),
        options=(Option(groups=groups, required=_required(components, context) if free else None),),
        running=Running(
            tasks=tasks, pinned=not free, started=min(job.start_time or context.now, context.now)
        ),
    )


def _movable(components: Sequence[SlurmJob], places: set[str], context: Context) -> bool:
    """Whether Slurm may requeue a job of which the round can say where else it may be."""
    job = components[0]
    simple = len(components) == 1 and (job.segment_size or 0) <= 1 and not job.required_nodes
    if not (simple and job.requeue):
        return False
    try:
        return places <= _allowed(job, context)
    except LeftOutError:
        return False


def _bounds(job: SlurmJob, group: TaskGroup, context: Context) -> dict[str, object]:
    """Return what keeps the tasks of a running job that may move where it may be."""
    allowed = _allowed(job, context)
    typed = [m for g in (job.tres_per_node, job.tres_per_task, job.tres_per_job) for m in g.gpus]
    models = tuple(model for model in dict.fromkeys(typed) if model in context.nodes.models)
    return {
        "hosts": as_document(allowed, len(context.nodes.by_name)),
        "gpu_models": models or None,
        "apart": _apart(group.count, group.gpu // WHOLE_GPU, allowed, context),
    }


def _apart(tasks: int, gpus: int, allowed: frozenset[str], context: Context) -> Apart | None:
    """Return what keeps tasks on a host each, if two of them could have the GPUs of one host."""
    two = tasks > 1 and 2 * gpus <= context.nodes.most_gpus(allowed)
    return Apart(level=HOST_LEVEL) if two else None


def _pending(components: Sequence[SlurmJob], context: Context, book: Bookkeeping) -> Job:
    job = components[0]
    asked: list[list[TaskGroup]] = []
    for component in components:
        eligibility.check_pending(component, context.limits, context.now)
        asked.append(_groups(component, context, len(components) > 1))
    if not any(group.gpu for groups in asked for group in groups):
        raise LeftOutError("asks for no GPU")
    if len(components) == 1:
        choices: list[tuple[TaskGroup, ...]] = [(group,) for group in asked[0]]
    else:  # of a range of nodes the least: combinations are too many
        choices = [tuple(groups[0] for groups in asked)]
        if any(len(groups) > 1 for groups in asked):
            book.cannot_say("ranges of nodes of heterogeneous jobs", job.name)
    required = _required(components, context)
    return Job(
        **_common(job, context),
        options=tuple(
            Option(
                name="default" if len(choices) == 1 else f"nodes-{groups[0].count}",
                groups=groups,
                required=required,
            )
            for groups in choices
        ),
        held=eligibility.held(job),
        not_before=eligibility.not_before(job, context.now),
    )


def _common(job: SlurmJob, context: Context) -> dict[str, object]:
    minutes = job.time_limit
    return {
        "name": job.name,
        "tenant": None if job.account is None else context.limits.tenant(job.account),
        "priority": context.limits.ranks.get(job.qos, 0),
        "submitted": min(job.submit_time or context.now, context.now),
        "expected_runtime_s": min(minutes * 60, MAX_AMOUNT) if minutes else None,
    }


def _groups(job: SlurmJob, context: Context, several: bool) -> list[TaskGroup]:
    """Return the task group of each shape that a pending job may have."""
    allowed = _allowed(job, context)
    if not allowed:
        raise LeftOutError("may use no node of the dump")
    named = frozenset(job.required_nodes)
    if named:
        if not named <= set(context.nodes.by_name):
            raise LeftOutError("names a node that is not in the dump")
        if len(named) < (job.node_count or 1):
            raise LeftOutError("names some of its nodes and leaves others open")
        allowed &= named
        if not allowed:
            raise LeftOutError("may not use the nodes that it names")
    return [_group(shape, job, allowed, context, several) for shape in shapes(job)]


def _group(
    shape: Shape, job: SlurmJob, allowed: frozenset[str], context: Context, several: bool
) -> TaskGroup:
    if shape.model and shape.model not in context.nodes.models:
        raise LeftOutError("asks for a GPU model that no node has")
    if shape.gpus > MAX_GPUS_PER_HOST or max(shape.cpu, shape.memory) > MAX_AMOUNT:
        raise LeftOutError("asks for more than a node can have")
    segment = job.segment_size or 0
    sliced = segment > 1 and bool(context.topology.levels) and shape.tasks % segment == 0
    return TaskGroup(
        name=f"component-{job.het_job_offset or 0}" if several else "tasks",
        count=shape.tasks,
        gpu=shape.gpus,
        cpu=f"{shape.cpu}m",
        memory=f"{shape.memory}Mi",
        gpu_models=(shape.model,) if shape.model else None,
        hosts=as_document(allowed, len(context.nodes.by_name)),
        apart=_apart(shape.tasks, shape.gpus, allowed, context) if shape.apart else None,
        slices=Slices(size=segment, required=context.topology.levels[-1]) if sliced else None,
        resources={NODE: WHOLE_NODE if job.exclusive else 1} if context.alone else {},
    )


def _allowed(job: SlurmJob, context: Context) -> frozenset[str]:
    """Return the nodes that a job may use: of its partitions, features and reservation."""
    key = (job.partition, job.features, job.excluded_nodes, job.resv_name)
    if key not in context.allowed:
        context.allowed[key] = _find_allowed(job, context)
    return context.allowed[key]


def _find_allowed(job: SlurmJob, context: Context) -> frozenset[str]:
    nodes = context.nodes
    partitions = [nodes.partitions.get(name, frozenset()) for name in job.partition]
    allowed = frozenset().union(*partitions) if partitions else frozenset(nodes.by_name)
    matching = nodes.of_features(job.features)
    if matching is None:
        raise LeftOutError("has a constraint on features that is not read")
    allowed = (allowed & matching) - set(job.excluded_nodes)
    for reservation in context.active:
        if reservation.name != job.resv_name:
            allowed -= set(reservation.node_list)
    if job.resv_name:
        own = [r for r in context.active if r.name == job.resv_name]
        if not own:
            raise LeftOutError("waits for a reservation that does not hold now")
        allowed &= set(own[0].node_list)
    return allowed


def _required(components: Sequence[SlurmJob], context: Context) -> str | None:
    """Return the level that all tasks share, for `--switches=1`."""
    one = any(job.switches == 1 for job in components)
    return context.topology.levels[-1] if one and context.topology.levels else None


def _note(job: SlurmJob, book: Bookkeeping) -> None:
    """Note what a job that is in the round asks for beyond what a round can say."""
    for given, what in (
        (job.contiguous, "--contiguous"),
        (bool({"user", "mcs"}.intersection(job.shared)), "--exclusive of a user"),
        (bool(job.licenses), "licences"),
        ((job.switches or 0) > 1, "--switches of more than one"),
    ):
        if given:
            book.cannot_say(what, job.name)
