"""What jobs of Slurm are read against, and what any job, running or pending, has of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placewright.instances.converters.slurm.caveats import Caveats
from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.nodes import Nodes
from placewright.instances.converters.slurm.preemption import Preemption
from placewright.instances.converters.slurm.records import SlurmJob, SlurmReservation
from placewright.instances.converters.slurm.reservations import Share
from placewright.instances.converters.slurm.scheduler import Scheduler
from placewright.instances.converters.slurm.topology import Topology
from placewright.instances.converters.support.host_sets import Condition, HostSets
from placewright.instances.derived.source_words import also_of
from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.arrangement import Apart
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.source_keys import (
    ALSO,
    SLURM_ASKED,
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_USER,
)
from placewright.topology.units import HOST_LEVEL


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


def common_fields(job: SlurmJob, context: Context) -> dict[str, object]:
    """Return the fields of a job that do not depend on whether it runs."""
    minutes = job.time_limit
    return {
        "name": job.name,
        "tenant": None if job.account is None else context.limits.tenant(job.account),
        "priority": context.preemption.rank(job),
        "submitted": min(job.submit_time or context.now, context.now),
        "expected_runtime_s": min(minutes * 60, MAX_AMOUNT) if minutes else None,
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
    caveats = context.caveats.of_job((job, *components), context.limits)
    return {key: text for key, text in texts.items() if text} | caveats


def required_level(components: Sequence[SlurmJob], context: Context) -> str | None:
    """Return the level that all tasks share, for `--switches=1`."""
    one = any(job.switches == 1 for job in components)
    return context.topology.levels[-1] if one and context.topology.levels else None


def keep_apart(tasks: int, gpus: int, allowed: frozenset[str], context: Context) -> Apart | None:
    """Return what keeps tasks on a host each, if two of them could have the GPUs of one host."""
    two = tasks > 1 and 2 * gpus <= context.nodes.room(allowed).gpus
    return Apart(level=HOST_LEVEL) if two else None
