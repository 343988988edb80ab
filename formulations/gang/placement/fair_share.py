"""Fills free hosts: greedily by value, or by progressive filling where `share` precedes `value`.

Progressive filling (Ghodsi et al., Dominant Resource Fairness, NSDI 2011, algorithm 1): the tenant
with the least dominant share starts its next job, until no job fits. Jobs without a tenant come
last.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from heapq import heapify, heappop, heappush

from placewright.formulations.gang.placement.greedy import fill_greedily, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.dominant_shares import SHARE, TenantShare
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import VALUE


def fill_by_policy(placement: Placement) -> None:
    """Start every waiting job that still fits, in the order of the policy."""
    if shares_before_value(placement.problem):
        _fill_progressively(placement)
    fill_greedily(placement)


def shares_before_value(problem: Problem) -> bool:
    """Whether the term `share` precedes `value`."""
    return next((t for t in problem.weighted_terms if t in (SHARE, VALUE)), VALUE) == SHARE


def _fill_progressively(placement: Placement) -> None:
    """Start jobs by progressive filling."""
    problem = placement.problem
    queues = _queues(problem)
    held = {share.tenant: share for share in _tenants_with_use(placement)}
    quota = placement.quota_left()
    heap = [(_exact_share(share), tenant) for tenant, share in held.items()]
    heapify(heap)
    full: set[tuple[Group, ...]] = set()
    while heap:
        _, tenant = heappop(heap)
        queue = queues[tenant]
        while queue:
            c, o = queue[-1]
            choice = problem.classes[c].choices[o]
            accounts = problem.classes[c].accounts
            may = placement.waiting[c] and problem.within_quota(quota, accounts, choice)
            if may and choice.groups not in full:
                puts = place_choice(placement, choice)
                if puts is not None:
                    placement.start(c, o, puts)
                    problem.charge_quota(quota, accounts, choice)
                    held[tenant] = held[tenant].plus(problem.amounts_of(choice))
                    heappush(heap, (_exact_share(held[tenant]), tenant))
                    break
                if not choice.is_tied:
                    full.add(choice.groups)
            queue.pop()  # what does not fit now will not fit later


def _queues(problem: Problem) -> defaultdict[int, list[tuple[int, int]]]:
    """Return the (class, choice) pairs of each tenant's pending jobs, the next one last.

    By priority, then as in the round; of the options of a job the one of most value first.
    """
    jobs = problem.round.jobs
    found = [
        (-jobs[job_class.jobs[0]].priority, min(job_class.jobs), -choice.value, c, o)
        for c, job_class in enumerate(problem.classes)
        if not job_class.running
        for o, choice in enumerate(job_class.choices)
    ]
    queues: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for *_, c, o in sorted(found, reverse=True):
        queues[problem.classes[c].tenant].append((c, o))
    return queues


def _tenants_with_use(placement: Placement) -> list[TenantShare]:
    """Return the tenants with what their jobs in the placement hold."""
    problem = placement.problem
    held = {share.tenant: share for share in problem.shares}
    for _, start in placement.started():
        job_class = problem.classes[start.job_class]
        if job_class.tenant in held:
            amounts = problem.amounts_of(job_class.choices[start.choice])
            held[job_class.tenant] = held[job_class.tenant].plus(amounts)
    return list(held.values())


def _exact_share(share: TenantShare) -> Fraction:
    """Return a tenant's dominant share as a fraction."""
    return max(
        (Fraction(share.held[r], per) for r, per in share.denominator.items()), default=Fraction(0)
    )
