"""Quotas of tenants, of the cluster and of regions, and caps, once victims are back in place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from placewright.formulations.gang.problem.limits import Account, accounts_of, limits_of
from placewright.instances.documents.caps import Measure
from placewright.rounds.displacement.changes import Changes, PlacedTask
from placewright.rounds.displacement.domains import DomainNames

RegionAccount: TypeAlias = tuple[Account, str]
"""A tenant or cap, and the region whose quota is meant; "" is the whole cluster."""


class QuotaUse:
    """What is held of quotas and caps after a candidate, and was before the round."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains, self._round = changes, domains, changes.round
        self._regions = self._round.geo.regions if self._round.policy.spec.by_region else ()

    def exceeded(self, back: set[int], gone: set[int], owners: Iterable[int]) -> bool:
        """Whether a quota or cap of `owners` is exceeded, with `back` running on and not `gone`.

        What was exceeded before the round may stay so.
        """
        home = self._changes.home
        for account in {a for j in owners for a in self._accounts(j, home(j))}:
            held = self._held_before.get(account, Counter())
            changing = self._changing.get(account, {})
            undone = [changing[j] for j in (*back, *(gone - back)) if j in changing]
            for measure, limit in self._limits[account].items():
                change = self._change[account][measure] - sum(one[measure] for one in undone)
                if held[measure] + change > max(limit, held[measure]):
                    return True
        return False

    def starts_beside(self, victim: int) -> set[int]:
        """Return the pending jobs that start within the quotas and caps of a victim."""
        accounts = self._accounts(victim, self._changes.home(victim))
        changing = (j for account in accounts for j in self._changing.get(account, ()))
        return {j for j in changing if self._round.jobs[j].running is None}

    @cached_property
    def _limits(self) -> dict[RegionAccount, Mapping[Measure, int]]:
        limits: dict[RegionAccount, Mapping[Measure, int]] = {
            (account, ""): measures for account, measures in limits_of(self._round).items()
        }
        for region in self._regions:
            for tenant, quota in region.quotas.items():
                limits[("tenant", tenant), region.name] = {Measure("gpus"): quota}
        return limits

    def _accounts(self, job: int, tasks: Sequence[PlacedTask]) -> list[RegionAccount]:
        """Return the quotas and caps that a job counts in, with its tasks in these places."""
        if not self._limits:
            return []
        names = {""}
        if self._regions:
            domain = self._domains.of(self._round.geo.level)
            names |= {domain[task.host] for task in tasks}
        accounts = accounts_of(self._round.jobs[job])
        found = [(account, name) for account in accounts for name in sorted(names)]
        return [one for one in found if one in self._limits]

    @cached_property
    def _held_before(self) -> Mapping[RegionAccount, Counter[Measure]]:
        held: defaultdict[RegionAccount, Counter[Measure]] = defaultdict(Counter)
        for j, job in enumerate(self._round.jobs if self._limits else ()):
            if job.running is None or not accounts_of(job):
                continue
            for account in self._accounts(j, self._changes.home(j)):
                held[account].update(self._asks(j, account))
        return held

    def _asks(self, job: int, account: RegionAccount) -> dict[Measure, int]:
        """Return what a job with its option counts in an account."""
        option = self._changes.option(job)
        return {measure: measure.asked_by(option) for measure in self._limits[account]}

    @cached_property
    def _changing(self) -> Mapping[RegionAccount, Mapping[int, Mapping[Measure, int]]]:
        """What jobs that start hold more, and those that stop less, by account and job."""
        found: defaultdict[RegionAccount, dict[int, Mapping[Measure, int]]] = defaultdict(dict)
        changes, jobs = self._changes, self._round.jobs
        starts = {j: new for j, new in changes.new.items() if jobs[j].running is None}
        stops = {j: changes.home(j) for j in changes.candidate.preempted}
        for j, tasks in (starts | stops).items():
            sign = 1 if j in starts else -1
            for account in self._accounts(j, tasks):
                asks = self._asks(j, account)
                found[account][j] = {measure: sign * amount for measure, amount in asks.items()}
        return found

    @cached_property
    def _change(self) -> Mapping[RegionAccount, Counter[Measure]]:
        """The sums of these, by account."""
        found: defaultdict[RegionAccount, Counter[Measure]] = defaultdict(Counter)
        for account, changing in self._changing.items():
            for amounts in changing.values():
                for measure, amount in amounts.items():
                    found[account][measure] += amount
        return found
