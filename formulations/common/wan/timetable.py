"""Timetable of routed copies: list scheduling under link rates, storage and precedence.

A copy starts once its source replicas are complete and its region has storage for all of it; a
replica is dropped once nothing reads it any more and another one is complete. Copies and drops wait
for each other, so the list is scanned until nothing more can start (Graham 1966). What is left is
in a deadlock, a cycle of regions without free storage, and one of its copies is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.wan import parameters
from placewright.formulations.common.wan.arrays import Wan
from placewright.formulations.common.wan.min_cost_flow import PathFlow
from placewright.formulations.common.wan.step_function import (
    MEGABITS,
    StepFunction,
    constant_rate,
    earliest_finish,
    reserve_rate,
    split_into_flows,
)
from placewright.formulations.plan_messages import Flow

Replica = tuple[int, int]
"""(dataset, region)."""


@dataclass(slots=True, eq=False)
class Timetable:
    """A schedule of copies under construction.

    Attributes
    ----------
    end : int
        End of the window.
    saturated : frozenset
        Links that are busy nearly all the time. Copies over them are scheduled first, at a constant
        rate over the whole window: bursts would leave seconds in which one link of a path waits for
        another.
    routed : dict
        The path flows of each copy without times, most urgent first.
    to_drop : dict
        Per dataset the regions whose replicas are to be dropped.
    complete : dict
        Per dataset the regions with a replica, and the time from which it can be read.
    links, storage : dict and list of StepFunction
        Residual rate of each link in Mbit/s, and free storage of each region in GiB.
    margin : Ints
        (regions,): GiB free with all copies and no drops; negative if storage does not suffice.
    num_readers : Counter
        Number of path flows without times that read each replica.
    read_until : dict
        When the last flow from a replica ends.
    ready, flows, dropped, refused
        The result: completion times of copies, their flows, times of drops, and refused copies.
    """

    wan: Wan
    end: int
    saturated: frozenset[Replica]
    routed: dict[Replica, tuple[PathFlow, ...]]
    to_drop: dict[int, list[int]]
    complete: dict[int, dict[int, int]]
    links: dict[Replica, StepFunction]
    storage: list[StepFunction]
    margin: Ints
    num_readers: Counter[Replica]
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
    routed: Mapping[Replica, tuple[PathFlow, ...]],
    drops: Iterable[Replica],
    saturated: frozenset[Replica] = frozenset(),
) -> Timetable:
    """Return a timetable in which no copy has times yet."""
    now = wan.round.now
    to_drop: dict[int, list[int]] = defaultdict(list)
    for d, r in drops:
        to_drop[d].append(r)
    complete: dict[int, dict[int, int]] = defaultdict(dict)
    for d, r in zip(*(wan.holds | wan.arriving).nonzero(), strict=True):
        complete[int(d)][int(r)] = now if wan.holds[d, r] else max(now, int(wan.ready[d, r]))
    return Timetable(
        wan=wan,
        end=now + wan.round.geo.window_s,
        saturated=saturated,
        routed=dict(routed),
        to_drop=to_drop,
        complete=complete,
        links={},
        storage=[StepFunction([now], [float(free)]) for free in free_storage(wan)],
        margin=storage_margin(wan, routed),
        num_readers=Counter(
            (d, part.path[0]) for (d, _), parts in routed.items() for part in parts
        ),
    )


def free_storage(wan: Wan) -> Ints:
    """Return the free GiB of each region (regions,), 0 where storage is exceeded."""
    left: Ints = np.maximum(wan.storage - wan.size @ (wan.holds | wan.arriving), 0)
    return left


def storage_margin(wan: Wan, copies: Iterable[Replica]) -> Ints:
    """Return the free GiB of regions with these copies and no drops (regions,)."""
    margin = free_storage(wan)
    for dataset, region in copies:
        margin[region] -= wan.size[dataset]
    return margin


def saturated_links(wan: Wan, routed: Mapping[Replica, tuple[PathFlow, ...]]) -> frozenset[Replica]:
    """Return the links that routed copies keep busy nearly all the time."""
    busy: dict[Replica, float] = defaultdict(float)
    for parts in routed.values():
        for part in parts:
            for link in pairwise(part.path):
                busy[link] += part.gib * MEGABITS / float(wan.bandwidth[link])
    most = parameters.PARAMETERS.saturation_share * wan.round.geo.window_s
    return frozenset(link for link, seconds in busy.items() if seconds > most)


def schedule_all(table: Timetable) -> None:
    """Schedule all copies and drops that can be; the other copies are refused."""
    for dataset in list(table.to_drop):
        _drop(table, dataset)
    for copy in [
        copy for copy, parts in table.routed.items() if _uses_saturated_link(table, parts)
    ]:
        if copy in table.routed and _try_schedule(table, copy):
            _drop(table, copy[0])
    while table.routed:
        before = len(table.routed), len(table.dropped)
        for copy in list(table.routed):
            if copy in table.routed and _try_schedule(table, copy):
                _drop(table, copy[0])
        if (len(table.routed), len(table.dropped)) == before:
            _refuse(table, _copy_to_refuse(table))


def _try_schedule(table: Timetable, copy: Replica) -> bool:
    """Schedule a copy if sources and storage allow; return whether it is decided now."""
    dataset, region = copy
    complete, parts = table.complete[dataset], table.routed[copy]
    if any(part.path[0] not in complete for part in parts):
        return False
    begin = table.storage[region].available_from(float(table.wan.size[dataset]))
    if begin is None:
        return False
    flows = list(_schedule_flows(table, dataset, parts, begin))
    if sum(flow.gib for flow in flows) < table.wan.size[dataset]:
        for flow in flows:
            reserve_rate(_link_rates(table, flow.path), -flow.gib, flow.start, flow.end)
        _refuse(table, copy)
        return True
    _dequeue(table, copy)
    table.flows.extend(flows)
    table.storage[region].add(-float(table.wan.size[dataset]), min(flow.start for flow in flows))
    complete[region] = table.ready[copy] = max(flow.end for flow in flows)
    for flow in flows:
        source = dataset, flow.path[0]
        table.read_until[source] = max(table.read_until.get(source, 0), flow.end)
    return True


def _schedule_flows(
    table: Timetable, dataset: int, parts: Sequence[PathFlow], begin: int
) -> Iterator[Flow]:
    """Schedule the path flows of a copy, the largest first, until one does not fit."""
    for part in sorted(parts, key=lambda part: -part.gib):
        links = _link_rates(table, part.path)
        start = max(begin, table.complete[dataset][part.path[0]])
        whole = None
        if _uses_saturated_link(table, parts):
            whole = constant_rate(links, part.gib, start, table.end)
        if whole is None:
            whole = earliest_finish(links, part.gib, start, table.end)
        found = (
            split_into_flows(links, part.gib, start, table.end)
            if whole is None
            else [(part.gib, *whole)]
        )
        if not found:
            return
        for gib, first, last in found:
            reserve_rate(links, gib, first, last)
            yield Flow(dataset, part.path, gib, first, last)


def _uses_saturated_link(table: Timetable, parts: Sequence[PathFlow]) -> bool:
    """Whether some path flow of a copy uses a saturated link."""
    return any(link in table.saturated for part in parts for link in pairwise(part.path))


def _link_rates(table: Timetable, path: Sequence[int]) -> list[StepFunction]:
    """Return the residual rates of the links of a path."""
    for link in pairwise(path):
        if link not in table.links:
            table.links[link] = StepFunction([table.now], [float(table.wan.bandwidth[link])])
    return [table.links[link] for link in pairwise(path)]


def _drop(table: Timetable, dataset: int) -> None:
    """Drop replicas of a dataset that nothing reads any more.

    One complete replica must remain at any time. Regions short of storage come first.
    """
    complete = table.complete[dataset]
    for region in sorted(table.to_drop[dataset], key=lambda r: int(table.margin[r])):
        replica = dataset, region
        others = [
            since
            for other, since in complete.items()
            if other != region and (dataset, other) not in table.dropped
        ]
        if replica in table.dropped or table.num_readers[replica] or not others:
            continue
        at = max(min(others), table.read_until.get(replica, table.now))
        if at <= table.end:
            table.dropped[replica] = at
            table.storage[region].add(float(table.wan.size[dataset]), at)


def _refuse(table: Timetable, copy: Replica) -> None:
    """Refuse a copy and those that would have read it."""
    dataset, region = copy
    table.refused.append(copy)
    _dequeue(table, copy)
    dependent_copies = [
        other
        for other, parts in table.routed.items()
        if other[0] == dataset and any(part.path[0] == region for part in parts)
    ]
    for other in dependent_copies:
        if other in table.routed:
            _refuse(table, other)
    _drop(table, dataset)


def _dequeue(table: Timetable, copy: Replica) -> None:
    """Remove a copy from those without times, and from the readers of its sources."""
    for part in table.routed.pop(copy):
        table.num_readers[copy[0], part.path[0]] -= 1


def _copy_to_refuse(table: Timetable) -> Replica:
    """Return the copy to refuse so that a deadlock ends.

    It is the smallest that can never fit; otherwise the smallest that is the last reader of a
    replica to be dropped; otherwise the last one.
    """
    size = table.wan.size
    never_fit = [copy for copy in table.routed if size[copy[0]] > _final_storage(table, copy[1])]
    if never_fit:
        return min(never_fit, key=lambda copy: int(size[copy[0]]))
    readers: dict[Replica, set[Replica]] = defaultdict(set)
    for copy, parts in table.routed.items():
        for part in parts:
            readers[copy[0], part.path[0]].add(copy)
    unblocking = [
        next(iter(readers[dataset, region]))
        for dataset, regions in table.to_drop.items()
        for region in regions
        if len(readers[dataset, region]) == 1 and set(table.complete[dataset]) - set(regions)
    ]
    if unblocking:
        return min(unblocking, key=lambda copy: int(size[copy[0]]))
    return list(table.routed)[-1]


def _final_storage(table: Timetable, region: int) -> float:
    """Return the free storage of a region after all drops."""
    waits = (
        int(table.wan.size[dataset])
        for dataset, regions in table.to_drop.items()
        if region in regions and (dataset, region) not in table.dropped
    )
    return table.storage[region].amounts[-1] + sum(waits)
