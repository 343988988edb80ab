"""Greedy plan: jobs by value per GPU, each where it fits best.

It exists before any solver starts, fills what a disaggregation leaves free, and is a baseline. A
task goes to the host with the fewest free GPUs that fits it (best fit); a gang goes to the
smallest domain that holds it, level by level, and inside it to as few sub-domains as possible.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.placement.gang_tree import levels_to_try, place_tied_groups
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, Group, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey
from placewright.formulations.gang.problem.terms import ENTITLED, PROGRESS, VALUE
from placewright.topology.units import WHOLE_GPU


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


def _best_fit(placement: Placement, hosts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first host of `_best_fit_order` for a task of whole GPUs, without sorting."""
    for key in (placement.whole, ~placement.problem.state.busy, placement.free[:, 0]):
        mine = key[hosts]
        hosts = hosts[mine == mine.min()]
    return hosts[:1]


def _best_fit_order(
    placement: Placement, shape: int, hosts: NDArray[np.int64]
) -> NDArray[np.int64]:
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
    placement: Placement,
    choice: Choice,
    within: Mapping[int, NDArray[np.bool_]] | None = None,
) -> list[TaskPlacement] | None:
    """Place all groups of an option where they fit; None, and nothing changed, if they do not.

    `within` restricts groups, by index, to some hosts, bool (hosts,).
    """
    if choice.is_tied or choice.pooled:
        return place_tied_groups(placement, choice, within)
    puts: list[TaskPlacement] = []
    for k in sorted(range(len(choice.groups)), key=lambda k: -choice.groups[k].milli_gpu):
        group = choice.groups[k]
        placed = place_group(placement, group, k, (within or {}).get(k))
        if placed is None:
            lift_all(placement, choice, puts)
            return None
        puts += placed
    return puts


def lift_all(placement: Placement, choice: Choice, puts: list[TaskPlacement]) -> None:
    """Release what tasks of an option hold."""
    for put in puts:
        placement.lift(choice.groups[put.group].shape, put)


def place_group(
    placement: Placement,
    group: Group,
    index: int,
    within: NDArray[np.bool_] | None = None,
) -> list[TaskPlacement] | None:
    """Place a group in the smallest domain that holds it, optionally only on hosts `within`."""
    cluster = placement.problem.cluster
    fits = placement.fits(group.shape)
    if within is not None:
        fits = np.where(within, fits, 0)
    fits = np.minimum(fits, group.count)
    if fits.sum() < group.count:
        return None
    levels = levels_to_try(cluster, group)
    for level in reversed(levels):
        domain = cluster.domain[level]
        capacity = np.bincount(domain, weights=fits, minlength=len(cluster.names[level]))
        enough = np.flatnonzero(capacity >= group.count)
        if len(enough):
            best = enough[capacity[enough].argmin()]
            fits = np.where(domain == best, fits, 0)
            break
        if level == group.required:
            return None
    chosen: list[tuple[int, int]] = []
    _distribute(placement, fits, np.flatnonzero(fits), group.count, 0, chosen)
    return [TaskPlacement(index, h, n, placement.put(group.shape, h, n)) for h, n in chosen]


def _distribute(
    placement: Placement,
    fits: NDArray[np.int64],
    hosts: NDArray[np.int64],
    count: int,
    level: int,
    chosen: list[tuple[int, int]],
) -> None:
    """Distribute `count` tasks over `hosts`, by best fit on few sub-domains per level."""
    domain = placement.problem.cluster.domain[level]
    parts, part_of = np.unique(domain[hosts], return_inverse=True)
    is_host = level == len(placement.problem.cluster.levels) - 1
    capacity = np.bincount(part_of, weights=fits[hosts], minlength=len(parts)).astype(np.int64)
    # Among equal hosts the one in use or with fewer free GPUs goes first.
    tie = placement.whole[hosts] if is_host else np.zeros(len(parts))
    order = np.lexsort((tie, capacity))
    ascending, last = capacity[order], len(order)
    while count:
        # The first that holds what is left; as long as there is none, the largest.
        at = int(np.searchsorted(ascending[:last], count))
        if at == last:
            at = last = last - 1
        part = order[at]
        taken = min(count, int(capacity[part]))
        if is_host:
            chosen.append((int(hosts[part]), taken))
        else:
            inside = hosts[part_of == part]
            _distribute(placement, fits, inside, taken, level + 1, chosen)
        count -= taken
