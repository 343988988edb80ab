"""Placement groups of Ray as jobs: their bundles are tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ray.hosts import Hosts
from placewright.instances.converters.ray.records import (
    CPU,
    GPU,
    MEMORY,
    MIB,
    Bundle,
    PlacementGroup,
    selects,
)
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT, NAME
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.source_keys import RAY_BUNDLES, RAY_GROUP
from placewright.topology.units import WHOLE_GPU

KIND = "placement groups"
MAX_NAME = 253
NS = 10**9
_READ = frozenset({GPU, CPU, MEMORY})
_NAME = re.compile(NAME)


class _Ask(NamedTuple):
    """What a bundle asks for: milli-GPU, millicores, MiB, and the hosts it may be on."""

    gpu: int
    cpu: int
    memory: int
    hosts: tuple[str, ...] | None


class _LeftOutError(Exception):
    """Why a placement group cannot be in a round."""


def jobs_of(groups: Sequence[PlacementGroup], hosts: Hosts, book: Bookkeeping) -> tuple[Job, ...]:
    """Return the placement groups that can be jobs, those that have their nodes first."""
    jobs: dict[str, Job] = {}
    named = Counter(group.name for group in groups)
    for group in sorted(groups, key=lambda one: (one.state != "CREATED", one.placement_group_id)):
        key = group.placement_group_id
        try:
            if key in jobs:
                raise _LeftOutError("listed twice")
            jobs[key] = _job(group, hosts, book, unique=named[group.name] == 1)
        except _LeftOutError as error:
            book.leave(KIND, str(error), key)
            hosts.closed |= {one.node_id for one in group.bundles if one.node_id in hosts.by_id}
    book.take(KIND, len(jobs))
    return tuple(jobs.values())


def _job(group: PlacementGroup, hosts: Hosts, book: Bookkeeping, *, unique: bool) -> Job:
    """Return a placement group as a job, whose bundles are its tasks.

    Raises
    ------
    _LeftOutError
        It is no more, asks for nothing that a round can give, or is on nodes that are not there.
    """
    key = group.placement_group_id
    if group.state not in ("PENDING", "CREATED"):
        raise _LeftOutError(f"is {group.state.lower() or 'in no state'}")
    if not 0 < len(group.bundles) <= MAX_COUNT:
        raise _LeftOutError("has no bundles, or too many")
    pending = group.state == "PENDING"
    asks: dict[_Ask, list[int]] = {}
    for i, bundle in enumerate(group.bundles):
        asks.setdefault(_ask(bundle, hosts, book, key, pinned=not pending), []).append(i)
    if not any(ask.gpu for ask in asks):
        raise _LeftOutError("asks for no GPU")
    several = len(asks) > 1
    option = Option(
        groups=tuple(
            TaskGroup(
                name=f"bundles-{g}" if several else "bundles",
                count=len(members),
                gpu=f"{ask.gpu}m",
                cpu=f"{ask.cpu}m",
                memory=f"{ask.memory}Mi",
                hosts=ask.hosts,
            )
            for g, (ask, members) in enumerate(asks.items())
        )
    )
    running = None if pending else Running(tasks=_places(group, asks, hosts), pinned=True)
    began = group.stats.creation_request_received_ns // NS
    name = group.name if unique and _is_name(group.name) else key
    return Job(
        name=name,
        options=(option,),
        running=running,
        submitted=began or None,
        annotations={
            RAY_GROUP: key,
            **{
                f"{RAY_BUNDLES}{g}": ",".join(map(str, members))
                for g, members in enumerate(asks.values())
            },
        },
    )


def _ask(bundle: Bundle, hosts: Hosts, book: Bookkeeping, name: str, *, pinned: bool) -> _Ask:
    asked = bundle.unit_resources
    for other in sorted(set(asked) - _READ):
        book.cannot_say(f"resource {other} of bundles", name)
    gpu = asked.get(GPU, Decimal(0)) * 1000
    if gpu != int(gpu) or (gpu > WHOLE_GPU and gpu % WHOLE_GPU):
        raise _LeftOutError("asks for whole GPUs and a part of one, or less than a thousandth")
    allowed: tuple[str, ...] | None = None
    if bundle.label_selector and not pinned:
        matches = {
            key: selects(bundle.label_selector, one.labels) for key, one in hosts.by_id.items()
        }
        if None in matches.values():
            raise _LeftOutError("has a label selector that is not read")
        allowed = tuple(sorted(key for key, match in matches.items() if match))
        if not allowed:
            raise _LeftOutError("selects no node that is alive")
        if len(allowed) == len(matches):
            allowed = None
    made = _Ask(
        int(gpu),
        int((asked.get(CPU, Decimal(0)) * 1000).to_integral_value(ROUND_CEILING)),
        int((asked.get(MEMORY, Decimal(0)) / MIB).to_integral_value(ROUND_CEILING)),
        allowed,
    )
    if max(made.gpu, made.cpu, made.memory) > MAX_AMOUNT:
        raise _LeftOutError("asks for more than any node can have")
    return made


def _places(
    group: PlacementGroup, asks: Mapping[_Ask, Sequence[int]], hosts: Hosts
) -> tuple[Task, ...]:
    tasks = []
    for g, (ask, members) in enumerate(asks.items()):
        for i, at in enumerate(members):
            node = group.bundles[at].node_id
            if node not in hosts.by_id:
                raise _LeftOutError("is on a node that is not alive")
            gpus = hosts.take(node, ask.gpu)
            if not hosts.hold(node, ask.cpu, ask.memory):
                raise _LeftOutError("holds more than a node can have")
            if gpus is None:
                raise _LeftOutError("is on a node with fewer GPUs than its groups hold")
            tasks.append(Task(group=g, index=i, host=node, gpus=gpus))
    return tuple(tasks)


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and len(text) <= MAX_NAME
