"""Lists by what policies look at: tenants and their quotas, CPU and memory."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.cells.virtual_clusters import Allocator, Grant
from placewright.instances.errors import InvalidInputError
from placewright.instances.speed_models.synergy import CORES
from placewright.instances.traces.papers import FAIR, POINTS, SPEEDS
from placewright.instances.traces.trace import FULL_SPEED, NEVER, Trace
from placewright.rounds.policies.named import FIT_FIRST, QuotaPolicy, TenantPolicy, TunedPolicy
from placewright.rounds.replay.book import Place, Placer, Places
from placewright.rounds.replay.list_decider import PreemptiveList, SkippingList, counted
from placewright.rounds.replay.loop import Decider, Loop
from placewright.topology.chain import Cell, Chain, claims_fit


class Quota(NamedTuple):
    """A tenant owns so many cells, of so many GPUs each."""

    tenant: str
    cells: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.tenant}={self.cells}x{self.gpus}"


def chain_of(size: int) -> Chain:
    """Return the cells of a host: 1, 2, 4 ... GPUs up to the whole of it."""
    return Chain((2,) * (size.bit_length() - 1))


def level_of(gpus: int) -> int:
    """Return the level of the smallest cell of a host that has so many GPUs."""
    return (gpus - 1).bit_length()


def cells_by_tenant(quotas: Sequence[Quota], size: int) -> dict[str, list[int]]:
    """Return the cells of each level that tenants own."""
    owned: dict[str, list[int]] = {}
    for quota in quotas:
        cells = owned.setdefault(quota.tenant, [0] * chain_of(size).levels)
        cells[level_of(quota.gpus)] += quota.cells
    return owned


def check_quotas(
    quotas: Sequence[Quota],
    tenants: Sequence[str],
    sizes: Sequence[int],
    placer: Placer,
) -> None:
    """Check quotas against hosts and the tenants of a trace.

    Raises InvalidInputError if there are none, a tenant has no jobs, hosts are not of one size that
    is a power of two, cells are none of theirs or too many, or hosts are not told apart.
    """
    if placer == "counting":
        raise InvalidInputError(
            "expected first-fit or best-fit where tenants have quotas",
            path=("placer",),
            value=placer,
        )
    size = sizes[0]
    if set(sizes) != {size} or size & (size - 1):
        raise InvalidInputError(
            "expected hosts of equal size, a power of two, where there are quotas",
            path=("hosts",),
            value=sorted(set(sizes)),
        )
    if not quotas:
        raise InvalidInputError("expected a quota of some tenant", path=("quotas",), value="none")
    for quota in quotas:
        if quota.tenant not in tenants:
            raise InvalidInputError(
                "expected a tenant of the trace", path=("quotas",), value=quota.tenant
            )
        if quota.gpus > size or quota.gpus & (quota.gpus - 1):
            raise InvalidInputError(
                f"expected cells of a power of two of GPUs, at most {size}",
                path=("quotas",),
                value=str(quota),
            )
    owned = sum(quota.cells * quota.gpus for quota in quotas)
    if owned > sum(sizes):
        raise InvalidInputError(
            f"expected quotas of at most {sum(sizes)} GPUs in all", path=("quotas",), value=owned
        )


class TenantList(Decider):
    """A list of waiting jobs per tenant; who runs stays until its end.

    `policy`: whose turn it is. `trace`: the trace that is played.
    """

    def __init__(self, policy: TenantPolicy, trace: Trace) -> None:
        super().__init__()
        self._policy = policy
        self._asked: dict[str, Any] = {"gpus": trace.gpus}
        self._asked |= {name: trace.extra[name] for name in policy.resources}
        self._tenant: list[int] = trace.tenant.tolist()
        tenants = len(trace.tenants)
        self._held = {name: np.zeros(tenants, rows.dtype) for name, rows in self._asked.items()}
        self._counters = np.zeros(tenants)
        self._counted_us = 0
        self._running: set[int] = set()
        self._waiting: dict[int, deque[int]] = {}
        self._last_served = 0

    def state(self) -> Any:
        """Return counters, what is held, who runs, and who waits."""
        waiting = [[tenant, list(jobs)] for tenant, jobs in self._waiting.items()]
        counters = [self._counters.tolist(), self._counted_us, self._last_served]
        held = {name: rows.tolist() for name, rows in self._held.items()}
        return [counters, held, sorted(self._running), waiting]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        (counters, self._counted_us, self._last_served), held, running, waiting = state
        self._counters = np.array(counters, dtype=np.float64)
        for name, rows in self._held.items():
            rows[:] = held[name]
        self._running = set(running)
        self._waiting = {tenant: deque(jobs) for tenant, jobs in waiting}

    def arrive(self, loop: Loop, job: int) -> None:
        """Append a job to the list of its tenant; one that a failure has stopped is put in front.

        A tenant that had none waiting has its counter lifted, where the policy says so.
        """
        self._count(loop)
        tenant, failed = self._tenant[job], job in self._running
        if failed:
            self._release(job)
        if tenant not in self._waiting:
            if self._policy.lifts:
                self._lift(tenant)
            self._waiting[tenant] = deque()
        jobs = self._waiting[tenant]
        jobs.append(job)
        if failed:
            self._waiting[tenant] = deque(sorted(jobs))

    def leave(self, loop: Loop, job: int) -> None:
        """Take note of a job that has ended."""
        self._count(loop)
        self._release(job)

    def decide(self, loop: Loop) -> None:
        """Start jobs, one by one, of the tenant whose turn it is, until one does not fit."""
        self._count(loop)
        while self._waiting and loop.ledger.free_total:
            tenant = self._next_tenant()
            job = self._waiting[tenant][0]
            place = loop.ledger.find(loop.gpus[job])
            if place is None:
                return
            loop.start(job, place)
            self._hold(job)
            self._waiting[tenant].popleft()
            if not self._waiting[tenant]:
                del self._waiting[tenant]
                self._last_served = tenant

    def between(self, loop: Loop) -> None:
        """Start who fits, as at any other time: no decision stops a job."""
        self.decide(loop)

    def _next_tenant(self) -> int:
        tenants = np.fromiter(self._waiting, dtype=np.int64, count=len(self._waiting))
        firsts = np.array([jobs[0] for jobs in self._waiting.values()])
        held = {name: rows[tenants] for name, rows in self._held.items()}
        keys = self._policy.keys(held, self._counters[tenants])
        return int(tenants[np.lexsort((firsts, keys))[0]])

    def _lift(self, tenant: int) -> None:
        others: Floats = self._counters[list(self._waiting) or [self._last_served]]
        self._counters[tenant] = max(self._counters[tenant], others.min())

    def _count(self, loop: Loop) -> None:
        """Add to the counters what tenants have held since they were added to last."""
        if loop.now > self._counted_us:
            self._counters += self._held["gpus"] * float(loop.now - self._counted_us)
            self._counted_us = loop.now

    def _hold(self, job: int) -> None:
        self._running.add(job)
        for name, rows in self._asked.items():
            self._held[name][self._tenant[job]] += rows[job]

    def _release(self, job: int) -> None:
        self._running.remove(job)
        for name, rows in self._asked.items():
            self._held[name][self._tenant[job]] -= rows[job]


def quota_list(
    policy: QuotaPolicy, trace: Trace, sizes: Sequence[int], quotas: Sequence[Quota]
) -> Decider:
    """Return the decider of a quota policy."""
    if policy.guarantee == "cells":
        return CellList(trace, sizes, quotas)
    return GpuQuotaList(trace, quotas)


class _QuotaList(Decider):
    """Guaranteed jobs that wait, by tenant, and a list of opportunistic ones."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._tenant = [trace.tenants[number] for number in trace.tenant.tolist()]
        self._waiting: dict[str, deque[int]] = {}
        self._opportunistic = SkippingList(FIT_FIRST)

    @abstractmethod
    def _owns(self, tenant: str, gpus: int) -> bool:
        """Say whether a tenant's quota has room for a job when no other is in it."""

    @abstractmethod
    def _admit(self, loop: Loop, job: int) -> Place | None:
        """Return where a guaranteed job starts, its GPUs freed; None if it waits."""

    @abstractmethod
    def _is_guaranteed(self, job: int) -> bool:
        """Say whether a running job is guaranteed."""

    def state(self) -> Any:
        """Return who waits."""
        waiting = [[tenant, list(jobs)] for tenant, jobs in self._waiting.items()]
        return [waiting, self._opportunistic.state()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        waiting, opportunistic = state
        self._waiting = {tenant: deque(jobs) for tenant, jobs in waiting}
        self._opportunistic.restore(opportunistic)

    def arrive(self, loop: Loop, job: int) -> None:
        """Put a job into its list, one that a failure has stopped in the order of arrival."""
        self.leave(loop, job)
        tenant = self._tenant[job]
        if self._owns(tenant, loop.gpus[job]):
            jobs = self._waiting.setdefault(tenant, deque())
            jobs.append(job)
            if loop.first_start[job] != NEVER:
                self._waiting[tenant] = deque(sorted(jobs))
        else:
            self._opportunistic.arrive(loop, job)

    def decide(self, loop: Loop) -> None:
        """Start guaranteed jobs, then opportunistic ones on what is free."""
        firsts = [(jobs[0], tenant) for tenant, jobs in self._waiting.items() if jobs]
        heapify(firsts)
        while firsts:
            job, tenant = heappop(firsts)
            place = self._admit(loop, job)
            if place is not None:
                loop.start(job, place)
                jobs = self._waiting[tenant]
                jobs.popleft()
                if jobs:
                    heappush(firsts, (jobs[0], tenant))
        self._opportunistic.decide(loop)

    def _victims(self, loop: Loop, lacking: int, freed: Callable[[Place], int]) -> list[int]:
        """Return opportunistic jobs that free so many GPUs, the last that started first.

        All of those that free some if they are too few.
        """
        victims = []
        for job, place in reversed(loop.place.items()):
            if lacking <= 0:
                break
            gpus = 0 if self._is_guaranteed(job) else freed(place)
            if gpus:
                victims.append(job)
                lacking -= gpus
        return victims

    def _preempt(self, loop: Loop, victims: list[int]) -> None:
        for job in victims:
            loop.stop(job)
            self._opportunistic.arrive(loop, job)


class CellList(_QuotaList):
    """Guaranteed jobs have cells of their tenants' virtual clusters, as in HiveD.

    A job has the smallest cell of a host that holds it; one that is larger than a host has whole
    hosts, and such a cell for the rest. Virtual cells are bound to hosts on which the fewest
    opportunistic jobs are preempted.
    """

    def __init__(self, trace: Trace, sizes: Sequence[int], quotas: Sequence[Quota]) -> None:
        super().__init__(trace)
        self._size, self._chain = sizes[0], chain_of(sizes[0])
        self._cells = cells_by_tenant(quotas, self._size)
        self._allocator = Allocator(self._chain, len(sizes), self._cells)
        self._grants: dict[int, list[Grant]] = {}
        self._held = [0] * len(sizes)
        self._full: set[str] = set()
        """Tenants whose first job waits until one of their own ends."""
        self._closed: set[int] = set()

    def state(self) -> Any:
        """Return who waits, the cells of guaranteed jobs, and the hosts that are away."""
        return [super().state(), list(self._grants.items()), self._held, sorted(self._closed)]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        waiting, grants, self._held, closed = state
        super().restore(waiting)
        for job, cells in grants:
            self._grants[job] = [
                Grant(tenant, Cell(*virtual), Cell(*physical))
                for tenant, virtual, physical in cells
            ]
            for grant in self._grants[job]:
                self._allocator.claim(grant)
        self._close(set(closed))

    def leave(self, loop: Loop, job: int) -> None:
        """Give the cells of a job back."""
        if job in self._grants:
            self._full.discard(self._tenant[job])
            self._hold(job, loop.gpus[job], -1)
            for grant in self._grants.pop(job):
                self._allocator.give(grant)

    def _hold(self, job: int, gpus: int, sign: int) -> None:
        """Count the GPUs that a guaranteed job has on hosts."""
        for grant, part in zip(self._grants[job], self._parts(gpus), strict=True):
            self._held[self._host(grant.physical)] += sign * part

    def _is_guaranteed(self, job: int) -> bool:
        return job in self._grants

    def _owns(self, tenant: str, gpus: int) -> bool:
        if tenant not in self._cells:
            return False
        claims = [0] * self._chain.levels
        for part in self._parts(gpus):
            claims[level_of(part)] += 1
        return claims_fit(self._chain, claims, self._cells[tenant])

    def _parts(self, gpus: int) -> list[int]:
        whole, rest = divmod(gpus, self._size)
        return [self._size] * whole + ([rest] if rest else [])

    def decide(self, loop: Loop) -> None:
        """Take hosts out of use that are away, and decide as for every quota."""
        if loop.ledger.closed != self._closed:
            self._close(loop.ledger.closed)
        super().decide(loop)

    def _close(self, hosts: set[int]) -> None:
        """Let exactly these hosts be away."""
        top = self._chain.levels - 1
        for host in sorted(self._closed - hosts):
            self._allocator.bring_back(Cell(top, host))
        for host in sorted(hosts - self._closed):
            self._allocator.withdraw(Cell(top, host))
        self._closed = set(hosts)
        self._full.clear()

    def _admit(self, loop: Loop, job: int) -> Place | None:
        def opportunistic_gpus(cell: Cell) -> int:
            host = self._host(cell)
            return self._size - loop.ledger.free[host] - self._held[host]

        tenant, parts, grants = self._tenant[job], self._parts(loop.gpus[job]), list[Grant]()
        if tenant in self._full:
            return None
        for part in parts:
            grant = self._allocator.take(tenant, level_of(part), opportunistic_gpus)
            if grant is None:
                for taken in grants:
                    self._allocator.give(taken)
                self._full.add(tenant)
                return None
            grants.append(grant)
        place = tuple(
            (self._host(grant.physical), part) for grant, part in zip(grants, parts, strict=True)
        )
        for host, gpus in place:
            self._free(loop, host, gpus)
        self._grants[job] = grants
        self._hold(job, loop.gpus[job], 1)
        return place

    def _free(self, loop: Loop, host: int, gpus: int) -> None:
        """Preempt opportunistic jobs of a host until it has so many free GPUs."""
        lacking = gpus - loop.ledger.free[host]
        victims = self._victims(
            loop, lacking, lambda place: sum(number for on, number in place if on == host)
        )
        self._preempt(loop, victims)

    def _host(self, cell: Cell) -> int:
        return cell.number >> (self._chain.levels - 1 - cell.level)


class GpuQuotaList(_QuotaList):
    """Guaranteed jobs count against a number of GPUs, and start where hosts have room.

    Opportunistic jobs are preempted only for GPUs that are lacking in number.
    """

    def __init__(self, trace: Trace, quotas: Sequence[Quota]) -> None:
        super().__init__(trace)
        self._left: dict[str, int] = {}
        for quota in quotas:
            more = quota.cells * quota.gpus
            self._left[quota.tenant] = self._left.get(quota.tenant, 0) + more
        self._quota = dict(self._left)
        self._running: dict[int, None] = {}

    def state(self) -> Any:
        """Return who waits, what is left of quotas, and the guaranteed jobs that run."""
        return [super().state(), self._left, list(self._running)]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        waiting, self._left, running = state
        super().restore(waiting)
        self._running = dict.fromkeys(running)

    def leave(self, loop: Loop, job: int) -> None:
        """Give the GPUs of a guaranteed job back to its quota."""
        if job in self._running:
            del self._running[job]
            self._left[self._tenant[job]] += loop.gpus[job]

    def _is_guaranteed(self, job: int) -> bool:
        return job in self._running

    def _owns(self, tenant: str, gpus: int) -> bool:
        return gpus <= self._quota.get(tenant, 0)

    def _admit(self, loop: Loop, job: int) -> Place | None:
        gpus = loop.gpus[job]
        if gpus > self._left[self._tenant[job]]:
            return None
        ledger = loop.ledger
        victims = self._victims(loop, gpus - ledger.free_total, _size)
        for victim in victims:
            ledger.release(loop.place[victim])
        place = ledger.find(gpus)
        for victim in victims:
            ledger.take(loop.place[victim])
        if place is not None:
            self._preempt(loop, victims)
            self._running[job] = None
            self._left[self._tenant[job]] -= gpus
        return place


def _size(place: Place) -> int:
    return sum(number for _, number in place)


Point = tuple[int, int, int]
"""Cores and MiB per GPU, and the speed that they give."""

_CORES, _MIB = POINTS[FAIR[0] * (len(POINTS) // len(CORES)) + FAIR[1]]


class TunedList(PreemptiveList):
    """A preemptive list that sets how much CPU and memory each running job has.

    Hosts have the proportional share for each of their GPUs. Everybody who runs first gets the
    smallest share that is no slower than the proportional one; then, in the order of the list, the
    fastest for which there is room on its hosts. Shares change at decisions, at no cost.

    GPUs are counted in the order of the list, and the largest jobs are placed first. With places
    that are free a job goes to the host, of those with room for its fastest share beside those of
    the jobs there, that has the fewest free GPUs; else to the one that lacks the fewest cores. With
    places that are kept free GPUs count more: the fewest, and of equals the most cores left.
    """

    def __init__(self, policy: TunedPolicy, trace: Trace, places: Places) -> None:
        super().__init__(policy.order, len(trace), places)
        known: dict[bytes, tuple[Point, ...]] = {}
        self._points = [
            known.setdefault(row.tobytes(), points_of(row, steps=policy.steps))
            for row in trace.extra[SPEEDS]
        ]

    def decide(self, loop: Loop) -> None:
        """Sort the list, walk it, start and stop jobs, and set their shares."""
        self._update(loop)
        if not len(self._list):
            return
        places = self._placed(loop)
        loop.replace_all(places)
        self._tune(loop, [job for job in self._list.tolist() if job in places])
        self._sort_after(loop)

    def _placed(self, loop: Loop) -> dict[int, Place]:
        """Return who runs where, and take their GPUs."""
        ledger, gpus = loop.ledger, loop.gpus
        chosen = self._list[
            counted(loop.trace.gpus[self._list], ledger.open_total, skips=self._policy.skips)
        ]
        ledger.clear()
        places: dict[int, Place] = {}
        wanted = _free(ledger.sizes)

        def put(job: int, place: Place) -> None:
            ledger.take(place)
            _take(wanted, place, self._points[job][0])
            places[job] = place

        if self._places == "kept":
            for job in chosen[loop.running[chosen] != 0].tolist():
                put(job, loop.place[job])
        for job in sorted(chosen.tolist(), key=gpus.__getitem__, reverse=True):
            place = None if job in places else self._place(loop, job, wanted)
            if place is not None:
                put(job, place)
        return places

    def _place(self, loop: Loop, job: int, wanted: list[list[int]]) -> Place | None:
        free, gpus = loop.ledger.free, loop.gpus[job]
        hosts = [host for host, there in enumerate(free) if there >= gpus]
        if not hosts:
            return loop.ledger.find(gpus)
        if self._places == "kept":
            host = min(hosts, key=lambda host: (free[host], -wanted[host][0]))
            return ((host, gpus),)
        fits = [host for host in hosts if _fits(wanted, ((host, gpus),), self._points[job][0])]
        if fits:
            return ((min(fits, key=free.__getitem__), gpus),)
        return ((max(hosts, key=lambda host: wanted[host][0]), gpus),)

    def _tune(self, loop: Loop, jobs: Sequence[int]) -> None:
        free = _free(loop.ledger.sizes)
        for job in jobs:
            _take(free, loop.place[job], self._points[job][-1])
        for job in jobs:
            place = loop.place[job]
            _take(free, place, self._points[job][-1], -1)
            point = next(point for point in self._points[job] if _fits(free, place, point))
            _take(free, place, point)
            loop.set_speed(job, point[2])


def points_of(speeds: Ints, *, steps: bool = True) -> tuple[Point, ...]:
    """Return the shares of a job that are no slower than the proportional one, the fastest first.

    The last is the one with the fewest cores that is no more than the proportional share; of
    others, those are left out that ask no less of anything than one that is as fast. Without
    `steps` only the first and the last are there.
    """
    every = zip(POINTS, speeds.tolist(), strict=True)
    points = [(c, m, s) for (c, m), s in every if s >= FULL_SPEED]
    least = min(point for point in points if point[0] <= _CORES and point[1] <= _MIB)
    kept = [
        (c, m, s)
        for c, m, s in points
        if s > least[2] and not any(p != (c, m, s) and _no_worse(p, (c, m, s)) for p in points)
    ]
    kept.sort(key=lambda point: (-point[2], point[0], point[1]))
    return (*(kept if steps else kept[:1]), least)


def _no_worse(one: Point, other: Point) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one[2] >= other[2]


def _free(sizes: Sequence[int]) -> list[list[int]]:
    return [[_CORES * size, _MIB * size] for size in sizes]


def _take(free: list[list[int]], place: Place, point: Point, times: int = 1) -> None:
    for host, gpus in place:
        free[host][0] -= times * gpus * point[0]
        free[host][1] -= times * gpus * point[1]


def _fits(free: list[list[int]], place: Place, point: Point) -> bool:
    return all(
        free[host][0] >= gpus * point[0] and free[host][1] >= gpus * point[1]
        for host, gpus in place
    )
