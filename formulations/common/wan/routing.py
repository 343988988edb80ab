"""Transfer scheduler: which copies can be made within the window, over which paths, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.common.wan import parameters
from placewright.formulations.common.wan.arrays import UNLIMITED, Wan
from placewright.formulations.common.wan.timetable import (
    PathFlow,
    Replica,
    ResidualNetwork,
    Timetable,
    free_storage,
    open_timetable,
    route_copy,
    saturated_links,
    schedule_all,
    storage_margin,
)
from placewright.formulations.plan_messages import Flow

# Routing of copies: over which paths, within the budgets of links and the storage of regions.
#
# Copies are routed one at a time, most urgent first, each as a minimum-cost flow in the residual
# network. Links that blocked a copy cost more in the next attempt, and the blocked copy is routed
# earlier: negotiated congestion (McMurchie and Ebeling, "PathFinder", FPGA'95).


_KEEP, _DIRECT, _RELAYED = range(3)
"""How copies are routed: as before, from where the data is, or over other regions too."""

Routes: TypeAlias = dict[Replica, tuple[PathFlow, ...]]
"""The path flows of each copy."""


def routings(
    wan: Wan,
    creates: Sequence[Replica],
    drops: Sequence[Replica],
    known: Routes,
    out_of_time: Callable[[], bool],
) -> Iterator[Routes]:
    """Yield routings of as many copies as budgets and storage allow, until one has all of them.

    With known paths there is one attempt, beside these. Otherwise slow links cost more in the first
    attempt; from then on relays are used only where direct links lack budget. The order is that of
    `creates`, then by decreasing size, then with the copies first that were blocked. Every other
    attempt routes relayed copies last, since they use budgets twice. Links without residual budget
    cost more in each attempt.
    """
    tuning = parameters.PARAMETERS
    wanted = set(creates)
    kept = {copy: parts for copy, parts in known.items() if copy in wanted}
    order = [*kept, *(copy for copy in creates if copy not in kept)]
    routed, _ = _route(wan, order, drops, _slowness_cost(wan), kept, out_of_time, relays_last=False)
    yield routed
    if kept or len(routed) == len(creates) or out_of_time():
        return
    congestion_cost = np.zeros(wan.budget.shape)
    large = sorted(creates, key=lambda copy: -int(wan.size[copy[0]]))
    least, order = UNLIMITED, list(creates)
    for attempt in range(tuning.num_congestion_attempts):
        tried = (list(creates), large, order)[min(attempt // 2, 2)]
        routed, residual = _route(
            wan, tried, drops, congestion_cost, {}, out_of_time, relays_last=attempt % 2 == 1
        )
        yield routed
        blocked = [copy for copy in tried if copy not in routed]
        if not blocked or out_of_time():
            return
        congestion_cost += tuning.congestion_cost * ((residual == 0) & (wan.budget > 0))
        if total_gib(wan, blocked) < least:
            least = total_gib(wan, blocked)
            order = blocked + [copy for copy in tried if copy in routed]


def _slowness_cost(wan: Wan) -> Floats:
    """Return the extra cost of links slower than the median (regions, regions)."""
    usual = float(np.median(wan.bandwidth[wan.bandwidth > 0])) if wan.bandwidth.any() else 1.0
    slowness: Floats = (
        np.clip(usual / np.maximum(wan.bandwidth, 1), 1.0, parameters.PARAMETERS.max_slowness_cost)
        - 1.0
    )
    return slowness


def _route(
    wan: Wan,
    order: Sequence[Replica],
    drops: Sequence[Replica],
    congestion_cost: Floats,
    known: Routes,
    out_of_time: Callable[[], bool],
    *,
    relays_last: bool,
) -> tuple[Routes, np.ndarray]:
    """Return the path flows of the copies that budgets and storage allow, and the residual budgets.

    Known paths are kept and come first.
    """
    scale = 1.0 + float(wan.egress.max(initial=0))
    network = ResidualNetwork(
        residual=wan.budget.copy(),
        bandwidth=wan.bandwidth,
        cost=1.0 + wan.egress / scale / 2 + congestion_cost,
        backlog_s=np.zeros(wan.budget.shape),
    )
    storage = _FreeStorage(wan, order, drops)
    routed: Routes = {}
    source_costs: dict[int, Floats] = {}
    stages = (_KEEP,) * bool(known) + ((_DIRECT, _RELAYED) if relays_last else (_RELAYED,))
    for stage in stages:
        blocked: dict[Replica, int] = {}  # number of sources when it was blocked
        progress = True
        while progress:
            progress = False
            for copy in order:
                dataset, region = copy
                size = int(wan.size[dataset])
                if copy in routed or size > storage.residual[region]:
                    continue
                if dataset not in source_costs:
                    source_costs[dataset] = _source_cost(wan, dataset, drops)
                sources = int(np.isfinite(source_costs[dataset]).sum())
                if blocked.get(copy) == sources:
                    continue
                if stage == _KEEP:
                    parts = known.get(copy)
                    parts = (
                        parts if parts and network.can_carry(parts, source_costs[dataset]) else None
                    )
                elif out_of_time():
                    break
                else:
                    allowed_links, allow_relays = wan.links_of(dataset), stage == _RELAYED
                    parts = route_copy(
                        network,
                        size,
                        source_costs[dataset],
                        region,
                        allowed_links,
                        allow_relays=allow_relays,
                    )
                if parts is None:
                    blocked[copy] = sources
                    continue
                routed[copy], progress = parts, True
                network.reserve(parts)
                storage.reserve(copy)
                source_costs[dataset][region] = parameters.PARAMETERS.planned_source_cost
    return {copy: routed[copy] for copy in order if copy in routed}, network.residual


class _FreeStorage:
    """Free storage of each region, counting drops that become possible."""

    def __init__(self, wan: Wan, copies: Sequence[Replica], drops: Sequence[Replica]) -> None:
        self.wan = wan
        self._margin = storage_margin(wan, copies)
        self.residual = free_storage(wan)
        self.to_drop: dict[int, list[int]] = {}
        for dataset, region in drops:
            self.to_drop.setdefault(dataset, []).append(region)
        for dataset in self.to_drop:
            self._release(dataset, int(complete_in(wan, dataset).sum()) - 1)

    def reserve(self, copy: Replica) -> None:
        """Reserve storage for a copy; a replica that it replaces can be dropped."""
        dataset, region = copy
        self.residual[region] -= self.wan.size[dataset]
        self._release(dataset, 1)

    def _release(self, dataset: int, most: int) -> None:
        """Drop up to `most` of a dataset's replicas, first where storage is short."""
        to_drop = self.to_drop.get(dataset, [])
        to_drop.sort(key=lambda r: -int(self._margin[r]))
        for _ in range(min(most, len(to_drop))):
            self.residual[to_drop.pop()] += self.wan.size[dataset]


def _source_cost(wan: Wan, dataset: int, drops: Sequence[Replica]) -> Floats:
    """Return the cost of reading a dataset in each region, infinite without one (regions,)."""
    tuning = parameters.PARAMETERS
    entry = np.where(complete_in(wan, dataset), 0.0, np.inf)
    entry[~wan.holds[dataset] & (wan.ready[dataset] > wan.round.now)] += tuning.planned_source_cost
    for other, region in drops:
        if other == dataset:
            entry[region] += tuning.dropped_source_cost
    return entry


def complete_in(wan: Wan, dataset: int, by: int | None = None) -> Bools:
    """Return where a dataset is complete by a time, by default the window's end (regions,)."""
    by = wan.round.now + wan.round.geo.window_s - 1 if by is None else by
    found: Bools = wan.holds[dataset] | (wan.arriving[dataset] & (wan.ready[dataset] <= by))
    return found


def total_gib(wan: Wan, copies: Iterable[Replica]) -> int:
    """Return the total size of copies."""
    return sum(int(wan.size[dataset]) for dataset, _ in copies)


@dataclass(frozen=True, slots=True)
class Transfers:
    """Scheduled copies and drops, and the flows in order of their start.

    `creates` are (dataset, region, time of completion), `drops` (dataset, region, time). `refused`
    copies cannot be made beside the others. A requested drop that is not listed would have removed
    the last replica.
    """

    creates: tuple[tuple[int, int, int], ...] = ()
    drops: tuple[tuple[int, int, int], ...] = ()
    flows: tuple[Flow, ...] = ()
    refused: tuple[Replica, ...] = ()


def never_out_of_time() -> bool:
    """Return False: no time limit."""
    return False


def schedule(
    wan: Wan,
    creates: Sequence[Replica],
    drops: Sequence[Replica],
    known: Sequence[Flow] = (),
    out_of_time: Callable[[], bool] = never_out_of_time,
) -> Transfers:
    """Return the schedule that refuses the fewest GiB of copies, of all routings that are tried.

    `wan`: the regions and their replicas. `creates`: (dataset, region) of each new replica, most
    urgent first. `drops`: (dataset, region) of each replica to delete. `known`: flows of copies
    that can be made together. Those that are among `creates` keep their paths, and the others use
    what is left. `out_of_time`: whether the time limit has passed: copies without a path are
    refused then.

    Raises
    ------
    ValueError
        If a replica is created where one exists or may not be, or dropped where none is complete,
        or named twice.
    """
    _validate(wan, creates, drops)
    best, refused_gib = Transfers(), UNLIMITED
    for routed in routings(wan, creates, drops, _routes_of(known), out_of_time):
        if total_gib(wan, (copy for copy in creates if copy not in routed)) >= refused_gib:
            continue
        saturated = saturated_links(wan, routed)
        for constant_rate_links in (frozenset[Replica](), saturated) if saturated else (saturated,):
            table = open_timetable(wan, routed, drops, constant_rate_links)
            schedule_all(table)
            refused = total_gib(wan, (copy for copy in creates if copy not in table.ready))
            if refused < refused_gib:
                best, refused_gib = _transfers(table, creates), refused
            if len(table.ready) == len(routed):
                break
        if not refused_gib:
            break
    return best


def _routes_of(known: Sequence[Flow]) -> Routes:
    """Return the path flows of copies, in the order in which flows start."""
    gib: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for flow in known:
        gib[flow.dataset, flow.path] += flow.gib
    found: Routes = {}
    for (dataset, path), amount in gib.items():
        copy = dataset, path[-1]
        found[copy] = (*found.get(copy, ()), PathFlow(path, amount))
    return found


def _validate(wan: Wan, creates: Sequence[Replica], drops: Sequence[Replica]) -> None:
    """Raise ValueError if copies or drops contradict the replicas that exist."""
    if len(set(creates)) < len(creates) or len(set(drops)) < len(drops):
        raise ValueError("a replica is named twice")
    for replica in creates:
        if wan.holds[replica] or wan.arriving[replica] or not wan.may_hold[replica]:
            raise ValueError(f"a replica {replica} cannot come: one is there, or may not be")
    for replica in drops:
        if not complete_in(wan, replica[0], wan.round.now)[replica[1]]:
            raise ValueError(f"a replica {replica} cannot go: none is complete there")


def _transfers(table: Timetable, creates: Sequence[Replica]) -> Transfers:
    """Return the transfers of a timetable."""
    kept = [copy for copy in creates if copy in table.ready]
    return Transfers(
        creates=tuple((*copy, table.ready[copy]) for copy in kept),
        drops=tuple((*replica, at) for replica, at in table.dropped.items()),
        flows=tuple(
            sorted(table.flows, key=lambda flow: (flow.start, flow.end, flow.dataset, flow.path))
        ),
        refused=tuple(copy for copy in creates if copy not in table.ready),
    )
