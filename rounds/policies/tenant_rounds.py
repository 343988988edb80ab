"""Tenants take precedence in rounds by what they have had: counters, deficits, a lottery.

In each round the tenants that have jobs are put in an order. A job is worth its GPUs, and those of
the first tenants come first whatever the others are worth: a round gives GPUs to the first tenant,
what it leaves to the second, and so on; from the fourth on tenants are alike. A job is preempted
only for one of a tenant that comes before.

Source: Sheng et al., "Fairness in serving large language models", OSDI 2024 (virtual token
counters; here GPU time). Ghodsi et al., "Dominant resource fairness", NSDI 2011, of GPUs alone,
over time: deficits as in deficit round robin (Shreedhar and Varghese, SIGCOMM 1995). Kunjir et al.,
"ROBUS: fair cache allocation for data-parallel workloads", SIGMOD 2017, section 4 (the lottery).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.rounds.policies.base import Columns, RoundPolicy, Weights, gpu_time
from placewright.rounds.policies.time_fractions import (
    Demand,
    max_min_agnostic,
    proportionally_fair_lottery,
)

CLASSES = 4
"""Classes of precedence, each decided after those before it; further tenants are in the last."""

Rule: TypeAlias = Callable[["TenantTurns", Ints, Floats], None]
"""Updates the credits of the tenants that have jobs, given what each had since the last round."""


class TenantTurns:
    """What tenants have had, and whose turn it is.

    `rule`: how credits follow; the tenant with the most comes first. `gpus`: of the cluster.
    """

    def __init__(self, rule: Rule, gpus: int) -> None:
        self._rule, self.gpus = rule, gpus
        self.credit: dict[int, float] = {}
        self.active: list[int] = []
        """Tenants that had jobs in the last round."""
        self.asks: Ints = np.zeros(0, dtype=np.int64)
        """GPUs that the jobs of each tenant ask together."""
        self._had: dict[int, float] = {}
        self._service: dict[int, float] = {}

    def end(self, job: Columns) -> None:
        """Count what a job has had since the last round."""
        self._count(job)
        self._service.pop(int(job.numbers[0]), None)

    def _count(self, jobs: Columns) -> None:
        served = gpu_time(jobs.service_us, jobs.gpus).tolist()
        for job, tenant, now in zip(
            jobs.numbers.tolist(), jobs.tenant.tolist(), served, strict=True
        ):
            had = now - self._service.get(job, 0.0)
            self._had[tenant] = self._had.get(tenant, 0.0) + had
            self._service[job] = now

    def weigh(self, jobs: Columns) -> Weights:
        """Return the weights of the jobs alive."""
        self._count(jobs)
        tenants, number = np.unique(jobs.tenant, return_inverse=True)
        self.asks = np.bincount(number, weights=jobs.gpus).astype(np.int64)
        for tenant in tenants.tolist():
            self.credit.setdefault(tenant, 0.0)
        had = np.array([self._had.pop(tenant, 0.0) for tenant in tenants.tolist()])
        self._rule(self, tenants, had)
        self.active = tenants.tolist()
        order = np.argsort([-self.credit[tenant] for tenant in self.active], kind="stable")
        turn = np.empty(len(order), dtype=np.int64)
        turn[order] = np.arange(len(order))
        rank = np.minimum(turn, CLASSES - 1)[number]
        return Weights(value=jobs.gpus.astype(np.float64), rank=rank)

    def state(self) -> Any:
        """Return credits, tenants of the last round, and what jobs have had."""
        return [list(one.items()) for one in (self.credit, self._had, self._service)], self.active

    def restore(self, state: Any) -> None:
        """Take a state over."""
        tables, self.active = state
        self.credit, self._had, self._service = (dict(one) for one in tables)


def counters(turns: TenantTurns, tenants: Ints, had: Floats) -> None:
    """Virtual token counters: less credit for what was had; who comes back has no more than others.

    The credit of a tenant that had no job is lowered to the most of those that had.
    """
    for tenant, time in zip(tenants.tolist(), had.tolist(), strict=True):
        turns.credit[tenant] -= time
    came = [tenant for tenant in tenants.tolist() if tenant not in turns.active]
    stayed = [turns.credit[tenant] for tenant in tenants.tolist() if tenant in turns.active]
    for tenant in came if stayed else ():
        turns.credit[tenant] = min(turns.credit[tenant], max(stayed))


def deficits(turns: TenantTurns, tenants: Ints, had: Floats) -> None:
    """Deficits: credit for the max-min fair part of what all had, less what one had itself.

    Nobody's part is larger than what its jobs ask. Who has no jobs gathers no credit.
    """
    gpus = np.array([turns.gpus])
    fair = max_min_agnostic(Demand(np.ones((len(tenants), 1)), turns.asks, gpus))[:, 0]
    part = fair * turns.asks
    due = part / part.sum() * had.sum()
    for tenant, credit in zip(tenants.tolist(), (due - had).tolist(), strict=True):
        turns.credit[tenant] += credit


def lottery(turns: TenantTurns, tenants: Ints, had: Floats) -> None:  # noqa: ARG001
    """Lottery: credit by the chance of the plan in which one comes first; who was first pays 1.

    In the plan of a tenant it has the GPUs that its jobs ask, and the others share the rest by
    max-min fairness. Chances are proportionally fair: in the core, so that no coalition of tenants
    has less than its part. Credits in place of draws make the parts come true soonest.
    """
    count = len(tenants)
    value = np.zeros((count, count))
    for first in range(count):
        value[first, first] = min(int(turns.asks[first]), turns.gpus)
        others = np.arange(count) != first
        left = turns.gpus - int(value[first, first])
        if left and others.any():
            asks = turns.asks[others]
            rest = Demand(np.ones((count - 1, 1)), asks, np.array([left]))
            value[others, first] = max_min_agnostic(rest)[:, 0] * asks
    chance = proportionally_fair_lottery(value, np.ones(count))
    if turns.active:
        first = max(turns.active, key=lambda tenant: turns.credit[tenant])
        turns.credit[first] -= 1
    for tenant, one in zip(tenants.tolist(), chance.tolist(), strict=True):
        turns.credit[tenant] += one


def _policy(name: str, rule: Rule) -> RoundPolicy:
    sees = frozenset({"tenant", "service_us"})
    return RoundPolicy(name, sees=sees, memory=partial(TenantTurns, rule), strict=True)


TENANT_ROUNDS = (
    _policy("tenant-counters-rounds", counters),
    _policy("drf-deficits", deficits),
    _policy("robus", lottery),
)
