"""What jobs of Slurm are read against, and what any job, running or pending, has of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from placewright.instances.converters.slurm.limits import Limits
from placewright.instances.converters.slurm.nodes import MAX_REMEMBERED, Nodes
from placewright.instances.converters.slurm.records import SlurmJob, SlurmReservation
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.converters.slurm.topology import Topology
from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.arrangement import Apart
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.source_keys import (
    SLURM_COMPONENTS,
    SLURM_JOB,
    SLURM_OURS,
    SLURM_USER,
)
from placewright.topology.units import HOST_LEVEL


@dataclass(frozen=True, slots=True)
class Context:
    """What jobs are read against; `allowed` grows as they are read."""

    now: int
    nodes: Nodes
    topology: Topology
    limits: Limits
    active: tuple[SlurmReservation, ...]
    movable: bool
    alone: bool
    allowed: dict[object, frozenset[str]] = field(default_factory=dict)


def common_fields(job: SlurmJob, context: Context) -> dict[str, object]:
    """Return the fields of a job that do not depend on whether it runs."""
    minutes = job.time_limit
    return {
        "name": job.name,
        "tenant": None if job.account is None else context.limits.tenant(job.account),
        "priority": context.limits.ranks.get(job.qos, 0),
        "submitted": min(job.submit_time or context.now, context.now),
        "expected_runtime_s": min(minutes * 60, MAX_AMOUNT) if minutes else None,
    }


def source_ids(job: SlurmJob, components: Sequence[SlurmJob]) -> dict[str, str]:
    """Return what a job is in Slurm: number, user, component of each of its task groups."""
    numbers = [component.name for component in components]
    user = job.user_name if re.fullmatch(LINE, job.user_name) else ""
    texts = {
        SLURM_JOB: job.name,
        SLURM_COMPONENTS: ",".join(numbers) if len(set(numbers)) > 1 else "",
        SLURM_USER: user,
        SLURM_OURS: ",".join(job.fields_of_ours),
    }
    return {key: text for key, text in texts.items() if text}


def allowed_nodes(job: SlurmJob, context: Context) -> frozenset[str]:
    """Return the nodes that a job may use: of its partitions, features and reservation."""
    key = (job.partition, job.features, job.excluded_nodes, job.reservation)
    if key not in context.allowed:
        if len(context.allowed) >= MAX_REMEMBERED:
            context.allowed.clear()
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
        if reservation.name != job.reservation:
            allowed -= set(reservation.node_list)
    if job.reservation:
        own = [r for r in context.active if r.name == job.reservation]
        if not own:
            raise LeftOutError("waits for a reservation that does not hold now")
        allowed &= set(own[0].node_list)
    return allowed


def required_level(components: Sequence[SlurmJob], context: Context) -> str | None:
    """Return the level that all tasks share, for `--switches=1`."""
    one = any(job.switches == 1 for job in components)
    return context.topology.levels[-1] if one and context.topology.levels else None


def keep_apart(tasks: int, gpus: int, allowed: frozenset[str], context: Context) -> Apart | None:
    """Return what keeps tasks on a host each, if two of them could have the GPUs of one host."""
    two = tasks > 1 and 2 * gpus <= context.nodes.most_gpus(allowed)
    return Apart(level=HOST_LEVEL) if two else None
