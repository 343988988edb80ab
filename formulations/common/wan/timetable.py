"""Timetable of routed copies: paths of minimum cost, list scheduling under rates and storage."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan import parameters
from placewright.formulations.common.wan.arrays import Wan
from placewright.formulations.plan_messages import Flow
from placewright.solver.network_flow import min_cost_flow

MEGABITS = 2**33 / 10**6
"""Megabits of one GiB."""

_TOLERANCE = 1e-6
"""Mbit/s, or fraction of a second, below which a difference is a rounding error."""


@dataclass(slots=True, eq=False)
class StepFunction:
    """A function with value `amounts[i]` from `times[i]` on, until the next time."""

    times: list[int]
    amounts: list[float]

    def value_at(self, time: int) -> float:
        """Return the value at a time; before the first time, the first value."""
        return self.amounts[max(bisect_right(self.times, time) - 1, 0)]

    def add(self, amount: float, start: int, end: int | None = None) -> None:
        """Add an amount from `start`, no earlier than the first time, to `end` or forever."""
        first = self._insert_breakpoint(start)
        last = len(self.times) if end is None else self._insert_breakpoint(end)
        for i in range(first, last):
            self.amounts[i] += amount

    def available_from(self, amount: float) -> int | None:
        """Return the earliest time from which the value is always at least `amount`, or None."""
        if self.amounts[-1] < amount:
            return None
        i = len(self.times) - 1
        while i and self.amounts[i - 1] >= amount:
            i -= 1
        return self.times[i]

    def _insert_breakpoint(self, time: int) -> int:
        """Insert a breakpoint at a time if there is none, and return its index."""
        i = bisect_left(self.times, time)
        if i == len(self.times) or self.times[i] != time:
            self.times.insert(i, time)
            self.amounts.insert(i, self.amounts[i - 1])
        return i


def earliest_finish(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> tuple[int, int] | None:
    """Return the interval in which some GiB pass at a constant rate and finish earliest.

    `free`: residual rate of each link of the path, in Mbit/s. `gib`: amount in GiB. `begin` and
    `end`: seconds between which the flow must lie. The interval is its start and
    its end in seconds; None if none suffices.
    """
    times, rates = _bottleneck(free, begin, end)
    best: tuple[int, int] | None = None
    for first, start in enumerate(times):
        if start >= end:
            break
        if first and rates[first] <= rates[first - 1]:
            continue  # as well earlier
        finish = _finish_time(times, rates, first, gib, end)
        if finish is not None:
            best = start, finish
            end = finish - 1
    return best


def constant_rate(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> tuple[int, int] | None:
    """Return (begin, end) if some GiB can pass at one rate all that time, otherwise None."""
    fits = (
        begin < end
        and gib * MEGABITS <= min(_bottleneck(free, begin, end)[1]) * (end - begin) + _TOLERANCE
    )
    return (begin, end) if fits else None


def split_into_flows(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> list[tuple[int, int, int]]:
    """Return some GiB as flows (GiB, start, end) that use all residual rate, earliest first.

    Returns [] if the rate between begin and end does not suffice.
    """
    times, rates = _bottleneck(free, begin, end)
    found: list[tuple[int, int, int]] = []
    for start, stop, rate in zip(times, [*times[1:], end], rates, strict=True):
        if rate <= _TOLERANCE:
            continue
        part = min(gib, int(rate * (stop - start) / MEGABITS + _TOLERANCE))
        if part:
            found.append((part, start, start + _transfer_seconds(part, rate)))
            gib -= part
        if not gib:
            return found
    return []


def reserve_rate(links: Iterable[StepFunction], gib: int, start: int, end: int) -> None:
    """Subtract the constant rate of some GiB from the residual rates of links."""
    rate = gib * MEGABITS / (end - start)
    for steps in links:
        steps.add(-rate, start, end)


def _bottleneck(
    free: Sequence[StepFunction], begin: int, end: int
) -> tuple[list[int], list[float]]:
    """Return the breakpoints between begin and end, and the smallest rate from each on."""
    between = {time for steps in free for time in steps.times if begin < time < end}
    times = [begin, *sorted(between)]
    return times, [min(steps.value_at(time) for steps in free) for time in times]


def _finish_time(
    times: Sequence[int], rates: Sequence[float], first: int, gib: int, end: int
) -> int | None:
    """Return when a flow that starts at a breakpoint finishes earliest, None if too late."""
    start, least = times[first], math.inf
    for i in range(first, len(times)):
        least = min(least, rates[i])
        if least <= _TOLERANCE or times[i] >= end:
            return None
        finish = start + _transfer_seconds(gib, least)
        if finish <= (times[i + 1] if i + 1 < len(times) else end):
            return finish if finish <= end else None
    return None


def _transfer_seconds(gib: int, rate: float) -> int:
    """Return the whole seconds that some GiB take at a rate in Mbit/s."""
    return max(1, math.ceil(gib * MEGABITS / rate - _TOLERANCE))


# Routing of a copy: minimum-cost flow under link budgets, decomposed into paths.
#
# A copy is a flow from all regions with a replica to the target region. Integer budgets admit
# integer flows of minimum cost (solver/network_flow.py).


_COST_SCALE = 2**20
"""Costs of one GiB are rounded to this fraction."""


@dataclass(frozen=True, slots=True)
class PathFlow:
    """The GiB of a copy that take one path of regions."""

    path: tuple[int, ...]
    gib: int


@dataclass(slots=True, eq=False)
class ResidualNetwork:
    """What routed copies leave of the WAN."""

    residual: Ints  # (regions, regions): GiB left of the budget of each link
    bandwidth: Ints  # (regions, regions): Mbit/s
    # (regions, regions): cost of one GiB over a link, at least 1. Links that are neither slow nor
    # congested cost at most 2, so no relayed path is cheaper.
    cost: Floats
    # (regions, regions): seconds that a link needs for the copies routed over it.
    backlog_s: Floats

    def can_carry(self, flows: Sequence[PathFlow], source_cost: Floats) -> bool:
        """Whether the flows of a copy have their sources and enough budget."""
        needed: Counter[tuple[int, int]] = Counter()
        for flow in flows:
            needed.update(dict.fromkeys(pairwise(flow.path), flow.gib))
        sources = [flow.path[0] for flow in flows]
        sufficient = all(self.residual[link] >= gib for link, gib in needed.items())
        return sufficient and bool(np.isfinite(source_cost[sources]).all())

    def reserve(self, flows: Sequence[PathFlow], sign: int = 1) -> None:
        """Subtract the flows of a copy from budgets; `sign` -1 gives them back."""
        for flow in flows:
            for link in pairwise(flow.path):
                self.residual[link] -= sign * flow.gib
                self.backlog_s[link] += sign * flow.gib * MEGABITS / self.bandwidth[link]


def route_copy(
    network: ResidualNetwork,
    gib: int,
    source_cost: Floats,
    target: int,
    allowed_links: Bools,
    *,
    allow_relays: bool = True,
) -> tuple[PathFlow, ...] | None:
    """Return the path flows of a copy at minimum cost, or None if budgets do not suffice.

    `network`: residual network. `gib`: size of the copy. `source_cost` (regions,): cost of reading
    the dataset in a region, below 1; infinite without a replica. `target`: the region that receives
    the copy. `allowed_links` (regions, regions): links that may carry it. `allow_relays`: whether
    it may pass through other regions.
    """
    residual = np.where(allowed_links, network.residual, 0)
    has_replica = np.isfinite(source_cost)
    if residual[:, target].sum() < gib or residual[has_replica].sum() < gib:
        return None
    direct = np.flatnonzero(has_replica & (residual[:, target] > 0))
    sufficient = residual[direct, target].sum() >= gib
    if sufficient and (
        not allow_relays or _direct_is_cheapest(residual, network.cost, has_replica, target, direct)
    ):
        return _split_over_sources(network, gib, source_cost, target, direct)
    return (
        _min_cost_flow(residual, network.cost, gib, source_cost, target) if allow_relays else None
    )


def _direct_is_cheapest(
    residual: Ints, cost: Floats, has_replica: Bools, target: int, sources: Ints
) -> bool:
    """Whether direct links cost about the same and no path over one relay costs less."""
    most, least = float(cost[sources, target].max()), float(cost[sources, target].min())
    if most <= 2:
        return True
    first_leg = np.where(residual[has_replica] > 0, cost[has_replica], np.inf).min(
        axis=0, initial=np.inf
    )
    first_leg[has_replica] = np.inf  # what is there comes from there
    relay_cost = float(
        (first_leg + np.where(residual[:, target] > 0, cost[:, target], np.inf)).min()
    )
    return most <= relay_cost and most - least < parameters.PARAMETERS.egress_cost_range


def _split_over_sources(
    network: ResidualNetwork, gib: int, source_cost: Floats, target: int, sources: Ints
) -> tuple[PathFlow, ...]:
    """Return flows over direct links that finish at the same time, from the cheapest sources first.

    More expensive sources are used only if the cheaper ones lack budget.
    """
    flows: list[PathFlow] = []
    for cost in np.unique(source_cost[sources]):
        equal_sources = sources[source_cost[sources] == cost]
        capacity = network.residual[equal_sources, target]
        for source, amount in zip(
            equal_sources,
            _balanced_split(network, min(gib, int(capacity.sum())), equal_sources, target),
            strict=True,
        ):
            if amount:
                flows.append(PathFlow((int(source), target), int(amount)))
        gib -= min(gib, int(capacity.sum()))
        if not gib:
            break
    return tuple(flows)


def _balanced_split(network: ResidualNetwork, gib: int, sources: Ints, target: int) -> Ints:
    """Return the GiB from each source such that all finish at about the same time (sources,)."""
    capacity = network.residual[sources, target]
    if len(sources) == 1:
        return np.array([gib], dtype=np.int64)
    rate = network.bandwidth[sources, target] / MEGABITS
    backlog_s = network.backlog_s[sources, target]
    low, high = float(backlog_s.min()), float(backlog_s.max() + gib / rate.min())
    for _ in range(60):
        middle = (low + high) / 2
        sufficient = np.minimum(np.maximum(middle - backlog_s, 0) * rate, capacity).sum() >= gib
        low, high = (low, middle) if sufficient else (middle, high)
    shares: Ints = np.minimum(
        np.floor(np.maximum(high - backlog_s, 0) * rate).astype(np.int64), capacity
    )
    for i in np.argsort(-rate, kind="stable"):
        rest = gib - int(shares.sum())
        shares[i] += min(max(rest, -int(shares[i])), int(capacity[i] - shares[i]))
    return shares


def _min_cost_flow(
    residual: Ints, cost: Floats, gib: int, source_cost: Floats, target: int
) -> tuple[PathFlow, ...] | None:
    """Return the minimum-cost flow of a copy as paths, or None if there is none."""
    root = len(source_cost)
    has_replica = np.isfinite(source_cost)
    usable = residual > 0
    # A region that holds a replica receives none of it from other regions.
    usable[:, has_replica] = False
    usable[target] = False
    tail, head = usable.nonzero()
    sources = np.flatnonzero(has_replica)
    scarcity = parameters.PARAMETERS.scarcity_cost * np.minimum(1.0, gib / residual[tail, head])
    arc_cost = np.rint(_COST_SCALE * np.append(cost[tail, head] + scarcity, source_cost[sources]))
    tails = np.append(tail, np.full(len(sources), root))
    heads = np.append(head, sources)
    capacity = np.append(np.minimum(residual[tail, head], gib), np.full(len(sources), gib))
    supply = np.zeros(root + 1, dtype=np.int64)
    supply[root], supply[target] = gib, -gib
    arcs = min_cost_flow(tails, heads, capacity, arc_cost.astype(np.int64), supply)
    if arcs is None:
        return None
    flow = np.zeros((root + 1, root + 1), dtype=np.int64)
    flow[tails, heads] = arcs
    return _paths(flow, target)


def _paths(flow: Ints, target: int) -> tuple[PathFlow, ...]:
    """Return a flow decomposed into paths to its target, sorted by source."""
    root, flows = len(flow) - 1, []
    while flow[root].any():
        path = [root]
        while path[-1] != target:
            path.append(int(np.flatnonzero(flow[path[-1]])[0]))
        links = list(pairwise(path))
        gib = min(int(flow[link]) for link in links)
        for link in links:
            flow[link] -= gib
        flows.append(PathFlow(tuple(path[1:]), gib))
    return tuple(flows)


# Timetable of routed copies: list scheduling under link rates, storage and precedence.
#
# A copy starts once its source replicas are complete and its region has storage for all of it; a
# replica is dropped once nothing reads it any more and another one is complete. Copies and drops
# wait for each other, so the list is scanned until nothing more can start (Graham 1966). What is
# left is in a deadlock, a cycle of regions without free storage, and one of its copies is
# refused.


Replica = tuple[int, int]
"""(dataset, region)."""


@dataclass(slots=True, eq=False)
class Timetable:
    """A schedule of copies under construction."""

    wan: Wan
    end: int  # End of the window
    # Links that are busy nearly all the time. Copies over them are scheduled first, at a constant
    # rate over the whole window: bursts would leave seconds in which one link of a path waits for
    # another.
    saturated: frozenset[Replica]
    # The path flows of each copy without times, most urgent first.
    routed: dict[Replica, tuple[PathFlow, ...]]
    to_drop: dict[int, list[int]]  # Per dataset the regions whose replicas are to be dropped
    # Per dataset the regions with a replica, and the time from which it can be read.
    complete: dict[int, dict[int, int]]
    # links, storage: Residual rate of each link in Mbit/s, and free
    # storage of each region in GiB.
    links: dict[Replica, StepFunction]
    storage: list[StepFunction]
    # (regions,): GiB free with all copies and no drops; negative if storage does not suffice.
    margin: Ints
    num_readers: Counter[Replica]  # Number of path flows without times that read each replica
    # When the last flow from a replica ends.
    read_until: dict[Replica, int] = field(default_factory=dict)
    # ready, flows, dropped, refused: The result: completion times of copies, their flows, times of
    # drops, and refused copies.
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
