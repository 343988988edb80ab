"""Entitlement: which jobs a tenant's guarantee covers, and which borrow; it precedes priority.

A tenant's jobs are taken in order: higher priority first, running before pending, then as in the
round. Opportunistic jobs are left out, since no guarantee covers them.

running    entitled if it fits the guarantee together with the entitled running jobs before it
pending    entitled with an option that fits the guarantee together with all running jobs before it
           and the claims of the pending ones before it; its claim is the most, per resource, that
           such options ask for

Only resources count that the guarantee names and the job asks for. A tenant without a guarantee has
no limit. So pending jobs take no entitlement from running ones, and the entitled jobs of a tenant
never hold more than its guarantee, whichever of them run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from placewright.formulations.gang.problem.quotas import resources_held
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

Amounts = Mapping[str, int]
BorrowingOptions: TypeAlias = Mapping[int, tuple[int, ...]]
"""By index of a job the options with which it is not entitled."""


def borrowing_options(round_: Round) -> dict[int, tuple[int, ...]]:
    """Return, by index of a job, the options with which it borrows; most jobs have none."""
    borrowed = {
        i: tuple(range(len(job.options))) for i, job in enumerate(round_.jobs) if job.opportunistic
    }
    guarantees = {t.name: t.guarantee for t in round_.tenants if t.guarantee}
    mine: defaultdict[str, list[int]] = defaultdict(list)
    for i, job in enumerate(round_.jobs if guarantees else ()):
        if job.tenant in guarantees and i not in borrowed:
            mine[job.tenant].append(i)
    for tenant, jobs in mine.items():
        borrowed |= _borrowing_options_of_tenant(round_.jobs, jobs, guarantees[tenant])
    return borrowed


def _borrowing_options_of_tenant(
    jobs: Sequence[Job], mine: list[int], guarantee: Amounts
) -> dict[int, tuple[int, ...]]:
    """Return the borrowing options of one tenant's jobs (indices `mine`)."""
    entitled, ahead = Counter[str](), Counter[str]()
    borrowed: dict[int, tuple[int, ...]] = {}
    for i in sorted(mine, key=lambda i: (-jobs[i].priority, jobs[i].running is None, i)):
        job = jobs[i]
        asked = [resources_held(option) for option in job.options]
        if job.running is not None:
            option = job.running.option
            if _fits(entitled, asked[option], guarantee):
                entitled.update(asked[option])
            else:
                borrowed[i] = (option,)
            ahead.update(asked[option])
            continue
        within = [o for o, amounts in enumerate(asked) if _fits(ahead, amounts, guarantee)]
        if len(within) < len(asked):
            borrowed[i] = tuple(o for o in range(len(asked)) if o not in within)
        claim: Counter[str] = Counter()
        for o in within:
            claim |= Counter(asked[o])
        ahead.update(claim)
    return borrowed


def _fits(before: Amounts, asked: Amounts, guarantee: Amounts) -> bool:
    """Whether the guarantee covers what is asked on top of what comes before."""
    return all(
        before.get(name, 0) + asked[name] <= limit
        for name, limit in guarantee.items()
        if asked.get(name)
    )
