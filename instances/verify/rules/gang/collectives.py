"""The plan section `communication`: the time of collectives of started and migrated jobs.

A message between two GPUs goes by NVLink (or their host's PCIe hub) inside an NVLink domain, and
between two of them through the NICs, the uplinks and the WAN; divided equally where several paths
are equally short. A link is as fast for each message as its bandwidth divided by the messages that
cross it in one direction; the slowest link of a collective is its bottleneck. Links that the
Cluster document does not give limit nothing, and the uplink of a rail never does, for it is as wide
as the NICs below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from placewright.instances.documents.arrangement import Communication
from placewright.instances.documents.option import TaskGroup
from placewright.instances.errors import Path, value_text
from placewright.instances.verify.policies import given, one_section, unknown_fields
from placewright.instances.verify.reading import HostFacts, PlacedTask, Reading
from placewright.instances.verify.result import Finding, rules
from placewright.topology import HostModel
from placewright.topology.catalogue import BETWEEN_SOCKETS_MBPS

KIND = "communication"
_FIELDS = ("job", "group", "bottleneck_mbit", "time_us")
_MIB_BITS = 1024 * 1024 * 8

Rank = tuple[HostFacts, int]
Route = tuple[tuple[Any, int, int | Fraction], ...]
"""Per link of a route: the link with its direction, its Mbit/s, and the part of the message."""


class Collective(NamedTuple):
    """What the section says of one group of one job."""

    job: str
    group: int
    bottleneck_mbit: int | None
    time_us: int


def collectives(reading: Reading) -> list[Collective]:
    """Return the collectives of the groups that the plan places anew, in the plan's order."""
    found: list[Collective] = []
    for placed in reading.placed_anew:
        if all(_data_mib(group) is None for group in placed.option.groups):
            continue
        tasks: defaultdict[int, list[PlacedTask]] = defaultdict(list)
        for task in placed.tasks:
            tasks[task.task.group].append(task)
        for number, group in enumerate(placed.option.groups):
            if group.communication is not None and _data_mib(group) is not None:
                ranks = [
                    (task.host, gpu)
                    for task in sorted(tasks[number], key=lambda task: task.task.index)
                    for gpu in task.task.gpus
                ]
                slowest, time = _measure(reading, group.communication, ranks)
                found.append(Collective(placed.job.name, number, slowest, time))
    return found


def bottleneck(reading: Reading) -> int:
    """Sum of the times of all collectives that the plan places anew, in microseconds.

    Of each the time at its bottleneck, rounded up.
    """
    return sum(collective.time_us for collective in collectives(reading))


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require a list of groups with four fields each; `sections.section` applies it."""
    known, where = ("kind", "groups"), f" of section {KIND!r}"
    yield from unknown_fields(entry, known, path, "groups", where)
    groups = entry.get("groups")
    if not isinstance(groups, list | tuple):
        yield Finding(
            (*path, "groups"), f"groups {value_text(groups)} is no list; expected a list of groups"
        )
        return
    for number, group in enumerate(groups):
        if not isinstance(group, Mapping) or set(group) != set(_FIELDS):
            yield Finding(
                (*path, "groups", number),
                f"{value_text(group)} is no such entry; expected {', '.join(_FIELDS)}",
            )


def communication(reading: Reading) -> Iterator[Finding]:
    """Require one section with each collective once, in the plan's order, and its figures."""
    expected = collectives(reading)
    missing = f"no section {KIND!r} with {len(expected)} groups that communicate"
    yield from one_section(reading, KIND, missing if expected else "")
    indices = given(reading, KIND)
    groups = reading.plan.sections[indices[0]].get("groups") if indices else None
    if not isinstance(groups, list | tuple):
        return
    path = ("sections", indices[0], "groups")
    if len(groups) != len(expected):
        yield Finding(
            path,
            f"{len(groups)} groups; expected the {len(expected)} that communicate, "
            "of started and migrated jobs",
        )
        return
    for number, (group, collective) in enumerate(zip(groups, expected, strict=True)):
        for name, value in collective._asdict().items():
            said = group.get(name) if isinstance(group, Mapping) else None
            if type(said) is not type(value) or said != value:
                yield Finding(
                    (*path, number, name), f"{name} {value_text(said)}; expected {value!r}"
                )


def _data_mib(group: TaskGroup) -> int | None:
    return None if group.communication is None else group.communication.data_mib


def _measure(
    reading: Reading, asked: Communication, ranks: Sequence[Rank]
) -> tuple[int | None, int]:
    """Return the bottleneck, in whole Mbit/s, and the time in microseconds, rounded up."""
    count = len(ranks)
    if count < 2:
        return None, 0
    load: defaultdict[Any, int | Fraction] = defaultdict(int)
    width: dict[Any, int] = {}
    messages = _ring(count) if asked.pattern == "ring" else _tree(0, count)
    for source, target in messages:
        for link, bandwidth, part in _path(reading, ranks[source], ranks[target]):
            load[link] += part
            width[link] = bandwidth
    if not load:
        return None, 0
    slowest = min(Fraction(width[link]) / load[link] for link in load)
    bits = (asked.data_mib or 0) * _MIB_BITS * 2
    parts = Fraction(count - 1, count) if asked.pattern == "ring" else 1
    return int(slowest), ceil(parts * bits / slowest)


def _ring(count: int) -> Iterator[tuple[int, int]]:
    yield from pairwise(range(count))
    yield count - 1, 0


def _tree(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield child and parent of the binary tree of ranks: a span's middle is above its halves'."""
    spans = [(first, last)]
    while spans:
        low, high = spans.pop()
        middle = (low + high) // 2
        for span in ((low, middle), (middle + 1, high)):
            if span[0] < span[1]:
                yield (span[0] + span[1]) // 2, middle
                spans.append(span)


def _path(reading: Reading, source: Rank, target: Rank) -> Route:
    """Return the links from one GPU to another."""
    (a, i), (b, j) = source, target
    if _nvlink_domain(a) == _nvlink_domain(b):
        return () if a.wiring is None else _route_inside(a.wiring, (a, i), (b, j))
    return (*_to_network(a, i, "out"), *_between(reading, a, b), *_to_network(b, j, "in"))


def _nvlink_domain(host: HostFacts) -> tuple[str, ...]:
    if host.wiring is None or host.wiring.nvlink_hosts == 1:
        return (host.name,)
    return (host.wiring.name, *host.domains[:-1])


def _route_inside(model: HostModel, source: Rank, target: Rank) -> Route:
    (a, i), (b, j) = source, target
    bridged = any({i, j} == {x, y} for x, y, _ in model.mesh)
    if model.intra == "nvlink-mesh" or bridged:
        return tuple(
            ((a.name, *link), width, part)
            for link, width, part in _paths_in_mesh(model, a.hardware.gpus, i, j)
        )
    # Every GPU has one lane to each switch, all equally wide; together they carry the message.
    lanes = model.nvswitches if model.intra == "nvswitch" else 1
    width = model.gpu_link.bandwidth_mbps // lanes * lanes
    route = ((a.name, "hub", i, "out"), width, 1), ((b.name, "hub", j, "in"), width, 1)
    if model.intra == "pcie" and model.numa and model.numa[i] != model.numa[j]:
        sockets = (a.name, "socket", model.numa[i], model.numa[j])
        return *route, (sockets, BETWEEN_SOCKETS_MBPS, 1)
    return route


@cache
def _paths_in_mesh(model: HostModel, gpus: int, source: int, target: int) -> Route:
    """Return the links on all shortest paths between two of the first GPUs of a mesh."""
    lanes_of_first = sum(lanes for x, y, lanes in model.mesh if 0 in (x, y))
    lane = model.lane_mbps or model.gpu_link.bandwidth_mbps // lanes_of_first
    width = {
        pair: lane * lanes
        for x, y, lanes in model.mesh
        for pair in ((x, y), (y, x))
        if max(x, y) < gpus
    }
    paths: list[tuple[int, ...]] = [(source,)]
    while paths and all(path[-1] != target for path in paths):
        paths = [(*path, y) for path in paths for x, y in width if x == path[-1] and y not in path]
    shortest = [path for path in paths if path[-1] == target]
    return tuple(
        (("mesh", *link), width[link], Fraction(1, len(shortest)))
        for path in shortest
        for link in pairwise(path)
    )


def _to_network(host: HostFacts, gpu: int, direction: str) -> Route:
    """Return the links between a GPU and the network of its innermost domain."""
    model = host.wiring
    if model is None or not model.nic_rails:
        return ()
    nic = gpu * model.nic_rails // model.gpus
    return (
        ((host.name, "pcie", gpu, direction), model.pcie_link.bandwidth_mbps, 1),
        ((host.name, "nic", nic, direction), model.nic_link.bandwidth_mbps, 1),
    )


def _between(reading: Reading, a: HostFacts, b: HostFacts) -> Route:
    """Return uplinks and WAN between two hosts that share no NVLink domain."""
    document = reading.round.cluster
    route: list[tuple[Any, int, int | Fraction]] = []
    for level, position in reading.cluster.levels.items():
        one, other = a.domains[position], b.domains[position]
        if one == other:
            continue
        if position == 0 and document.wan:
            link = reading.cluster.wan.get(frozenset((one, other)))
            if link is not None:
                route.append((("wan", one, other), link, 1))
            continue
        for host, domain, direction in ((a, one, "out"), (b, other, "in")):
            railed = domain == host.name and host.wiring is not None and host.wiring.nic_rails
            mbps = reading.cluster.uplink(level, domain)
            if mbps is not None and not railed:
                route.append(((level, domain, direction), mbps, 1))
    fabric = reading.cluster.fabric
    if fabric is not None and a.domains[-2] != b.domains[-2]:
        one, other = a.domains[-2], b.domains[-2]
        route.append((("fabric", one, other), fabric.carries({one}, {other}), 1))
    return tuple(route)


RULES_OF_COLLECTIVES = rules(communication)
