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
