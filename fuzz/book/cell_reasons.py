"""Why jobs wait in rounds with cells: guaranteed ones for what their tenant's cells have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from fuzz.book.cells import Bound, Cells, Entry
from fuzz.book.choices import WAIT
from fuzz.book.facts import WHOLE, Facts, Job
from fuzz.book.reading import choices_of, decisions_of
from fuzz.book.reason_details import given, limit_of, untrue_of
from fuzz.book.reasons import CAPACITY, NEVER_FITS, NOT_CHOSEN, ORDER, QUOTA, Reasons
from fuzz.book.states import State
from fuzz.policy import Raw

LIMIT = "disruption_limit"


def untrue(round_: Raw, plan: Raw) -> str:
    """Say which reason of a plan is not true, "" if all are; the plan keeps all other rules."""
    facts = Facts(round_)
    reasons = Reasons(facts, choices_of(facts, plan))
    cells = Guaranteed(reasons, plan)
    for job, decision in zip(facts.jobs, decisions_of(facts, plan), strict=True):
        if decision["decision"] != WAIT:
            continue
        mine = cells.cells.guaranteed(job)
        fault = cells.untrue(job, decision) if mine else untrue_of(reasons, job, decision)
        if fault:
            return fault
    return ""


class Guaranteed:
    """The true reasons of guaranteed jobs."""

    def __init__(self, reasons: Reasons, plan: Raw) -> None:
        self.reasons, self.facts = reasons, reasons.facts
        self.cells = Cells(self.facts)
        by_name = {(entry.tenant, entry.number): entry for entry in self.cells.entries}
        section = next(s for s in plan["sections"] if s["kind"] == "cells")
        self.bound = [
            Bound(by_name[one["tenant"], one["cell"]], one["domain"]) for one in section["bindings"]
        ]
        in_use = Counter(one.entry for one in self.bound)
        self.left = {entry: entry.count - in_use[entry] for entry in self.cells.entries}
        taken = self.cells.unusable.union(*(self.cells.of(one) for one in self.bound))
        self.free = {
            entry: [h for h in self.cells.hosts(entry.level, entry.model).values() if not h & taken]
            for entry in self.cells.entries
        }

    def untrue(self, job: Job, decision: Raw) -> str:
        """Say what is not true of the reason of a guaranteed job, "" if all is."""
        said, detail = decision.get("reason"), given(decision)
        options = sorted(range(len(job.options)), key=lambda o: job.options[o].asks["gpu"])
        best = max(options, key=lambda o: ORDER.index(self._of_option(job, o)))
        true = self._of_option(job, best)
        if said == LIMIT and self.cells.may_wait_for_budget and true != NEVER_FITS:
            return ""
        where = f"{job.name} waits for {true!r} by option {best}, the plan says {said!r}, {detail}"
        if detail.get("unproven") and self.facts.raw["cluster"].get("pools"):
            # Whether several groups find places at once within pools may be left open.
            return "" if ORDER.index(said) >= ORDER.index(true) else where
        if (said, detail.get("option", 0)) != (true, best) or detail.get("unproven"):
            return where
        if true == NEVER_FITS:
            return ""
        if true == QUOTA and self._beyond_quota(job, best):
            said_of = tuple(detail.get(name) for name in ("asked", "used", "limit", "excess"))
            name, account = limit_of(detail)
            known = self.reasons.quota(job, best, account)
            return "" if known.get((name, "")) == said_of else where
        if true == NOT_CHOSEN:
            return ""
        mine = [entry for entry in self.cells.entries if entry.tenant == job.tenant]
        if detail.get("cells") != sum(self.left[entry] for entry in mine):
            return where
        if true == CAPACITY:
            short = [
                (one, other) for level, one, other in self._short(job) if level == detail["level"]
            ]
            return "" if (detail["asked"], detail["free"]) in short else f"{where}: {short}"
        asked, used, limit = self._sums(job, best)
        amounts = {"asked": asked, "used": used, "limit": limit, "excess": asked + used - limit}
        if asked + used <= limit:
            return where if detail.keys() & amounts.keys() else ""
        return "" if amounts.items() <= detail.items() else f"{where}: {amounts}"

    def _of_option(self, job: Job, number: int) -> str:
        if not self.reasons.empty.fits(job, number):
            return NEVER_FITS
        asked, used, limit = self._sums(job, number)
        beyond = self._beyond_quota(job, number)
        if beyond or asked + used > limit:
            return QUOTA
        if self._beside_guaranteed(job).fits(job, number):
            return NOT_CHOSEN
        return CAPACITY if list(self._short(job)) else QUOTA

    def _beyond_quota(self, job: Job, number: int) -> bool:
        return any(
            e > 0
            for account in job.accounts
            for *_, e in self.reasons.quota(job, number, account).values()
        )

    def _sums(self, job: Job, number: int) -> tuple[int, int, int]:
        """Return the milli-GPU that an option asks, that are used, and that its cells have."""
        used = sum(
            one.options[choice.option].asks["gpu"]
            for one, choice in zip(self.facts.jobs, self.reasons.choices, strict=True)
            if choice.runs and one.tenant == job.tenant and self.cells.guaranteed(one)
        )
        mine = [entry for entry in self.cells.entries if entry.tenant == job.tenant]
        limit = sum(entry.count * self._size(entry) for entry in mine)
        return job.options[number].asks["gpu"], used, limit

    def _size(self, entry: Entry) -> int:
        return self._gpus(next(iter(self.cells.hosts(entry.level, entry.model).values())))

    def _gpus(self, hosts: frozenset[int]) -> int:
        return WHOLE * sum(self.facts.hosts[number].gpus for number in hosts)

    def _short(self, job: Job) -> Iterator[tuple[str, int, int]]:
        """Yield the levels at which a tenant may claim more than is free, and both milli-GPU."""
        depth = (*self.facts.levels, "host").index
        mine = [entry for entry in self.cells.entries if entry.tenant == job.tenant]
        for entry in mine:
            claimed = sum(
                self.left[one] * self._size(one)
                for one in mine
                if one.model == entry.model and depth(one.level) <= depth(entry.level)
            )
            free = sum(map(self._gpus, self.free[entry]))
            if claimed > free:
                yield entry.level, claimed, free

    def _beside_guaranteed(self, job: Job) -> State:
        """Return the hosts of its tenant's cells beside guaranteed and pinned jobs."""
        inside: set[int] = set()
        for one in self.bound:
            if one.entry.tenant == job.tenant:
                inside |= self.cells.of(one)
        for entry in self.cells.entries:
            if entry.tenant == job.tenant and self.left[entry]:
                inside.update(*self.free[entry])
        only = Facts(self.facts.raw)
        only.hosts = tuple(
            host if host.number in inside else replace(host, healthy=False) for host in only.hosts
        )
        held = [
            (one, choice)
            for one, choice in zip(self.facts.jobs, self.reasons.choices, strict=True)
            if choice.runs
            and (self.cells.guaranteed(one) or (one.running is not None and one.running.pinned))
        ]
        return State(only, [held], beside=True)
