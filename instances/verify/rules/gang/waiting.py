"""Jobs that wait or run: since when, until when, and which a guarantee covers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import Precedence, demand

# Facts of jobs that wait or run: who may start, since when, and until when it is expected to run.
#
# Read from docs/formulations/backfill.md, apart from what the engine uses.


def may_start(job: Job, now: int) -> bool:
    """Whether a job is not held, and its eligible time has come."""
    return not job.held and (job.not_before or 0) <= now


Turn: TypeAlias = tuple[int, ...]
"""What jobs are taken in the order of."""


def queue_key(job: Job, position: int, now: int) -> Turn:
    """Return what jobs wait in the order of: priority, submission, position in the round."""
    return -job.priority, now if job.submitted is None else job.submitted, position


def end_of(job: Job, now: int) -> float:
    """Return when a job is expected to end, infinity for never."""
    if job.expected_runtime_s is None:
        return float("inf")
    if job.running is None:
        return now + job.expected_runtime_s
    if job.running.started is None:
        return float("inf")
    overrun = now - job.running.started - job.expected_runtime_s
    return now + max(overrun, 1) if overrun >= 0 else now - overrun


def start_value(round_: Round, job: Job, option: int) -> int:
    """Return what starting a job adds to `value`: with aging more, the longer it has waited."""
    value, aging = job.value_of(option), round_.policy.aging
    if aging is None or job.submitted is None:
        return value
    waited = max(round_.now - max(job.submitted, job.not_before or 0), 0)
    doubles = aging.doubles_after_s
    return value * min(doubles + waited, aging.limit * doubles) // doubles


# Entitlement: which jobs a tenant's guarantee covers; it precedes priority.
#
# It depends on the round alone. A tenant's jobs, but for the opportunistic ones, queue by
# priority, the highest first; of equal ones those that run come first, then the order of the round.


class Entitlement:
    """The precedence of each job of a round with each of its options."""

    def __init__(self, round_: Round) -> None:
        self._owners = {tenant.name for tenant in round_.tenants if tenant.cells}
        guarantees = {t.name: t.guarantee for t in round_.tenants if t.guarantee}
        mine: dict[str, list[Job]] = {name: [] for name in guarantees}
        for job in round_.jobs if guarantees else ():
            if job.tenant in mine and not job.opportunistic:
                mine[job.tenant].append(job)
        self._borrowed = {
            pair
            for name, jobs in mine.items()
            for pair in _uncovered(jobs, guarantees[name], round_.offered)
        }

    def of(self, job: Job, option: int) -> Precedence:
        """Return the precedence of a job with an option."""
        borrowed = job.opportunistic or (job.name, option) in self._borrowed
        cells = job.tenant in self._owners and not job.opportunistic
        return Precedence(cells, not borrowed, job.priority)


def _uncovered(
    jobs: Sequence[Job],
    guarantee: Mapping[str, int],
    offered: Callable[[Job], Sequence[int]],
) -> set[tuple[str, int]]:
    """Return the (job, option) pairs that a tenant's guarantee does not cover.

    A running job is covered beside the covered running jobs ahead of it; with another option that
    it is offered only if it is, and that asks no more of what the guarantee names. A pending one is
    covered with an option beside all running jobs ahead of it and what those pending ahead of it
    claim: of each resource the most that an option of theirs asks which is covered.
    """
    by_priority: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        by_priority[job.priority].append(job)
    covered, ahead = Amounts(guarantee), Amounts(guarantee)
    beyond: set[tuple[str, int]] = set()
    for priority in sorted(by_priority, reverse=True):
        for job in by_priority[priority]:
            if job.running is not None:
                option = job.options[job.running.option]
                if covered.can_add(option):
                    covered.add([option])
                else:
                    beyond.add((job.name, job.running.option))
                for other in offered(job)[1:]:
                    more = covered.is_more(job.options[other], option)
                    if more or (job.name, job.running.option) in beyond:
                        beyond.add((job.name, other))
                ahead.add([option])
        for job in by_priority[priority]:
            if job.running is None:
                fits = [ahead.can_add(option) for option in job.options]
                beyond |= {(job.name, o) for o, fit in enumerate(fits) if not fit}
                ahead.add([option for option, fit in zip(job.options, fits, strict=True) if fit])
    return beyond


class Amounts:
    """What jobs hold or claim of the resources that a guarantee names."""

    def __init__(self, guarantee: Mapping[str, int]) -> None:
        self._guarantee = guarantee
        self._sum = dict.fromkeys(guarantee, 0)

    def can_add(self, option: Option) -> bool:
        """Whether an option fits the guarantee on top, in each resource that it asks."""
        return all(
            asked == 0 or self._sum[name] + asked <= self._guarantee[name]
            for name, asked in self._asked(option).items()
        )

    def is_more(self, option: Option, than: Option) -> bool:
        """Whether an option asks more than another one of something."""
        before = self._asked(than)
        return any(asked > before[name] for name, asked in self._asked(option).items())

    def add(self, options: Sequence[Option]) -> None:
        """Add the most that one of some options asks, of each resource."""
        asked = [self._asked(option) for option in options]
        for name in self._sum:
            self._sum[name] += max((amounts[name] for amounts in asked), default=0)

    def _asked(self, option: Option) -> dict[str, int]:
        total = dict.fromkeys(self._guarantee, 0)
        for group in option.groups:
            for name, each in (("gpu", group.gpu), *demand(group)):
                if name in total:
                    total[name] += group.count * each
        return total
