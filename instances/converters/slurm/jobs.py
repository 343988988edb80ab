"""Slurm's jobs as jobs of a round: running ones where they are, pending ones as what they ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm import arrays, eligibility
from placewright.instances.converters.slurm.caps import Caps
from placewright.instances.converters.slurm.context import Context
from placewright.instances.converters.slurm.licences import Licences
from placewright.instances.converters.slurm.pending import pending_job
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.converters.slurm.running import Occupied
from placewright.instances.converters.slurm.running_jobs import running_job
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import Job

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
    queue = [one for one in groups if not eligibility.runs(one[0])]
    order: list[Sequence[SlurmJob]] = [one for one in groups if eligibility.runs(one[0])]
    order += context.scheduler.ordered(queue, context.now)
    names: set[str] = set()
    room = arrays.MAX_ALL
    active = Counter(job.array_job_id for job in records if eligibility.runs(job))
    for components in order:
        job = components[0]
        numbers = [component.name for component in components]
        try:
            unreadable = next((one.unreadable for one in components if one.unreadable), "")
            if unreadable:
                raise LeftOutError(unreadable)
            if job.name in names:
                raise LeftOutError("listed twice")
            if eligibility.runs(job):
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
                tasks = arrays.split(one, job, active, room, book)
                room -= len(tasks) if job.array_task_string else 0
                jobs += tasks
                wanted.add(job.reservation)
        except LeftOutError as error:
            book.leave(KIND, str(error), *numbers)
            for component in components:
                book.also[component.name] = component.other_names
                if component.dependency:
                    book.why[component.name] = component.dependency
            if eligibility.runs(job):
                caps.leave(components)
                closed.update(name for c in components for name in c.nodes)
            continue
        names.add(job.name)
        book.take(KIND, len(components))
        for component in components:
            _note(component, book)
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


def _note(job: SlurmJob, book: Bookkeeping) -> None:
    """Note what a job that is in the round asks for beyond what a round can say."""
    for given, what in (
        (bool({"user", "mcs", "topo"}.intersection(job.shared)), "--exclusive of more than a node"),
        ((job.switches or 0) > 1, "--switches of more than one"),
        (bool((job.node_count or 1) % (job.segment_size or 1)), "a last segment of fewer nodes"),
    ):
        if given:
            book.cannot_say(what, job.name)
