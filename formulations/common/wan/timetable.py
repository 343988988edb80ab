"""When routed copies pass: one after another, each as early as links, regions and sources allow.

A copy starts once its sources are complete and its region has room for all of it, and a replica is
dropped once nothing reads it any more and another one is complete: both wait for each other, so the
list of copies is gone through until nothing more can start. What is left then waits for itself, in
a circle of regions without room, and one copy of it is given up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from placewright.formulations.common.wan.arrays import Ints, Wan
from placewright.formulations.common.wan.min_cost_flow import Part
from placewright.formulations.common.wan.step_function import (
    MEGABITS,
    Steps,
    earliest,
    evenly,
    pass_through,
    pieces,
)
from placewright.formulations.session import Flow

Replica = tuple[int, int]
"""Dataset and region."""

_CROWDED = 0.8
"""Of the window."""


@dataclass(slots=True, eq=False)
class Timetable:
    """Copies with their times, under construction.

    Attributes
    ----------
    end : int
        When the window ends.
    crowded : frozenset
        Links that are busy nearly all the time. Copies over them take all the time that there is,
        before the others: bursts leave seconds in which one link of a path waits for another.
    routed : dict
        The parts of each copy that has no times yet, most urgent first.
    unwanted : dict
        The replicas of each dataset that are to be dropped, as regions.
    complete : dict
        Per dataset the regions with a replica, and since when it can be read.
    links, room : dict and list of Steps
        What each link leaves (Mbit/s), and each region (GiB).
    spare : Ints
        (regions,): GiB of room with all copies and no drops; negative where it lacks some.
    readers : Counter
        Parts of copies without times that are read from each replica.
    read_until : dict
        When the last flow from a replica ends.
    """

    wan: Wan
    end: int
    crowded: frozenset[Replica]
    routed: dict[Replica, tuple[Part, ...]]
    unwanted: dict[int, list[int]]
    complete: dict[int, dict[int, int]]
    links: dict[Replica, Steps]
    room: list[Steps]
    spare: Ints
    readers: Counter[Replica]
    read_until: dict[Replica, int] = field(default_factory=dict)
    ready: dict[Replica, int] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    dropped: dict[Replica, int] = field(default_factory=dict)
    refused: list[Replica] = field(default_factory=list)

    @property
    def now(self) -> int:
        """The time of the round."""
        return self.wan.round.now


def open_timetable(
    wan: Wan,
    routed: Mapping[Replica, tuple[Part, ...]],
    drops: Iterable[Replica],
    crowded: frozenset[Replica] = frozenset(),
) -> Timetable:
    """Return a timetable in which no copy has times yet."""
    now = wan.round.now
    unwanted: dict[int, list[int]] = defaultdict(list)
    for d, r in drops:
        unwanted[d].append(r)
    complete: dict[int, dict[int, int]] = defaultdict(dict)
    for d, r in zip(*(wan.holds | wan.arriving).nonzero(), strict=True):
        complete[int(d)][int(r)] = now if wan.holds[d, r] else max(now, int(wan.ready[d, r]))
    return Timetable(
        wan=wan,
        end=now + wan.round.geo.window_s,
        crowded=crowded,
        routed=dict(routed),
        unwanted=unwanted,
        complete=complete,
        links={},
        room=[Steps([now], [float(free)]) for free in room_left(wan)],
        spare=spare_room(wan, routed),
        readers=Counter((d, part.path[0]) for (d, _), parts in routed.items() for part in parts),
    )


def room_left(wan: Wan) -> Ints:
    """Return the GiB that each region has room for; one that exceeds its storage has none."""
    left: Ints = np.maximum(wan.storage - wan.size @ (wan.holds | wan.arriving), 0)
    return left


def spare_room(wan: Wan, copies: Iterable[Replica]) -> Ints:
    """Return what regions would have left with these copies and no drops (regions,), or lack."""
    spare = room_left(wan)
    for dataset, region in copies:
        spare[region] -= wan.size[dataset]
    return spare


def crowded_links(wan: Wan, routed: Mapping[Replica, tuple[Part, ...]]) -> frozenset[Replica]:
    """Return the links that routed copies keep busy nearly all the time."""
    busy: dict[Replica, float] = defaultdict(float)
    for parts in routed.values():
        for part in parts:
            for link in pairwise(part.path):
                busy[link] += part.gib * MEGABITS / float(wan.bandwidth[link])
    most = _CROWDED * wan.round.geo.window_s
    return frozenset(link for link, seconds in busy.items() if seconds > most)


def fill(table: Timetable) -> None:
    """Give times to all copies and drops that can have them; the others are refused."""
    for dataset in list(table.unwanted):
        _drop(table, dataset)
    for copy in [copy for copy, parts in table.routed.items() if _crowded(table, parts)]:
        if copy in table.routed and _starts(table, copy):
            _drop(table, copy[0])
    while table.routed:
        before = len(table.routed), len(table.dropped)
        for copy in list(table.routed):
            if copy in table.routed and _starts(table, copy):
                _drop(table, copy[0])
        if (len(table.routed), len(table.dropped)) == before:
            _refuse(table, _given_up(table))


def _starts(table: Timetable, copy: Replica) -> bool:
    """Give times to a copy if its sources and its region allow it; whether it is settled now."""
    dataset, region = copy
    complete, parts = table.complete[dataset], table.routed[copy]
    if any(part.path[0] not in complete for part in parts):
        return False
    begin = table.room[region].since(float(table.wan.size[dataset]))
    if begin is None:
        return False
    flows = list(_pass(table, dataset, parts, begin))
    if sum(flow.gib for flow in flows) < table.wan.size[dataset]:
        for flow in flows:
            pass_through(_steps(table, flow.path), -flow.gib, flow.start, flow.end)
        _refuse(table, copy)
        return True
    _settle(table, copy)
    table.flows.extend(flows)
    table.room[region].add(-float(table.wan.size[dataset]), min(flow.start for flow in flows))
    complete[region] = table.ready[copy] = max(flow.end for flow in flows)
    for flow in flows:
        source = dataset, flow.path[0]
        table.read_until[source] = max(table.read_until.get(source, 0), flow.end)
    return True


def _pass(table: Timetable, dataset: int, parts: Sequence[Part], begin: int) -> Iterator[Flow]:
    """Put the parts of a copy on their links, the largest first, until one does not fit."""
    for part in sorted(parts, key=lambda part: -part.gib):
        links = _steps(table, part.path)
        start = max(begin, table.complete[dataset][part.path[0]])
        whole = None
        if _crowded(table, parts):
            whole = evenly(links, part.gib, start, table.end)
        if whole is None:
            whole = earliest(links, part.gib, start, table.end)
        found = pieces(links, part.gib, start, table.end) if whole is None else [(part.gib, *whole)]
        if not found:
            return
        for gib, first, last in found:
            pass_through(links, gib, first, last)
            yield Flow(dataset, part.path, gib, first, last)


def _crowded(table: Timetable, parts: Sequence[Part]) -> bool:
    """Whether some part of a copy takes a crowded link."""
    return any(link in table.crowded for part in parts for link in pairwise(part.path))


def _steps(table: Timetable, path: Sequence[int]) -> list[Steps]:
    """Return what the links of a path leave."""
    for link in pairwise(path):
        if link not in table.links:
            table.links[link] = Steps([table.now], [float(table.wan.bandwidth[link])])
    return [table.links[link] for link in pairwise(path)]


def _drop(table: Timetable, dataset: int) -> None:
    """Drop what is unwanted of a dataset, where nothing is to read it any more.

    One that is complete must be left at any time; where room is short, replicas go first.
    """
    complete = table.complete[dataset]
    for region in sorted(table.unwanted[dataset], key=lambda r: int(table.spare[r])):
        replica = dataset, region
        others = [
            since
            for other, since in complete.items()
            if other != region and (dataset, other) not in table.dropped
        ]
        if replica in table.dropped or table.readers[replica] or not others:
            continue
        at = max(min(others), table.read_until.get(replica, table.now))
        if at <= table.end:
            table.dropped[replica] = at
            table.room[region].add(float(table.wan.size[dataset]), at)


def _refuse(table: Timetable, copy: Replica) -> None:
    """Give up a copy, and those that were to be made from it."""
    dataset, region = copy
    table.refused.append(copy)
    _settle(table, copy)
    made_from_it = [
        other
        for other, parts in table.routed.items()
        if other[0] == dataset and any(part.path[0] == region for part in parts)
    ]
    for other in made_from_it:
        if other in table.routed:
            _refuse(table, other)
    _drop(table, dataset)


def _settle(table: Timetable, copy: Replica) -> None:
    """Take a copy from those that wait; it reads from its sources no more."""
    for part in table.routed.pop(copy):
        table.readers[copy[0], part.path[0]] -= 1


def _given_up(table: Timetable) -> Replica:
    """Return the copy to give up so that others may go on.

    It is the smallest that no room can ever come to, else the smallest after which some replica can
    be dropped, else the last.
    """
    size = table.wan.size
    hopeless = [copy for copy in table.routed if size[copy[0]] > _room_at_last(table, copy[1])]
    if hopeless:
        return min(hopeless, key=lambda copy: int(size[copy[0]]))
    readers: dict[Replica, set[Replica]] = defaultdict(set)
    for copy, parts in table.routed.items():
        for part in parts:
            readers[copy[0], part.path[0]].add(copy)
    freeing = [
        next(iter(readers[dataset, region]))
        for dataset, regions in table.unwanted.items()
        for region in regions
        if len(readers[dataset, region]) == 1 and set(table.complete[dataset]) - set(regions)
    ]
    if freeing:
        return min(freeing, key=lambda copy: int(size[copy[0]]))
    return list(table.routed)[-1]


def _room_at_last(table: Timetable, region: int) -> float:
    """Return the room of a region once all that may be dropped there has been."""
    waits = (
        int(table.wan.size[dataset])
        for dataset, regions in table.unwanted.items()
        if region in regions and (dataset, region) not in table.dropped
    )
    return table.room[region].amounts[-1] + sum(waits)
