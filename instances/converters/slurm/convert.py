"""A dump of Slurm becomes a round: its nodes, what runs on them, and what waits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import NO_TIME, Bookkeeping
from placewright.instances.converters.slurm.caveats import read_caveats
from placewright.instances.converters.slurm.context import Context
from placewright.instances.converters.slurm.eligibility import (
    reservations_of_pending,
    with_fulfilled,
)
from placewright.instances.converters.slurm.jobs import jobs_of
from placewright.instances.converters.slurm.licences import Licences, read_licences
from placewright.instances.converters.slurm.limits import read_limits
from placewright.instances.converters.slurm.nodes import (
    Nodes,
    as_ranges,
    hosts,
    over_full,
    take_nodes,
    unlisted_gpus,
)
from placewright.instances.converters.slurm.partitions import read_partitions
from placewright.instances.converters.slurm.preemption import Preemption
from placewright.instances.converters.slurm.reading import read_list, read_records
from placewright.instances.converters.slurm.records import Dump, SlurmJob, SlurmNode
from placewright.instances.converters.slurm.reservations import (
    overlapping,
    read_reservations,
    share_of,
    tell_part,
)
from placewright.instances.converters.slurm.scheduler import read_scheduler
from placewright.instances.converters.slurm.sources import Part, Sources, find_sources
from placewright.instances.converters.slurm.topology import Topology, read_topology
from placewright.instances.converters.support.host_sets import HostSets
from placewright.instances.converters.support.live import LiveConversion
from placewright.instances.derived.slurm_marks import RESERVATION
from placewright.instances.documents.base import MAX_NOW
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.policy import Policy, Tenant
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.instances.errors import InvalidInputError

NO_SWITCHES, NO_EXCLUSIVE = "v0.0.38", "v0.0.45"
"""Dialects that do not say `--switches`, and `--exclusive`."""

SHOWN = {"partitions": "scontrol show partition", "config": "scontrol show config"}
"""Parts that say whom Slurm starts, and in which order; it is said if they are missing."""


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
        Folders or files: what `squeue --json`, `scontrol show node --json` (22.05: `sinfo --json`)
        print, and, as far as they are there, the partitions, configuration, topology, reservations,
        associations, QOS, shares and licences.
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
    newest = max(_moments(jobs), default=of_nodes or 0)
    if not of_jobs and now is None:
        book.notes.append(NO_TIME)
    now = min(of_jobs or max(newest, now or 0), MAX_NOW)
    nodes = take_nodes(listed, book, reservations="reservations" in found.parts)
    if not nodes.by_name:
        raise InvalidInputError(
            "expected at least one node", file=found.parts["nodes"].file, path=("nodes",), value=[]
        )
    topology = _topology(found.parts.get("topology"), nodes, book)
    limits = read_limits(found.parts.get("associations"), found.parts.get("qos"), book)
    partitions = read_partitions(found.parts.get("partitions"), book)
    scheduler = read_scheduler(
        found.parts.get("config"), found.parts.get("shares"), partitions, limits, book
    )
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
    for name in over_full(nodes, made.occupied.amounts):
        book.cannot_say("cores or memory of which jobs hold more than the node has", name)
    unlisted = unlisted_gpus(nodes, made.occupied.gpus, made.closed)
    for one in (*active, *later):
        if one.name in shares:
            tell_part(one, context.caveats, book)
    if unlisted:
        book.cannot_say("whose GPUs are that Slurm has in use, and no job of the dump", *unlisted)
    if not any(node.gres.total for node in nodes.by_name.values()):
        book.cannot_say("GPUs, as no node has any in its Gres: see gres.conf, GresTypes")
    if limits.without_parents:
        book.cannot_say("which account is above which, as sacctmgr was not asked for ParentName")
    if "topology" in found.parts and not topology.levels:
        book.cannot_say("a topology that is neither a tree nor blocks")
    _note_dialect(found, book)
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
                context.caveats,
            ),
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
    return LiveConversion(round_, _summary(round_), book, tuple(found.ignored))


def _topology(part: Part | None, nodes: Nodes, book: Bookkeeping) -> Topology:
    try:
        return read_topology(part, nodes.by_name)
    except InvalidInputError as error:
        book.refuse(error)
        book.cannot_say(f"the topology, which cannot be read: {error.expectation}")
        return Topology()


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


def _summary(round_: Round) -> str:
    running = sum(job.running is not None for job in round_.jobs)
    gpus = sum(host.gpus or 0 for host in round_.cluster.hosts)
    return (
        f"slurm: {len(round_.cluster.hosts):,} hosts, {gpus:,} GPUs; {running:,} jobs run, "
        f"{len(round_.jobs) - running:,} wait"
    )
