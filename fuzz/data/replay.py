"""Which rule copies and deletions of a plan break, moment by moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from fuzz.data.world import GIBIT, MEGABIT, Replica, Road, World
from fuzz.policy import Raw

SLACK = 1
"""Mbit/s by which flows may exceed a link, as they are told in whole GiB and seconds."""


def broken(
    world: World, creates: list[Raw], drops: list[Raw], flows: list[Raw], *, dropping: bool
) -> str:
    """Return a rule that new replicas, deletions and flows break; "" if they keep all.

    `dropping`: the policy may delete replicas.
    """
    if drops and not dropping:
        return "data_sections"
    return next(_broken(world, creates, drops, flows), "")


def _broken(world: World, creates: list[Raw], drops: list[Raw], flows: list[Raw]) -> Iterator[str]:
    new: dict[Replica, int] = {}
    for one in creates:
        replica = one["dataset"], one["region"]
        taken = world.listed | world.coming.keys() | new.keys()
        if replica in taken or replica[1] not in world.may[replica[0]]:
            yield "create"
        new[replica] = one["ready"]
    gone: dict[Replica, int] = {}
    for one in drops:
        replica = one["dataset"], one["region"]
        if replica not in world.held or replica in gone or not _within(world, one["at"]):
            yield "drop"
        gone[replica] = one["at"]
    yield from _whole(world, new, flows)
    yield from _paths(world, flows)
    yield from _times(world, flows)
    since = dict.fromkeys(world.held, world.now) | new
    since |= {replica: at for replica, at in world.coming.items() if at > world.now}
    for flow in flows:
        source = flow["dataset"], flow["path"][0]
        if (
            source not in since
            or since[source] > flow["start"]
            or gone.get(source, flow["end"]) < flow["end"]
        ):
            yield "flow_source"
    yield from _links(world, flows)
    for dataset in {dataset for dataset, _ in gone}:
        if not _always(dataset, since, gone):
            yield "last_replica"
    if not _stored(world, new, gone, flows):
        yield "storage"


def _within(world: World, at: int) -> bool:
    return world.now <= at <= world.end


def _whole(world: World, new: dict[Replica, int], flows: list[Raw]) -> Iterator[str]:
    """Yield `copy` unless the flows to each new replica are its size, and end when it is ready."""
    gib: defaultdict[Replica, int] = defaultdict(int)
    end: dict[Replica, int] = {}
    for flow in flows:
        replica = flow["dataset"], flow["path"][-1]
        gib[replica] += flow["gib"]
        end[replica] = max(end.get(replica, 0), flow["end"])
    wanted = {replica: world.size[replica[0]] for replica in new}
    if gib != wanted or end != new:
        yield "copy"


def _paths(world: World, flows: list[Raw]) -> Iterator[str]:
    for flow in flows:
        path = flow["path"]
        if (
            len(set(path)) < len(path)
            or not world.may[flow["dataset"]].issuperset(path)
            or not all(road in world.links for road in pairwise(path))
        ):
            yield "flow_path"


def _times(world: World, flows: list[Raw]) -> Iterator[str]:
    starts = [flow["start"] for flow in flows]
    if starts != sorted(starts) or not all(
        world.now <= flow["start"] < flow["end"] <= world.end for flow in flows
    ):
        yield "flow_times"


def _links(world: World, flows: list[Raw]) -> Iterator[str]:
    """Yield what is broken of budgets and rates."""
    over: defaultdict[Road, list[Raw]] = defaultdict(list)
    for flow in flows:
        for road in pairwise(flow["path"]):
            over[road].append(flow)
    for road, mine in over.items():
        link = world.links.get(road)
        if link is None:
            continue
        if sum(flow["gib"] for flow in mine) > link.budget:
            yield "link_budget"
        for at in {flow["start"] for flow in mine}:
            rate = sum(
                Fraction(flow["gib"] * GIBIT, MEGABIT * (flow["end"] - flow["start"]))
                for flow in mine
                if flow["start"] <= at < flow["end"]
            )
            if rate > link.bandwidth + SLACK:
                yield "link_rate"


def _always(dataset: str, since: dict[Replica, int], gone: dict[Replica, int]) -> bool:
    """Whether some region has a dataset at every moment from the first at which one has it."""
    mine = {replica: at for replica, at in since.items() if replica[0] == dataset}
    ends = sorted(gone[replica] for replica in mine if replica in gone)
    return all(
        any(at <= end and gone.get(replica, end + 1) > end for replica, at in mine.items())
        for end in ends
    )


def _stored(
    world: World, new: dict[Replica, int], gone: dict[Replica, int], flows: list[Raw]
) -> bool:
    """Whether every region has room at every moment, for what arrives from its first flow on."""
    begins: dict[Replica, int] = {}
    for flow in flows:
        replica = flow["dataset"], flow["path"][-1]
        begins[replica] = min(begins.get(replica, flow["start"]), flow["start"])
    there = dict.fromkeys(world.held | world.coming.keys(), world.now)
    there |= {replica: begins.get(replica, ready) for replica, ready in new.items()}
    moments = {*there.values(), *gone.values()}
    limits = world.limits()
    for at in moments:
        used = world.used(r for r, begin in there.items() if begin <= at < gone.get(r, at + 1))
        if any(used[region] > limit for region, limit in limits.items()):
            return False
    return True
