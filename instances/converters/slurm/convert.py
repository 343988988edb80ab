"""A dump of Slurm becomes a round: its nodes, what runs on them, and what waits."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from placewright.collection import no_collection
from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import NO_TIME, Bookkeeping
from placewright.instances.converters.slurm.caps import Caps, Licences, read_licences
from placewright.instances.converters.slurm.gres_links import gres_links
from placewright.instances.converters.slurm.jobs import Context, Occupied, pending_job, running_job
from placewright.instances.converters.slurm.ledger import read_caveats
from placewright.instances.converters.slurm.limits import read_limits
from placewright.instances.converters.slurm.nodes import (
    FURTHER_LEAVES,
    Nodes,
    Topology,
    as_ranges,
    gpu_model,
    hosts,
    over_full,
    overlapping,
    read_reservations,
    read_topology,
    share_of,
    take_nodes,
    tell_flags,
    tell_part,
    tell_reserved,
    unlisted_amounts,
    unlisted_gpus,
)
from placewright.instances.converters.slurm.records import (
    Dump,
    Part,
    SlurmJob,
    SlurmNode,
    SlurmReservation,
    Sources,
    find_sources,
    read_list,
    read_records,
)
from placewright.instances.converters.slurm.requests import (
    read_partitions,
    reservations_of_pending,
    runs,
    with_fulfilled,
)
from placewright.instances.converters.slurm.scheduler import Preemption, read_scheduler
from placewright.instances.converters.slurm.texts import rows
from placewright.instances.converters.support.live import (
    HostSets,
    LeftOutError,
    LiveConversion,
    summary_of,
)
from placewright.instances.derived.slurm_marks import RESERVATION
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.cluster import ClusterDocument, LinkMatrix
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SLURM_JOB, SOURCE
from placewright.instances.errors import InvalidInputError

MAX_TASKS = 1000
MAX_ALL = 100_000
BEYOND = "held by the limit of its array, %{}: it starts when others of it have ended"
_PIECE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


def split(
    job: Job, record: SlurmJob, active: Mapping[int | None, int], room: int, book: Bookkeeping
) -> list[Job]:
    """Return a pending job alone, or a job for each task of an array that may start now.

    `job`: the job of one task. `record`: what Slurm says of it: `array_task_string` are its tasks,
    `2-5%2` four of which two run. `active`: running tasks by array. `room`: the most tasks that
    there may be. `book`: where tasks beyond the limit of an array are noted. Raises `LeftOutError`:
    its tasks cannot be read, are too many, or none may start.
    """
    text, _, limit = record.array_task_string.partition("%")
    limit = limit or str(record.array_max_tasks or "")
    if not text:
        return [job]
    numbers = _numbers(text)
    if limit.isascii() and limit.isdigit():
        may = max(0, int(limit[:9]) - active.get(record.array_job_id, 0))
        if not may:
            raise LeftOutError("held by the limit of its array")
        beyond = [f"{job.name}_{number}" for number in numbers[may:]]
        book.why |= dict.fromkeys(beyond, BEYOND.format(limit))
        book.also |= dict.fromkeys(beyond, record.other_names)
        if may < len(numbers):
            book.cannot_say("tasks of an array beyond its limit, which start later", job.name)
        numbers = numbers[:may]
    if len(numbers) > room:
        raise LeftOutError(f"array beyond the first {MAX_ALL:,} tasks of all arrays")
    names = [f"{job.name}_{number}" for number in numbers]
    return [
        job.model_copy(update={"name": name, "annotations": {**job.annotations, SLURM_JOB: name}})
        for name in names
    ]


def _numbers(text: str) -> list[int]:
    """Return the numbers of `[2-8:3,9]`; raises `LeftOutError`: too many, or none of Slurm's."""
    numbers: list[int] = []
    for piece in text.strip("[]").split(","):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise LeftOutError("array of which the dump does not name all tasks")
        first, last = int(match[1]), int(match[2] or match[1])
        step = int(match[3] or 1) or 1
        if len(range(first, last + 1, step)) + len(numbers) > MAX_TASKS:
            raise LeftOutError(f"array of more than {MAX_TASKS:,} tasks")
        numbers += range(first, last + 1, step)
    return list(dict.fromkeys(numbers))


# Slurm's jobs as jobs of a round: running ones where they are, pending ones as what they ask.

KIND = "jobs"
LEADER = "on which nodes its components start: these are Slurm's choice"


@dataclass(slots=True)
class Made:
    """Jobs of a round and their caps, what is held, and hosts on which nothing may arrive."""

    jobs: tuple[Job, ...]
    occupied: Occupied
    closed: tuple[str, ...]
    caps: dict[str, Cap]


def jobs_of(
    records: Sequence[SlurmJob], context: Context, licences: Licences, book: Bookkeeping
) -> Made:
    """Return the jobs of a round, by Slurm's priority; the bookkeeping has all records.

    Hosts of running jobs that are left out are closed: nothing may arrive there.
    """
    occupied = Occupied()
    caps = Caps(context, book)
    jobs: list[Job] = []
    closed: set[str] = set()
    wanted: set[str] = set()
    groups = sorted(_components(records), key=lambda c: (-(c[0].priority or 0), c[0].job_id))
    queue = [one for one in groups if not runs(one[0])]
    order: list[Sequence[SlurmJob]] = [one for one in groups if runs(one[0])]
    order += context.scheduler.ordered(queue, context.now)
    names: set[str] = set()
    room = MAX_ALL
    active = Counter(job.array_job_id for job in records if runs(job))
    for components in order:
        job = components[0]
        numbers = [component.name for component in components]
        try:
            unreadable = next((one.unreadable for one in components if one.unreadable), "")
            if unreadable:
                raise LeftOutError(unreadable)
            if job.name in names:
                raise LeftOutError("listed twice")
            if job.het_job_id_set and len(_numbers(job.het_job_id_set)) > len(components):
                raise LeftOutError("heterogeneous, and the dump does not have all components")
            if runs(job):
                one = running_job(components, context, occupied)
                one = caps.with_caps(one, components)
                jobs.append(licences.with_uses(one, components))
            else:
                one = pending_job(components, context, book)
                one = licences.with_uses(caps.with_caps(one, components), components)
                one = context.preemption.pending(one, job)
                for what in context.scheduler.unread:
                    book.cannot_say(what, job.name)
                if len(components) > 1:
                    book.cannot_say(LEADER, job.name)
                tasks = split(one, job, active, room, book)
                room -= len(tasks) if job.array_task_string else 0
                jobs += tasks
                wanted.add(job.reservation)
        except LeftOutError as error:
            book.leave(KIND, str(error), *numbers)
            for component in components:
                book.also[component.name] = component.other_names
                if component.dependency:
                    book.why[component.name] = component.dependency
            if any(map(runs, components)):
                caps.leave(components)
                closed.update(name for c in components for name in c.nodes)
            continue
        names.add(job.name)
        book.take(KIND, len(components))
        for component in components:
            _note(component, context, book)
    for reservation in context.active:
        if reservation.name not in wanted:  # else hosts of its jobs and of others are told apart
            closed.update(reservation.node_list)
    jobs = caps.with_nodes(caps.without_quotas(jobs))
    return Made(
        tuple(jobs),
        occupied,
        tuple(sorted(closed & set(context.nodes.by_name))),
        {**caps.documents(), **context.preemption.documents()},
    )


def _components(records: Sequence[SlurmJob]) -> list[list[SlurmJob]]:
    """Return the components of each heterogeneous job together, and any other job alone."""
    groups: dict[object, list[SlurmJob]] = {}
    for at, job in enumerate(records):
        key = ("het", job.het_job_id) if job.het_job_id else at
        groups.setdefault(key, []).append(job)
    return [sorted(jobs, key=lambda job: job.het_job_offset or 0) for jobs in groups.values()]


def _note(job: SlurmJob, context: Context, book: Bookkeeping) -> None:
    """Note what a job that is in the round asks for beyond what a round can say, or did not get."""
    leaf_of, size = context.topology.leaf_of, job.segment_size or len(job.nodes) + 1
    found = Counter(leaf_of[name] for name in job.nodes if name in leaf_of)
    known = found.total() == len(job.nodes)
    whole = sum(nodes // size for nodes in found.values())
    for given, what in (
        (known and whole < len(job.nodes) // size, "that a segment of it runs in several blocks"),
        (known and len(found) > (job.switches or len(found)), "that it runs under more switches"),
        (bool({"user", "mcs", "topo"}.intersection(job.shared)), "--exclusive of more than a node"),
        ((job.switches or 0) > 1, "--switches of more than one"),
        (bool((job.node_count or 1) % (job.segment_size or 1)), "a last segment of fewer nodes"),
    ):
        if given:
            book.cannot_say(what, job.name)


# A dump of Slurm becomes a round: its nodes, what runs on them, and what waits.

NO_SWITCHES, NO_EXCLUSIVE = "v0.0.38", "v0.0.45"
"""Dialects that do not say `--switches`, and `--exclusive`."""

HIDING = {"partitions": "partition", "qos": "QOS", "associations": "account"}
"""Parts with limits, and of what; Slurm's reason does not tell them of a job that is held."""

SHOWN = {"partitions": "scontrol show partition", "config": "scontrol show config"}
"""Parts that say whom Slurm starts, and in which order; it is said if they are missing."""


@no_collection()
def read_slurm(
    sources: Sequence[str | os.PathLike[str]],
    *,
    movable: bool = False,
    lenient: bool = False,
    now: int | None = None,
) -> LiveConversion:
    """Turn a dump of Slurm into a round, in the JSON dialects v0.0.38 to v0.0.45.

    Parameters
    ----------
    sources
        Folders or files: what `squeue --json --states=all`, `scontrol show node --json` (22.05:
        `sinfo --json`) print, and, as far as they are there, the partitions, configuration,
        topology, reservations, associations, QOS, shares, licences, and gres.conf or what
        `slurmd -G` prints.
    movable
        Running jobs that Slurm may requeue can be moved or preempted; else all are pinned.
    lenient
        Entries that cannot be read are left out and counted; else the first one is an error.
    now
        When the dump was taken, in seconds since 1970, for dialects that do not say it; by default
        the newest moment in it.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or has a value that Slurm does not write: file, field, value, and
        what was expected.
    """
    found = find_sources(sources)
    book = Bookkeeping(lenient=lenient)
    jobs = with_fulfilled(read_list(SlurmJob, found.parts["jobs"], "jobs", book))
    listed = read_list(SlurmNode, found.parts["nodes"], "nodes", book)
    of_jobs, of_nodes = (
        read_records(Dump, found.parts[part], part).last_update for part in ("jobs", "nodes")
    )
    if not of_jobs and now is None:
        book.notes.append(NO_TIME)
        now = max(_moments(jobs), default=of_nodes or 0)
    now = min(of_jobs or now or 0, MAX_NOW)
    nodes = take_nodes(listed, book, reservations="reservations" in found.parts)
    if not nodes.by_name:
        raise InvalidInputError(
            "expected at least one node", file=found.parts["nodes"].file, path=("nodes",), value=[]
        )
    topology = _topology(found.parts.get("topology"), nodes, book)
    cluster = next((one.cluster for one in jobs if one.cluster), "")
    limits = read_limits(found.parts.get("associations"), found.parts.get("qos"), cluster, book)
    partitions = read_partitions(found.parts.get("partitions"), book)
    scheduler = read_scheduler(
        found.parts.get("config"), found.parts.get("shares"), partitions, limits, book
    )
    if not scheduler.enforces:
        limits = limits.not_enforced()
        book.notes.append("limits of accounts and QOS do not hold (AccountingStorageEnforce)")
    jobs = scheduler.as_allocated(jobs, book)
    book.notes.append(scheduler.described(len(nodes.by_name)))
    missing = [f"`{text}`" for part, text in SHOWN.items() if part not in found.parts]
    if missing:
        book.notes.append(f"not in the dump: what is printed by {' and '.join(missing)}")
    reservations = read_reservations(found.parts.get("reservations"), book)
    of_others = [one for one in reservations if not one.name.startswith(RESERVATION)]
    active, later = overlapping(of_others, now)
    for one in (*active, *later):
        if not nodes.by_name.keys() >= set(one.node_list):
            book.cannot_say("nodes of a reservation that the dump does not have", one.name)
    shares = {r.name: share for r in (*active, *later) if (share := share_of(r, nodes))}
    context = Context(
        now=now,
        nodes=nodes,
        topology=topology,
        limits=limits,
        active=tuple(active),
        shares=shares,
        flexible=frozenset(r.name for r in (*active, *later) if "FLEX" in r.flags),
        named_reservations=reservations_of_pending(jobs, limits, now),
        movable=movable,
        alone=any(job.exclusive for job in jobs),
        host_sets=HostSets(len(nodes.by_name), as_ranges),
        scheduler=scheduler,
        preemption=Preemption(scheduler, now, book),
        caveats=read_caveats(found.parts, book),
    )
    licences = Licences(read_licences(found.parts.get("licenses"), book), book)
    made = jobs_of(jobs, context, licences, book)
    in_round = {one.name.partition("_")[0] for one in made.jobs}
    kept = [one for one in jobs if one.name in in_round]
    for job in kept:
        limited = {"partition": job.partition, "QOS": job.qos, "account": job.account}
        lacks = [one for part, one in HIDING.items() if part not in found.parts and limited[one]]
        if lacks and scheduler.is_hidden(job):
            book.cannot_say(f"limits of its {' and '.join(lacks)}, which its hold hides", job.name)
    for job in kept:
        for part, what, names, known in (
            ("partitions", "partition", job.partition, partitions.keys()),
            ("qos", "QOS", (job.qos,) if job.qos else (), limits.of_qos.keys()),
        ):
            if part in found.parts and not known >= set(names):
                book.cannot_say(f"limits of its {what}, which the dump does not list", job.name)
    _tell_returns((*active, *later), kept, context, book)
    for name in over_full(nodes, made.occupied.amounts):
        book.cannot_say("cores or memory of which jobs hold more than the node has", name)
    unlisted = unlisted_gpus(nodes, made.occupied.gpus, made.closed)
    amounts = unlisted_amounts(nodes, made.occupied.amounts)
    if more := sorted(amounts.keys() - set(made.closed)):
        book.cannot_say(
            "whose cores or memory are that Slurm has in use, and no job of the dump", *more
        )
    for one in (*active, *later):
        if one.name in shares:
            tell_part(one, context.caveats, book)
        tell_flags(one, context.caveats)
    if "reservations" not in found.parts:
        for name, node in nodes.by_name.items():
            tell_reserved(name, node, context.caveats, book)
    if unlisted:
        book.cannot_say("whose GPUs are that Slurm has in use, and no job of the dump", *unlisted)
    if not any(node.gres.total for node in nodes.by_name.values()):
        book.cannot_say("GPUs, as no node has any in its Gres: see gres.conf, GresTypes")
    if limits.without_parents:
        book.cannot_say("which account is above which, as sacctmgr was not asked for ParentName")
    if "topology" in found.parts and not topology.levels:
        book.cannot_say("a topology that is neither a tree nor blocks")
    _note_dialect(found, book)
    links, matrices = _links(found.parts.get("gres"), nodes, book)
    tenants = dict.fromkeys(job.tenant for job in made.jobs if job.tenant is not None)
    round_ = Round(
        name="slurm",
        now=now,
        cluster=ClusterDocument(
            name="slurm",
            levels=topology.levels,
            domains=topology.domains,
            hosts=hosts(
                nodes,
                topology,
                made.occupied.amounts,
                made.occupied.nodes if context.alone else None,
                made.occupied.resources,
                unlisted,
                amounts,
                context.caveats,
                links,
            ),
            gpu_links=matrices,
            pools=licences.pools(),
        ),
        host_sets=context.host_sets.used_by(made.jobs),
        jobs=made.jobs,
        tenants=tuple(
            Tenant(name=name, quota={"gpu": limits.gpus[name]} if name in limits.gpus else {})
            for name in sorted(tenants)
        ),
        caps=made.caps,
        reservations=(
            *(Reservation(host=host) for host in made.closed),
            *(Reservation(host=host, gpus=tuple(gpus)) for host, gpus in unlisted.items()),
        ),
        maintenance=tuple(
            Outage(host=name, start=one.start_time, end=one.end_time)
            for one in later
            for name in one.node_list
            if name in nodes.by_name
        ),
        policy=Policy(
            backfill=scheduler.backfill(len(nodes.by_name)),
            spread_weights=topology.weights if topology.levels else None,
        ),
        annotations={SOURCE: "slurm", BOOKKEEPING: book.annotation()},
    )
    check_round(round_)
    return LiveConversion(round_, summary_of(round_), book, tuple(found.ignored))


_PERIODS = {"HOURLY": 3600, "WEEKLY": 7 * 86_400}
_RETURNS = frozenset((*_PERIODS, "DAILY", "WEEKDAY", "WEEKEND"))
"""Flags of reservations that come again."""


def _tell_returns(
    reservations: Iterable[SlurmReservation],
    jobs: Sequence[SlurmJob],
    context: Context,
    book: Bookkeeping,
) -> None:
    """Tell of jobs that wait which reservation comes again before they end, or takes them in."""
    for one in reservations:
        again = sorted(_RETURNS.intersection(one.flags))
        if not again and "MAGNETIC" not in one.flags:
            continue
        own = [context.nodes.by_name[n] for n in one.node_list if n in context.nodes.by_name]
        of = {partition for node in own for partition in node.partitions}
        next_s = (one.start_time or 0) + min((_PERIODS.get(f, 86_400) for f in again), default=0)
        for job in jobs:
            if runs(job) or job.reservation or of.isdisjoint(job.partition):
                continue
            if again and (not job.time_limit or context.now + 60 * job.time_limit > next_s):
                book.cannot_say(f"that reservation {one.name} comes again ({again[0]})", job.name)
            if "MAGNETIC" in one.flags:
                what = f"whether reservation {one.name} takes it in without asking (MAGNETIC)"
                book.cannot_say(what, job.name)


def _topology(part: Part | None, nodes: Nodes, book: Bookkeeping) -> Topology:
    try:
        topology = read_topology(part, nodes.by_name)
    except InvalidInputError as error:
        book.refuse(error)
        book.cannot_say(f"the topology, which cannot be read: {error.expectation}")
        return Topology()
    for node in topology.several:
        book.cannot_say(FURTHER_LEAVES, node)
    return topology


def _links(
    part: Part | None, nodes: Nodes, book: Bookkeeping
) -> tuple[dict[str, str], tuple[LinkMatrix, ...]]:
    if part is None or part.text is None:
        return {}, ()
    if not part.text:
        book.cannot_say("links between GPUs, which AutoDetect finds: slurmd -G prints them")
    gpus = {name: (node.gres.total, gpu_model(node)) for name, node in nodes.by_name.items()}
    try:
        return gres_links(list(rows(part.text)), part.file, gpus, book)
    except InvalidInputError as error:
        book.refuse(error)
        book.cannot_say(f"links between GPUs, which cannot be read: {error.expectation}")
        return {}, ()


def _moments(jobs: Sequence[SlurmJob]) -> Iterator[int]:
    """Yield moments that have been, of dialects that do not say of which moment they are."""
    for job in jobs:
        yield job.submit_time or 0
        yield job.last_sched_evaluation or 0
        if "PENDING" not in job.states:
            yield job.start_time or 0


def _note_dialect(found: Sources, book: Bookkeeping) -> None:
    """Note what the dialect of the jobs does not say."""
    meta = found.parts["jobs"].raw.get("meta")
    plugin = meta.get("plugin") if isinstance(meta, dict) else None
    texts = plugin.values() if isinstance(plugin, dict) else ()
    said = " ".join(text for text in texts if isinstance(text, str))
    if NO_SWITCHES in said:
        book.cannot_say(f"--switches, which {NO_SWITCHES} of Slurm's JSON does not say")
    if NO_EXCLUSIVE in said:
        book.cannot_say(
            f"--exclusive, which {NO_EXCLUSIVE} of Slurm's JSON does not say (v0.0.44 does)"
        )
