"""Who is entitled, and so who comes before whom (docs/formulations/fairness.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from fuzz.book.facts import Facts, Job

Precedence: TypeAlias = tuple[bool, bool, bool, int]
"""Whether the job is promised the current lease, whether its tenant owns cells for it, whether it
is entitled, its priority."""


class Standing:
    """The precedence of each job with each of its options."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._rules = {tenant["name"]: tenant.get("preemption") for tenant in facts.tenants}
        raw = facts.raw.get("jobs", ())
        self._named = [job.get("preempts") for job in raw]
        self.ruled = any(rule is not None for rule in self._rules.values()) or any(
            named is not None for named in self._named
        )
        self._owners = {tenant["name"] for tenant in facts.tenants if tenant.get("cells")}
        self._entitled: dict[tuple[int, int], bool] = {}
        for tenant in facts.tenants:
            if guarantee := tenant.get("guarantee"):
                jobs = [job for job in facts.jobs if job.tenant == tenant["name"]]
                self._judge([job for job in jobs if not job.opportunistic], guarantee)

    def _judge(self, jobs: list[Job], guarantee: Mapping[str, int]) -> None:
        jobs.sort(key=lambda job: (-job.priority, job.running is None, job.number))
        entitled_running = dict.fromkeys(guarantee, 0)
        before_pending = dict.fromkeys(guarantee, 0)
        for job in jobs:
            numbers = range(len(job.options)) if job.running is None else [job.running.option]
            before = before_pending if job.running is None else entitled_running
            claims = []
            for number in numbers:
                asks = job.options[number].asks
                fits = all(
                    not asks.get(name) or before[name] + asks[name] <= limit
                    for name, limit in guarantee.items()
                )
                self._entitled[job.number, number] = fits
                if fits:
                    claims.append(asks)
            running = job.running
            for other in () if running is None else running.sizes:
                assert running is not None
                now, then = job.options[running.option].asks, job.options[other].asks
                less = all(then.get(name, 0) <= now.get(name, 0) for name in guarantee)
                self._entitled[job.number, other] = (
                    less and self._entitled[job.number, running.option]
                )
            for name in guarantee:
                most = max((asks.get(name, 0) for asks in claims), default=0)
                if job.running is None:
                    before_pending[name] += most
                else:
                    entitled_running[name] += most
                    before_pending[name] += job.options[job.running.option].asks.get(name, 0)

    def entitled(self, job: Job, option: int) -> bool:
        """Whether a job with an option stands on a guarantee, or needs none."""
        return not job.opportunistic and self._entitled.get((job.number, option), True)

    def of(self, job: Job, option: int, *, promised: bool = False) -> Precedence:
        """Return the precedence of a job with an option."""
        owned = job.tenant in self._owners and not job.opportunistic
        return promised, owned, self.entitled(job, option), job.priority

    def may_preempt(self, job: Job, option: int, victim: Job, *, promised: bool = False) -> bool:
        """Whether a job with an option may preempt one that runs."""
        assert victim.running is not None
        mine, theirs = (
            self.of(job, option, promised=promised),
            self.of(victim, victim.running.option),
        )
        named, rule = self._named[job.number], self._rules.get(job.tenant or "")
        if mine <= theirs or job is victim:
            return False
        if named is not None and not any(("cap", name) in victim.accounts for name in named):
            return False
        if rule is None:
            return True
        lower = job.priority > victim.priority
        if job.tenant == victim.tenant:
            return lower and rule.get("within", "never") == "lower"
        other = self._rules.get(victim.tenant or "") or {}
        if rule.get("cohort") is None or rule["cohort"] != other.get("cohort"):
            return False
        if self.entitled(victim, victim.running.option):
            return False
        if self.entitled(job, option):
            return {"any": True, "lower": lower}.get(rule.get("reclaim", "never"), False)
        most = rule.get("borrow_up_to")
        fits = most is None or victim.priority <= most
        return lower and fits and rule.get("borrow", "never") == "lower"

    def preempts_nobody(self, job: Job, option: int) -> bool:
        """Whether rules keep a job with an option from preempting anybody who is not pinned."""
        return self.ruled and not any(
            self.may_preempt(job, option, victim)
            for victim in self._facts.jobs
            if victim.running is not None and not victim.running.pinned
        )
