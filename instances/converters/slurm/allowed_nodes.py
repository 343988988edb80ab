"""The nodes that jobs of Slurm may use: of partitions, features and reservations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placewright.instances.converters.slurm.context import Allowed, Context
from placewright.instances.converters.slurm.nodes import MAX_REMEMBERED, as_ranges
from placewright.instances.converters.slurm.records import SlurmJob
from placewright.instances.converters.slurm.requests import LeftOutError
from placewright.instances.converters.support.host_sets import Condition, either


def allowed_nodes(job: SlurmJob, context: Context) -> Allowed:
    """Return the nodes that a job may use, and the conditions that they meet.

    Raises
    ------
    LeftOutError
        A constraint on features is not read, or its reservation does not hold now.
    """
    key = (job.partition, job.features, job.excluded_nodes, job.reservation)
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
    if job.reservation in context.flexible:
        yield Condition(f"reservation/{job.reservation}", every - closed)
        return
    own = next((r for r in context.active if r.name == job.reservation), None)
    if own is None:
        raise LeftOutError("waits for a reservation that does not hold now")
    inside = every.intersection(own.node_list) - closed
    yield Condition(f"reservation/{job.reservation}", inside)


def _outside(nodes: frozenset[str], rest: frozenset[str]) -> Condition:
    """Return the condition that some nodes are excluded: the rest of all nodes."""
    name = next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)}-nodes"
    return Condition(f"without/{name}", rest)
