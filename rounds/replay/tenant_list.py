"""Lists by tenant: whose turn it is depends on what tenants hold and have had."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from placewright.array_types import Floats
from placewright.instances.traces.trace import Trace
from placewright.rounds.policies.tenants import TenantPolicy
from placewright.rounds.replay.loop import Decider, Loop


class TenantList(Decider):
    """A list of waiting jobs per tenant; who runs stays until its end.

    Parameters
    ----------
    policy
        Whose turn it is.
    trace
        The trace that is played.
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
