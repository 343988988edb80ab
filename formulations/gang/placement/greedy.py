"""Greedy plans: jobs by value per GPU or by progressive filling, then options of more progress."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import takewhile
from math import inf

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.gang_tree import joint_domains, place_groups
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Choice,
    Group,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import (
    ENTITLED,
    OPTION_SUMS,
    PROGRESS,
    SHARE,
    VALUE,
    QuotaKey,
    TenantShare,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU

# Greedy plan: jobs by value per GPU, each where it fits best.
#
# It exists before any solver starts, fills what a disaggregation leaves free, and is a baseline. A
# task goes to the host with the fewest free GPUs that fits it (best fit); a gang goes to the
# smallest domain that holds it, level by level, and inside it to as few sub-domains as possible.


def greedy_order(problem: Problem) -> list[tuple[int, int]]:
    """Return (class, choice) pairs by worth per GPU, then by size, largest first.

    Under strict priority the highest priority class comes first. Worth is `value` before
    `progress`, unless the policy has them in the opposite order. Where `entitled` precedes `value`,
    entitled options come before all others.
    """
    options = problem.options
    first = next((t for t in problem.weighted_terms if t in (VALUE, PROGRESS)), VALUE)
    each, then = options.value, options.progress
    if first == PROGRESS:
        each, then = then, each
    size = options.milli_gpu
    reclaims = (
        next((t for t in problem.weighted_terms if t in (VALUE, ENTITLED)), VALUE) == ENTITLED
    )
    later = ~options.entitled & reclaims
    dense = each / np.maximum(size, 1)
    level = options.priority_class if first == VALUE else np.zeros_like(size)
    order = np.lexsort((options.choice, options.job_class, -then, -size, -dense, level, later))
    return list(zip(options.job_class[order].tolist(), options.choice[order].tolist(), strict=True))


def fill_greedily(placement: Placement) -> None:
    """Start every waiting job that still fits, in greedy order."""
    problem = placement.problem
    quota = placement.quota_left()
    full: set[tuple[Group, ...]] = set()
    for c, o in greedy_order(problem):
        if not placement.waiting[c]:
            continue
        job_class = problem.classes[c]
        choice = job_class.choices[o]
        # What fits is a matter of the groups, but for what ties tasks.
        if choice.groups in full:
            continue
        fill_with = _fill_singles if choice.is_single_task else _fill_gangs
        if fill_with(placement, quota, c, o) and not (choice.is_tied or choice.uses):
            full.add(choice.groups)
        if job_class.running:
            # Where it was stopped, others may come again.
            full.clear()


def _fill_gangs(placement: Placement, quota: dict[QuotaKey, int], c: int, o: int) -> bool:
    """Start jobs of several tasks one by one; return whether another one does not fit."""
    problem = placement.problem
    accounts, choice = problem.classes[c].accounts, problem.classes[c].choices[o]
    while placement.waiting[c] and problem.within_quota(quota, accounts, choice):
        puts = place_choice(placement, choice)
        if puts is None:
            return True
        placement.start(c, o, puts)
        problem.charge_quota(quota, accounts, choice)
    return False


def _fill_singles(placement: Placement, quota: dict[QuotaKey, int], c: int, o: int) -> bool:
    """Start one-task jobs by best fit; return whether another one does not fit.

    A host, once chosen, stays the best until it is full; so does a GPU for shares.
    """
    problem = placement.problem
    accounts, choice = problem.classes[c].accounts, problem.classes[c].choices[o]
    shape = choice.groups[0].shape
    share = bool(problem.is_share[shape])
    while placement.waiting[c]:
        fits = placement.fits(shape)
        # Below 0 where a heuristic has overcommitted a host.
        hosts = np.flatnonzero(fits > 0)
        if not len(hosts):
            return True
        if placement.waiting[c] == 1 and not share:
            hosts = _best_fit(placement, hosts)
        else:
            order = _best_fit_order(placement, shape, hosts)
            hosts = hosts[order[:1] if share else order]
        for host in hosts:
            for _ in range(int(fits[host])):
                if not placement.waiting[c] or not problem.within_quota(quota, accounts, choice):
                    return False
                if choice.pooled and not placement.pools.fits_host(shape, int(host)):
                    break
                gpus = placement.put(shape, int(host))
                placement.start(c, o, [TaskPlacement(0, int(host), 1, gpus)])
                problem.charge_quota(quota, accounts, choice)
                if share and not placement.fits_partial_gpus(shape, int(host)).any():
                    break
    return False


def _best_fit(placement: Placement, hosts: Ints) -> Ints:
    """Return the first host of `_best_fit_order` for a task of whole GPUs, without sorting."""
    for key in (placement.whole, ~placement.problem.state.busy, placement.free[:, 0]):
        mine = key[hosts]
        hosts = hosts[mine == mine.min()]
    return hosts[:1]


def _best_fit_order(placement: Placement, shape: int, hosts: Ints) -> Ints:
    """Return positions in `hosts`, the one that would have the fewest GPUs left first."""
    problem = placement.problem
    gpu = int(problem.shape_gpu[shape])
    left = placement.whole[hosts] * WHOLE_GPU
    if 0 < gpu < WHOLE_GPU:
        has_room = placement.fits_partial_gpus(shape, hosts) > 0
        tightest = np.where(has_room, placement.gpu_free[hosts], 10 * WHOLE_GPU).min(axis=1)
        return np.lexsort((placement.free[hosts, 0], left, tightest))
    idle = ~problem.state.busy[hosts]
    return np.lexsort((placement.free[hosts, 0], idle, left))


def place_choice(
    placement: Placement, choice: Choice, within: Mapping[int, Bools] | None = None
) -> list[TaskPlacement] | None:
    """Place all groups of an option where they fit; None, and nothing changed, if they do not.

    `within` restricts groups, by index, to some hosts, bool (hosts,); with a joint level it is
    ignored.
    """
    open_ = placement.open_to(choice.label)
    if choice.uses:
        open_ &= placement.pools.open_to(choice, len(open_))
    if choice.joint_level == NO_LEVEL:
        return place_groups(placement, choice, open_, within or {})
    domain = placement.problem.cluster.domain[choice.joint_level]
    most = parameters.PARAMETERS.placement.max_joint_domains
    for d in joint_domains(placement, choice, open_)[:most]:
        puts = place_groups(placement, choice, open_ & (domain == d), {})
        if puts is not None:
            return puts
    return None


def place_near(placement: Placement, choice: Choice, job: int) -> list[TaskPlacement] | None:
    """Place a running job that is stopped on hosts where it was, or close to them; else anywhere.

    `ANY_JOB` was nowhere, and tasks that are tied go where the rules of their places want them.
    """
    group = choice.groups[0]
    if job == ANY_JOB or len(choice.groups) > 1 or choice.is_tied or choice.uses:
        return place_choice(placement, choice)
    problem = placement.problem
    held = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
    for host, milli in problem.milli_held(job, least=1).items():
        held[host] = milli
    homes = np.flatnonzero(held)
    near = [homes]
    if group.count > 1:
        levels = problem.cluster.domain
        domain = levels[group.required if group.required != NO_LEVEL else max(len(levels) - 2, 0)]
        own, times = np.unique(domain[homes], return_counts=True)
        near = [np.flatnonzero(domain == d) for d in own[np.argsort(-times, kind="stable")]]
    shape = group.shape
    for hosts in near:
        fits = placement.fits(shape)[hosts]
        if fits.sum() < group.count:
            continue
        order = np.lexsort((placement.whole[hosts], ~np.isin(hosts, homes)))
        # On each host first what it held there, so that no task leaves one to join others.
        kept = np.minimum(fits, held[hosts] // max(int(problem.shape_gpu[shape]), 1))[order]
        parts = np.concatenate([kept, fits[order] - kept])
        parts = np.diff(np.minimum(np.cumsum(parts), group.count), prepend=0)
        number = parts.reshape(2, -1).sum(axis=0)
        return [
            TaskPlacement(0, host, 1, placement.put(shape, host))
            for host, n in zip(hosts[order].tolist(), number.tolist(), strict=True)
            for _ in range(n)
        ]
    return place_choice(placement, choice)


def lift_all(placement: Placement, choice: Choice, puts: list[TaskPlacement]) -> None:
    """Release what tasks of an option hold."""
    for put in puts:
        placement.lift(choice.groups[put.group].shape, put)


# Fills free hosts: greedily by value, or by progressive filling where `share` precedes `value`.
#
# Progressive filling (Ghodsi et al., Dominant Resource Fairness, NSDI 2011, algorithm 1): the
# tenant with the least dominant share starts its next job, until no job fits. Jobs without a
# tenant come last.


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


# Option upgrades: started jobs change to options of more progress, by marginal gain per GPU.
#
# A greedy for the multiple-choice knapsack. Where all options of a job have the same value, the
# first plan gives as many jobs as possible their cheapest option; upgrades then use what is left
# free, the change of largest gain per additional GPU first. The policy's order of `value`,
# `entitled` and `progress` defines the gain. Running jobs keep their option, or change it, too, for
# terms that come before what that costs.


Change = tuple[tuple[float, ...], int, int, int]
"""(minus the gain per additional GPU, class, choice before, choice after): a heap entry."""


def upgrade_options(placement: Placement, *, running: bool = False) -> None:
    """Change options of started jobs, and of `running` ones, while that gains."""
    tuning = parameters.PARAMETERS.placement
    problem = placement.problem
    quota = placement.quota_left()
    starts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, start in placement.started():
        if start.job == ANY_JOB or running:
            starts[start.job_class, start.choice].append(number)
    changes = [change for c, o in starts for change in _changes(problem, c, o)]
    heapify(changes)
    failed: set[tuple[int, int, int]] = set()
    for _ in range(tuning.max_option_changes):
        while changes and (changes[0][1:] in failed or not starts[changes[0][1:3]]):
            heappop(changes)
        if not changes:
            return
        _, c, o, better = changes[0]
        number, changed = _change(placement, quota, starts[c, o].pop(), better)
        if changed and not starts[c, better]:
            for change in _changes(problem, c, better):
                heappush(changes, change)
        if not changed:
            failed.add((c, o, better))
        starts[c, better if changed else o].append(number)


def _changes(problem: Problem, c: int, o: int) -> list[Change]:
    """Return all changes from one option that gain something."""
    choices, terms = problem.classes[c].choices, problem.terms
    if problem.classes[c].running:
        terms = tuple(takewhile(lambda term: term not in ("disruption", "freed"), terms))
    terms = tuple(term for term in terms if term in OPTION_SUMS)
    found: list[Change] = []
    for better, choice in enumerate(choices):
        gain = _gain(terms, choices[o], choice)
        if gain > (0,) * len(gain):
            more = problem.demand_of(choice, -1) - problem.demand_of(choices[o], -1)
            # What takes no more is free; of such changes the one that gains most comes first.
            per_gpu = (
                tuple(-g / more for g in gain) if more > 0 else (-inf, *(-float(g) for g in gain))
            )
            found.append((per_gpu, c, o, better))
    return found


def _gain(terms: Sequence[str], before: Choice, after: Choice) -> tuple[int, ...]:
    """Return what a change adds to the terms that are sums over options, in the policy's order."""
    return tuple(after.amount(term) - before.amount(term) for term in terms)


def _change(
    placement: Placement, quota: dict[QuotaKey, int], number: int, better: int
) -> tuple[int, bool]:
    """Start a job with another option if it fits; return its number, and whether it changed."""
    problem = placement.problem
    start = placement.get(number)
    if start is None:
        raise ValueError(f"start {number} was stopped; expected one that holds something")
    accounts = problem.classes[start.job_class].accounts
    choices = problem.classes[start.job_class].choices
    placement.stop(number)
    problem.charge_quota(quota, accounts, choices[start.choice], -1)
    if problem.within_quota(quota, accounts, choices[better]):
        with placement.unranked() if start.job != ANY_JOB else nullcontext():
            puts = place_near(placement, choices[better], start.job)
        if puts is not None:
            changed = placement.start(start.job_class, better, puts, start.job)
            if start.job == ANY_JOB or placement.may_resize(start.job):
                problem.charge_quota(quota, accounts, choices[better])
                return changed, True
            placement.stop(changed)
    problem.charge_quota(quota, accounts, choices[start.choice])
    return placement.restart(start), False
