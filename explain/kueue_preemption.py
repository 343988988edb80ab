"""Whom Kueue would preempt for a workload that waits: its classical algorithm, on a round.

Candidates are removed one by one until the workload fits, and then put back, the last one first,
as long as it still fits. Kueue's order: those that are being evicted, then those of other queues,
then lower priority, then the newest. Of other queues only those that borrow give way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from placewright.explain.facts.fact import World
from placewright.explain.facts.gang import base
from placewright.explain.oracle import SolvingOracle
from placewright.formulations.gang.problem.limits import accounts_of, held_before, limits_of
from placewright.instances.documents.caveats import caveats_of
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.policy import Preemption
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_TOPOLOGY,
    KUBERNETES_UID,
    LEAVES,
)

_NEWER_EQUAL = "queue-preemption"
"""The caveat of a job whose queue may preempt newer ones of its own priority."""


def kueue_victims(round_: Round, job: Job, solving: SolvingOracle) -> Sequence[str]:
    """Return whom Kueue would preempt to admit a job, with the first flavor that it can have.

    A flavor for which only jobs of other queues go comes before the others.
    """
    rules = {tenant.name: tenant.preemption for tenant in round_.tenants}
    rule = rules.get(job.tenant or "")
    if rule is None:
        return ()
    ways = [_Way(round_, job, k, rule, solving) for k in range(len(job.options))]
    if any(way.fits((), borrowing=True) for way in ways):
        return ()
    found = [victims for way in ways if (victims := way.victims())]
    if solving.left() <= 0 or not found:
        return ()
    best = min(found, key=lambda victims: any(one.tenant == job.tenant for one in victims))
    return [one.name for one in best if LEAVES not in one.annotations]


@dataclass(slots=True)
class _Way:
    """How a job could be admitted with one of its options."""

    round_: Round
    job: Job
    at: int
    rule: Preemption
    solving: SolvingOracle
    nominal: dict[str, int] = field(init=False)
    used: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        """Note what queues have of their own, and what they use of it."""
        self.nominal = {t.name: t.guarantee.get("gpu", 0) for t in self.round_.tenants}
        self.used = Counter()
        for one in self.round_.jobs:
            self.used[one.tenant or ""] += _gpus(one)

    @property
    def option(self) -> Option:
        """What it asks for."""
        return self.job.options[self.at]

    def victims(self) -> list[Job]:
        """Return the jobs that go, none if there is no way."""
        others, own = self._candidates()
        mine = self.job.tenant or ""
        forbidden = self.rule.borrow == "never"
        if not others or (forbidden and self.used[mine] >= self.nominal[mine]):
            attempts = [True]
        elif forbidden and not self._entitled():
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            ordered = list(self._valid(others, own, borrowing=borrowing))
            if found := self._fewest(ordered, borrowing=borrowing):
                return found
        return []

    def fits(self, without: Collection[Job], *, borrowing: bool) -> bool:
        """Whether it is admitted without some jobs; `borrowing` if it may borrow then."""
        mine = self.job.tenant or ""
        used = self.used[mine] - sum(_gpus(one) for one in without if one.tenant == mine)
        if not borrowing and used + self.option.milli_gpu > self.nominal[mine]:
            return False
        names = {one.name for one in without}
        limits = limits_of(self.round_)
        gone = [j for j, one in enumerate(self.round_.jobs) if one.name in names]
        held = held_before(self.round_, limits, gone)
        if any(
            held[account][measure] + measure.asked_by(self.option) > most
            for account in accounts_of(self.job)
            for measure, most in limits.get(account, {}).items()
        ):
            return False
        if self.job.annotations.get(KUBERNETES_TOPOLOGY) != "yes":
            return True  # whether or not nodes have room
        left = base(self.round_.without_jobs(list(names)), self.job.name)
        alone = self.job.model_copy(update={"options": (self.option,)})
        jobs = tuple(alone if one.name == self.job.name else one for one in left.jobs)
        world = World(left.model_copy(update={"jobs": jobs}), self.job.name)
        return self.solving.start(world).starts is True

    def _fewest(self, ordered: Sequence[Job], *, borrowing: bool) -> list[Job]:
        def enough(number: int) -> bool:
            return self.fits(ordered[:number], borrowing=borrowing)

        if not ordered or not enough(len(ordered)):
            return []
        found = list(ordered[: bisect_left(range(len(ordered)), True, lo=1, key=enough)])
        for one in reversed(found[:-1]):
            fewer = [other for other in found if other is not one]
            if self.fits(fewer, borrowing=borrowing):
                found = fewer
        return found

    def _candidates(self) -> tuple[list[Job], list[Job]]:
        """Return the jobs of other queues and of its own that its queue lets it preempt."""
        cohorts = {t.name: t.preemption.cohort for t in self.round_.tenants if t.preemption}
        newer = _NEWER_EQUAL in {one.rule for one in caveats_of(self.job.annotations)}
        others, own = [], []
        for one in sorted(self.round_.jobs, key=self._order):
            if one.running is None or not self._shares(one.options[one.running.option]):
                continue
            if self.job.preempts is not None and not set(self.job.preempts) & set(one.caps):
                continue
            lower = one.priority < self.job.priority
            if one.tenant == self.job.tenant:
                equal = newer and one.priority == self.job.priority
                if self.rule.within != "never" and (lower or (equal and self._is_newer(one))):
                    own.append(one)
            elif cohorts.get(one.tenant or "") == self.rule.cohort is not None and (
                self.rule.reclaim == "any" or (lower and self.rule.reclaim == "lower")
            ):
                others.append(one)
        return others, own

    def _valid(
        self, others: Sequence[Job], own: Sequence[Job], *, borrowing: bool
    ) -> Iterator[Job]:
        """Yield the candidates of an attempt in their order, those that are leaving first."""
        used = self.used.copy()
        parts = [[o for o in part if (LEAVES in o.annotations) == first]
                 for first in (True, False) for part in (others, own)]  # fmt: skip
        for one in (one for part in parts for one in part):
            queue = one.tenant or ""
            if queue != self.job.tenant:
                if used[queue] <= self.nominal[queue]:
                    continue
                if borrowing and not self._entitled() and not self._beside(one):
                    continue
            used[queue] -= _gpus(one)
            yield one

    def _entitled(self) -> bool:
        """Whether its queue has as much of its own as it asks for."""
        mine = self.job.tenant or ""
        return self.used[mine] + self.option.milli_gpu <= self.nominal[mine]

    def _beside(self, one: Job) -> bool:
        """Whether it may preempt a job of another queue while it borrows itself."""
        up_to = one.priority if self.rule.borrow_up_to is None else self.rule.borrow_up_to
        lower = one.priority < self.job.priority
        return self.rule.borrow == "lower" and lower and one.priority <= up_to

    def _shares(self, other: Option) -> bool:
        """Whether another job uses a resource that it asks for, of the same flavor."""
        if not other.milli_gpu or not self.option.uses:
            return bool(other.milli_gpu)
        return any(used and name in other.uses for name, used in self.option.uses.items())

    def _is_newer(self, one: Job) -> bool:
        now = self.round_.now
        mine, theirs = (now if j.submitted is None else j.submitted for j in (self.job, one))
        return mine < theirs

    def _order(self, one: Job) -> tuple[int, int, str]:
        """Order candidates: the lowest priority first, then those that were admitted last."""
        started = None if one.running is None else one.running.started
        since = self.round_.now if started is None else started
        return one.priority, -since, one.annotations.get(KUBERNETES_UID, "")


def _gpus(job: Job) -> int:
    """Return the milli-GPU that a job holds; or of which it holds the quota alone."""
    if job.running is None:
        return 0
    option = job.options[job.running.option]
    return option.milli_gpu or sum(n for name, n in option.uses.items() if name.startswith("gpu@"))
