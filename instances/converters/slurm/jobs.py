"""Slurm's jobs as jobs of a round: running ones where they are, pending ones as what they ask."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from placewright.instances.checks.magnitudes import MAX_EACH
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.ledger import Caveats
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.nodes import (
    MAX_REMEMBERED,
    NODE,
    WHOLE_NODE,
    Nodes,
    Share,
    Topology,
    as_ranges,
    gpu_model,
    of_model,
    parts_per_gpu,
)
from placewright.instances.converters.slurm.records import (
    HeldNode,
    SlurmJob,
    SlurmNode,
    SlurmReservation,
)
from placewright.instances.converters.slurm.requests import (
    Counts,
    Shape,
    asked_of,
    check_limits,
    check_pending,
    counts,
    held,
    names_of,
    not_before,
    usable,
)
from placewright.instances.converters.slurm.scheduler import Preemption, Scheduler
from placewright.instances.converters.slurm.texts import Gres
from placewright.instances.converters.support.live import (
    Condition,
    HostSets,
    LeftOutError,
    either,
    is_name,
)
from placewright.instances.derived.source_words import also_of
from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.arrangement import Apart, HostCount, Slices
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST
from placewright.instances.documents.job import MAX_OPTIONS, Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.source_keys import (
    ALSO,
    SLURM_ASKED,
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_USER,
)
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU


class Allowed(NamedTuple):
    """The nodes that a job may use, and the conditions that they all meet."""

    nodes: frozenset[str]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """What jobs are read against; `host_sets` and `allowed` grow as they are read."""

    now: int
    nodes: Nodes
    topology: Topology
    limits: Limits
    active: tuple[SlurmReservation, ...]
    shares: Mapping[str, Share]
    flexible: frozenset[str]
    named_reservations: frozenset[str]
    movable: bool
    alone: bool
    host_sets: HostSets
    scheduler: Scheduler
    preemption: Preemption
    caveats: Caveats = field(default_factory=Caveats)
    allowed: dict[object, Allowed] = field(default_factory=dict)

    def qos_of(self, job: SlurmJob) -> tuple[str, ...]:
        """Return the QOS whose limits hold for a job, the stronger one first.

        That of its partition, if all of its partitions have the same, is stronger than its own.
        """
        of_partition = self.qos_of_partitions(job)
        first = next(iter(of_partition)) if len(of_partition) == 1 else ""
        over = "OVERPARTQOS" in self.limits.flags(job.qos)
        both = (job.qos, first) if over else (first, job.qos)
        return tuple(dict.fromkeys(name for name in both if name))

    def qos_of_partitions(self, job: SlurmJob) -> set[str]:
        """Return the QOS of the partitions of a job; empty: that of a partition without one."""
        known = self.scheduler.partitions
        return {known[name].qos for name in job.partition if name in known}


def common_fields(job: SlurmJob, context: Context) -> dict[str, Any]:
    """Return the fields of a job that do not depend on whether it runs."""
    minutes = job.time_limit
    return {
        "name": job.name,
        "tenant": None if job.account is None else context.limits.tenant(job.account),
        "priority": context.preemption.rank(job),
        "submitted": min(job.submit_time or context.now, context.now),
        "expected_runtime_s": minutes * 60 if minutes and minutes * 60 < MAX_AMOUNT else None,
    }


def source_ids(job: SlurmJob, components: Sequence[SlurmJob], context: Context) -> dict[str, str]:
    """Return what a job is in Slurm: number, user, component of each task group; its caveats."""
    numbers = [component.name for component in components]
    asked = " ".join(f"{name}={value}" for name, value in job.asked.items())
    user = job.user_name if re.fullmatch(LINE, job.user_name) else ""
    texts = {
        SLURM_JOB: job.name,
        SLURM_COMPONENTS: ",".join(numbers) if len(set(numbers)) > 1 else "",
        SLURM_USER: user,
        SLURM_OURS: ",".join(job.fields_of_ours),
        SLURM_ASKED: asked if asked.isascii() and asked.isprintable() else "",
        ALSO: also_of(name for one in (job, *components) for name in one.other_names),
    }
    caveats = context.caveats.of_job(
        (job, *components), context.limits, context.qos_of_partitions(job)
    )
    return {key: text for key, text in texts.items() if text} | caveats


def required_level(
    components: Sequence[SlurmJob], context: Context, book: Bookkeeping | None = None
) -> str | None:
    """Return the level that all tasks share: for `--switches=1`, and of blocks the smallest.

    Without `--segment` Slurm has a job in one block that is large enough, or not at all; what the
    round cannot say of that is noted.
    """
    topology, job = context.topology, components[0]
    if topology.levels and any(one.switches == 1 for one in components):
        return topology.levels[-1]
    if any(one.segment_size for one in components):
        return None
    nodes = counts(job, context.scheduler.partitions, context.limits).least
    level, fewer = topology.block_of(nodes)
    several = len(components) > 1 and bool(topology.sizes)
    if book is not None and (fewer or several):
        book.cannot_say(BLOCKS, job.name)
    return None if several else level


def keep_apart(tasks: int, gpus: int, allowed: frozenset[str], context: Context) -> Apart | None:
    """Return what keeps tasks on a host each, if two of them could have the GPUs of one host."""
    two = tasks > 1 and 2 * gpus <= context.nodes.room(allowed).gpus
    return Apart(level=HOST_LEVEL) if two else None


# The nodes that jobs of Slurm may use: of partitions, features and reservations.


def allowed_nodes(job: SlurmJob, context: Context) -> Allowed:
    """Return the nodes that a job may use, and the conditions that they meet.

    Raises `LeftOutError`: a constraint on features is not read, or its reservation does not hold
    now.
    """
    who = (job.user_name, job.account) if job.reservation else ()
    key = (job.partition, job.features, job.excluded_nodes, job.reservation, who)
    if key not in context.allowed:
        if len(context.allowed) >= MAX_REMEMBERED:
            context.allowed.clear()
        conditions = tuple(_conditions(job, context))
        nodes = frozenset(context.nodes.by_name).intersection(*(one.hosts for one in conditions))
        context.allowed[key] = Allowed(nodes, conditions)
    return context.allowed[key]


def without(allowed: Allowed, nodes: frozenset[str], context: Context) -> Allowed:
    """Return allowed nodes without some of them."""
    rest = frozenset(context.nodes.by_name) - nodes
    return Allowed(allowed.nodes - nodes, (*allowed.conditions, _outside(nodes, rest)))


def only(nodes: frozenset[str], context: Context) -> dict[str, Any]:
    """Return the fields of a task group that may go to some nodes alone."""
    everywhere = len(nodes) == len(context.nodes.by_name)
    return {"hosts": None if everywhere else as_ranges(nodes)}


def fields(allowed: Allowed, context: Context) -> dict[str, Any]:
    """Return the fields of a task group that may go to allowed nodes."""
    return context.host_sets.fields(allowed.conditions, allowed.nodes)


def _conditions(job: SlurmJob, context: Context) -> Iterator[Condition]:
    nodes = context.nodes
    every = frozenset(nodes.by_name)
    if job.partition:
        some = (nodes.partitions.get(name, frozenset()) for name in job.partition)
        yield Condition(either("partition", job.partition), frozenset().union(*some))
    matching = nodes.of_features(job.features)
    if matching is None:
        raise LeftOutError("has a constraint on features that is not read")
    yield Condition(f"feature/{job.features.replace('&', '+')}", matching)
    excluded = frozenset(job.excluded_nodes)
    yield _outside(excluded, every - excluded)
    # Those that no job names are reservations of the round.
    others = (
        set(r.node_list)
        for r in context.active
        if r.name != job.reservation and r.name in context.named_reservations
    )
    closed = frozenset[str]().union(*others)
    if not job.reservation:
        yield Condition("unreserved", every - closed)
        return
    own = next((r for r in context.active if r.name == job.reservation), None)
    if own is not None and not _may_use(job, own, context):
        raise LeftOutError("not eligible: its reservation is not for its user and account")
    if job.reservation in context.flexible:
        yield Condition(f"reservation/{job.reservation}", every - closed)
        return
    if own is None and "," in job.reservation:
        raise LeftOutError("asks for one of several reservations")
    if own is None:
        raise LeftOutError("waits for a reservation that does not hold now")
    inside = every.intersection(own.node_list) - closed
    yield Condition(f"reservation/{job.reservation}", inside)


def _may_use(job: SlurmJob, reservation: SlurmReservation, context: Context) -> bool:
    """Whether a reservation is for the user and the account of a job, as far as it names them."""
    mine = [] if reservation.groups else [(reservation.users, {job.user_name})]
    mine.append((reservation.accounts, set(context.limits.path(job.account or ""))))
    for named, own in mine:
        others = {name[1:] for name in named if name.startswith("-")}
        allowed = {name for name in named if not name.startswith("-")}
        if own - {""} and (own & others or (allowed and not own & allowed)):
            return False
    return True


def _outside(nodes: frozenset[str], rest: frozenset[str]) -> Condition:
    """Return the condition that some nodes are excluded: the rest of all nodes."""
    name = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)}-nodes"
    return Condition(f"without/{name}", rest)


# Pending jobs of Slurm as jobs of a round: options and task groups out of what each asks for.

BEYOND = "a range of nodes beyond MaxNodes of its partition, which Slurm 22.05 does not start"

BLOCKS = "in how few blocks its nodes have to be (topology/block)"
LEAST_MEMORY = "how much all memory of its nodes is, which differ: limits count the least"
OVERCOMMIT = "more tasks than its nodes have CPUs (--overcommit), which Slurm may refuse"


def pending_job(components: Sequence[SlurmJob], context: Context, book: Bookkeeping) -> Job:
    """Return a pending job of one or more components.

    Raises `LeftOutError`: it waits for what a round does not decide, or asks for what a round
    cannot say.
    """
    job = components[0]
    several = len(components) > 1
    asked: list[list[_Choice]] = []
    parts_of = [_in_usable_partitions(component, context) for component in components]
    for component in parts_of:
        qos = context.qos_of(component)
        check_pending(component, context.limits, context.now, qos)
        asked.append(_in_one_partition(component, context, several, book))
        least = min(asked[-1], key=lambda choice: sum(one.milli_gpu for one in choice.groups))
        check_limits(component, least.groups, qos, context.limits)
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
    level = required_level(components, context, book)
    return Job(
        **common_fields(job, context),
        options=tuple(
            Option(
                name="default" if len(choices) == 1 else choice.name,
                groups=choice.groups,
                hosts=choice.hosts,
                value=choice.value,
                required=level,
            )
            for choice in choices
        ),
        held=held(job),
        not_before=not_before(job, context.now),
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
    who = (job.account or "", job.user_name, job.partition)
    found = context.limits.of_job(*who, context.qos_of(job))
    limit = next((most for _, one in found if (most := one.asked.others.get("node"))), None)
    if limit is None or (nodes.most is not None and nodes.most <= limit):
        return nodes
    return nodes._replace(most=max(nodes.least, limit))


class _Choice(NamedTuple):
    """Task groups that a job has together, on how many hosts, and what they are worth.

    `where`: the partition of all of them, "" for any of the job's.
    """

    groups: tuple[TaskGroup, ...]
    hosts: HostCount | None = None
    value: int | None = None
    where: str = ""

    @property
    def name(self) -> str:
        """The name of its option."""
        return f"{self.where}nodes-{sum(group.count for group in self.groups)}"


def _in_one_partition(
    job: SlurmJob, context: Context, several: bool, book: Bookkeeping
) -> list[_Choice]:
    """Return the choices of a job, each in one of its partitions: Slurm never takes nodes of two.

    Those of which another one has all nodes, too, need none of their own, and no job of one task.
    """
    told = Bookkeeping()
    made = _choices(job, context, several, told)
    own = {name: context.nodes.partitions.get(name, frozenset()) for name in job.partition}
    apart = {
        nodes: name
        for name, nodes in reversed(own.items())
        if not any(nodes < others for others in own.values())
    }
    if len(apart) > 1 and any(sum(g.count for g in choice.groups) > 1 for choice in made):
        made, wrong = [], LeftOutError("")
        for name in sorted(apart.values()):
            where = f"{name}/" if is_name(name) else f"partition-{len(made)}/"
            alone = job.model_copy(update={"partition": (name,)})
            try:
                found = _choices(alone, context, several, told)
            except LeftOutError as error:
                wrong = error
            else:
                made += [one._replace(where=where) for one in found]
        if not made:
            raise wrong
        if len(made) > MAX_OPTIONS:
            told.cannot_say(f"more than {MAX_OPTIONS} choices of partitions and numbers of nodes")
    for what in told.unsaid:
        book.cannot_say(what, job.name)
    return made[:MAX_OPTIONS]


def _choices(job: SlurmJob, context: Context, several: bool, book: Bookkeeping) -> list[_Choice]:
    """Return the task groups of each shape that a pending job may have.

    Of a job that names some of its nodes, these are one group, and the others another.
    """
    allowed = allowed_nodes(job, context)
    if not allowed.nodes:
        later = job.features and context.nodes.after_reboot(job.features)
        until = ", as none has the features that it asks for until it reboots" if later else ""
        raise LeftOutError(f"may use no node of the dump{until}")
    name = f"component-{job.het_job_offset or 0}" if several else "tasks"
    named = frozenset(job.named_nodes)
    if not named <= context.nodes.by_name.keys():
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
    if max(shape.cpu, shape.memory) * shape.tasks > MAX_EACH // 10:
        raise LeftOutError("asks for more than a cluster can have")
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


# Running jobs of Slurm: what each holds of its nodes becomes its option, and where it is.


class _Hold(NamedTuple):
    """Milli-GPU, millicores, MiB and other resources that a task holds of one node."""

    milli_gpu: int
    cpu: int
    memory: int
    resources: tuple[tuple[str, int], ...] = ()


class Placed(NamedTuple):
    """Task groups and tasks of a running job, and the component that each group is of."""

    groups: tuple[TaskGroup, ...]
    tasks: tuple[Task, ...]
    components: tuple[SlurmJob, ...]


@dataclass(slots=True)
class Occupied:
    """What running jobs hold by host: milli-GPU of each GPU, millicores and MiB, resources."""

    gpus: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    amounts: dict[str, tuple[int, int]] = field(default_factory=dict)
    nodes: Counter[str] = field(default_factory=Counter)
    resources: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def place(jobs: Sequence[SlurmJob], nodes: Nodes, occupied: Occupied, *, alone: bool) -> Placed:
    """Return where a running job is, and note what it holds.

    Nodes of which it holds as much form a group. GPUs that the dump does not name, or names twice,
    are any that are free. `jobs`: the components of a job; all but heterogeneous ones have one.
    `nodes`: all hosts. `occupied`: what running jobs before it hold. `alone`: whether hosts have
    the resource `node`. Raises `LeftOutError`: a node is not in the dump, or has too few GPUs for
    what its jobs hold.
    """
    groups: dict[tuple[int, _Hold], list[tuple[str, tuple[int, ...]]]] = {}
    taken: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for component, job in enumerate(jobs):
        for part, gres in _holdings(job):
            node = nodes.by_name.get(part.name)
            if node is None:
                raise LeftOutError("runs on a node that is not in the dump")
            used = occupied.gpus[part.name] + taken[part.name]
            cpus = part.cores * node.per_core if part.cpus is None else part.cpus
            cpus = 0 if "SUSPENDED" in job.states else cpus  # it keeps its memory and its GPUs
            whole = _indices(gres, node.gres.total, used)
            taken[part.name].update(dict.fromkeys(whole, WHOLE_GPU))
            typed = {m: gres.gpus[m] for m in sorted(nodes.counted & gres.models)}
            resources = tuple((of_model(model), number) for model, number in typed.items())
            hold = _Hold(len(whole) * WHOLE_GPU, cpus * 1000, part.memory, resources)
            shares = list(_shares(gres, node, occupied.gpus[part.name] + taken[part.name]))
            if shares and not whole:  # its first share has the cores and memory
                (index, share), *shares = shares
                taken[part.name][index] += share.milli_gpu
                hold, whole = share._replace(cpu=hold.cpu, memory=hold.memory), (index,)
            groups.setdefault((component, hold), []).append((part.name, whole))
            for index, share in shares:
                taken[part.name][index] += share.milli_gpu
                groups.setdefault((component, share), []).append((part.name, (index,)))
    if not groups:
        raise LeftOutError("runs, and the dump does not say where")
    amounts: dict[str, tuple[int, int]] = {}
    for (_, hold), places in groups.items():
        for host, _ in places:
            cpu, memory = amounts.get(host) or occupied.amounts.get(host, (0, 0))
            amounts[host] = cpu + hold.cpu, memory + hold.memory
    if any(max(amount) > MAX_AMOUNT for amount in amounts.values()):
        raise LeftOutError("holds more than a node can have")
    occupied.amounts |= amounts
    for (at, hold), places in groups.items():
        for host, _ in places:
            occupied.nodes[host] += _of_node(jobs[at])
            occupied.resources[host].update(dict(hold.resources))
    for host, used in taken.items():
        occupied.gpus[host].update(used)
    of_node = [((NODE, _of_node(job)),) if alone else () for job in jobs]
    return Placed(
        tuple(
            _held_group(
                f"part-{g}" if len(groups) > 1 else "tasks",
                len(places),
                hold._replace(resources=(*of_node[at], *hold.resources)),
            )
            for g, ((at, hold), places) in enumerate(groups.items())
        ),
        tuple(
            Task(group=g, index=i, host=host, gpus=indices)
            for g, places in enumerate(groups.values())
            for i, (host, indices) in enumerate(places)
        ),
        tuple(jobs[at] for at, _ in groups),
    )


@lru_cache(maxsize=MAX_REMEMBERED)
def _held_group(name: str, count: int, hold: _Hold) -> TaskGroup:
    return TaskGroup(
        name=name,
        count=count,
        gpu=f"{hold.milli_gpu}m",
        cpu=f"{hold.cpu}m",
        memory=f"{hold.memory}Mi",
        resources=dict(hold.resources),
    )


def _of_node(job: SlurmJob) -> int:
    return WHOLE_NODE if job.exclusive else 1


def _holdings(job: SlurmJob) -> list[tuple[HeldNode, Gres]]:
    """Return the nodes of a running job, and the GRES that it holds of each."""
    held = job.job_resources or tuple(HeldNode(name, 0, 0, 0) for name in job.nodes)
    details = job.gres_detail
    if not details:
        asked = job.tres_per_node
        if job.tres_per_job.total or job.tres_per_task.total:
            raise LeftOutError("runs, and the dump does not say with which GPUs")
        return [(node, asked) for node in held]
    if len(details) != len(held):
        raise LeftOutError("runs, and the dump does not say with which GPUs")
    return list(zip(held, details, strict=True))


def _shares(gres: Gres, node: SlurmNode, used: Counter[int]) -> Iterator[tuple[int, _Hold]]:
    """Yield the GPUs of which a job holds parts, such as shards, and what it holds of each.

    Where Slurm does not say how many of a GPU, the first ones are full.
    """
    for part, number in gres.parts.items():
        each = parts_per_gpu(node, part)
        full = {index for index, milli in used.items() if milli >= WHOLE_GPU}
        free = [index for index in range(node.gres.total) if index not in full]
        for index in dict.fromkeys(gres.part_indices) or free:
            here = min(number, each + -used[index] * each // WHOLE_GPU)
            if number > 0 < here and index in free:
                yield index, _Hold(WHOLE_GPU * here // each, 0, 0, ((f"gres/{part}", here),))
                number -= here
        if number:
            raise LeftOutError("runs on a node with fewer parts of GPUs than its jobs hold")


def _indices(gres: Gres, has: int, used: Counter[int]) -> tuple[int, ...]:
    """Return GPU indices for what is held: those that are named, if they are free, or any."""
    number = gres.total
    named = tuple(dict.fromkeys(gres.indices))
    if len(named) == number and not any(used[i] for i in named) and max(named, default=0) < has:
        return named if number else ()
    free = [index for index in range(has) if not used[index]]
    if len(free) < number:
        raise LeftOutError("runs on a node with fewer GPUs than its jobs hold")
    return tuple(free[:number])


# Running jobs of Slurm as jobs of a round: pinned, or free to move where Slurm would let them.


def running_job(components: Sequence[SlurmJob], context: Context, occupied: Occupied) -> Job:
    """Return a running job of one or more components, and note what it holds.

    Raises `LeftOutError`: the dump does not say where it runs, or its nodes do not have what it
    holds.
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
    leaves = {context.topology.leaf_of.get(host) for host in places}
    if len(leaves) > 1 and required_level(components, context):
        return False
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
