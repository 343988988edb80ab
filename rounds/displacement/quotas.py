"""Quotas of tenants, of the cluster and of regions, once victims are back in place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from placewright.rounds.displacement.changes import Changes, PlacedTask
from placewright.rounds.displacement.domains import DomainNames

Account: TypeAlias = tuple[str, str]
"""A tenant's quota: its name and the region, "" for the whole cluster."""


class QuotaUse:
    """What tenants hold of their quotas after a candidate, and held before the round."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains, self._round = changes, domains, changes.round
        self._regions = self._round.geo.regions if self._round.policy.spec.by_region else ()

    def exceeded(self, back: set[int], gone: set[int], owners: Iterable[int]) -> bool:
        """Whether a quota of `owners` is exceeded, with `back` running on and not `gone`.

        A tenant that held more before the round may hold as much.
        """
        home = self._changes.home
        for account in {a for j in owners for a in self._accounts(j, home(j))}:
            held = self._held_before.get(account, Counter())
            changing = self._changing.get(account, {})
            undone = [changing[j] for j in (*back, *(gone - back)) if j in changing]
            for name, limit in self._limits[account].items():
                change = self._change[account][name] - sum(one[name] for one in undone)
                if held[name] + change > max(limit, held[name]):
                    return True
        return False

    def starts_beside(self, victim: int) -> set[int]:
        """Return the pending jobs that start within the quotas that a victim counts in."""
        accounts = self._accounts(victim, self._changes.home(victim))
        changing = (j for account in accounts for j in self._changing.get(account, ()))
        return {j for j in changing if self._round.jobs[j].running is None}

    @cached_property
    def _limits(self) -> dict[Account, Mapping[str, int]]:
        limits: dict[Account, Mapping[str, int]] = {
            (t.name, ""): t.quota for t in self._round.tenants if t.quota
        }
        for region in self._regions:
            for tenant, quota in region.quotas.items():
                limits[tenant, region.name] = {"gpu": quota}
        return limits

    def _accounts(self, job: int, tasks: Sequence[PlacedTask]) -> list[Account]:
        """Return the quotas that a job counts in, with its tasks in these places."""
        tenant = self._round.jobs[job].tenant
        if tenant is None or not self._limits:
            return []
        names = {""}
        if self._regions:
            domain = self._domains.of(self._round.geo.level)
            names |= {domain[task.host] for task in tasks}
        return [(tenant, name) for name in sorted(names) if (tenant, name) in self._limits]

    @cached_property
    def _held_before(self) -> Mapping[Account, Counter[str]]:
        held: defaultdict[Account, Counter[str]] = defaultdict(Counter)
        owners = {tenant for tenant, _ in self._limits}
        for j, job in enumerate(self._round.jobs if owners else ()):
            if job.running is None or job.tenant not in owners:
                continue
            for account in self._accounts(j, self._changes.home(j)):
                held[account].update(self._changes.asks(j))
        return held

    @cached_property
    def _changing(self) -> Mapping[Account, Mapping[int, Mapping[str, int]]]:
        """What jobs that start hold more, and those that stop less, by quota and job."""
        found: defaultdict[Account, dict[int, Mapping[str, int]]] = defaultdict(dict)
        changes, jobs = self._changes, self._round.jobs
        starts = {j: new for j, new in changes.new.items() if jobs[j].running is None}
        stops = {j: changes.home(j) for j in changes.candidate.preempted}
        for j, tasks in (starts | stops).items():
            accounts = self._accounts(j, tasks)
            asks, sign = changes.asks(j) if accounts else {}, 1 if j in starts else -1
            for account in accounts:
                limits = self._limits[account]
                found[account][j] = {name: sign * asks.get(name, 0) for name in limits}
        return found

    @cached_property
    def _change(self) -> Mapping[Account, Counter[str]]:
        """The sums of these, by quota."""
        found: defaultdict[Account, Counter[str]] = defaultdict(Counter)
        for account, changing in self._changing.items():
            for amounts in changing.values():
                for name, amount in amounts.items():
                    found[account][name] += amount
        return found
