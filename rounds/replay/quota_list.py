"""Lists of tenants with quotas: guaranteed jobs preempt opportunistic ones."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from placewright.formulations.cells.virtual_clusters import Allocator, Grant
from placewright.instances.traces.trace import NEVER, Trace
from placewright.rounds.policies.lists import FIT_FIRST
from placewright.rounds.policies.quotas import QuotaPolicy
from placewright.rounds.replay.ledger import Place
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.replay.quotas import Quota, cells_by_tenant, chain_of, level_of
from placewright.rounds.replay.waiting_list import SkippingList
from placewright.topology.chain import Cell, claims_fit


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
