"""Disaggregation: from the integer counts of the aggregate model to hosts.

Gangs go to their domains first, then one-task jobs are packed class by class. The counts hold CPU
and memory as sums per class, so some jobs may not fit there: they are tried on any host, and the
greedy fills what is still free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.class_packing import (
    ClassPacking,
    StartCounts,
    priority_class_of,
    single_jobs,
)
from placewright.formulations.gang.heuristics.domain_packing import pack_domains
from placewright.formulations.gang.heuristics.stopping import close_enough
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import TaskPlacement
from placewright.formulations.gang.problem.pools import WHOLE_CLUSTER
from placewright.formulations.session import Session

Gang: TypeAlias = tuple[int, int, dict[int, tuple[int, int]]]
"""A job of several tasks: class, choice, and per group index the (level, domain) it is to be in."""


def disaggregate(
    counts: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    values: NDArray[np.float64],
    session: Session,
) -> Placement:
    """Place what the counts start, and fill the rest greedily."""
    problem = counts.problem
    number = np.rint(values).astype(np.int64)
    starts: StartCounts = defaultdict(int)
    for c, o, n in zip(counts.y_class, counts.y_choice, number[counts.y], strict=True):
        if n:
            starts[int(c), int(o)] += int(n)
    packed = None
    if problem.pools and starts:
        # Counts know pools in sums.
        packed = Placement(problem)
        pack_domains(packed, session, starts)
        fill_by_policy(packed)
        if close_enough(problem, session, packed):
            return packed
    placement = Placement(problem)
    _place_by_class(counts, patterns, number, placement, starts, session)
    fill_by_policy(placement)
    return placement if packed is None else max(packed, placement, key=lambda p: p.value)


def _place_by_class(
    counts: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    number: NDArray[np.int64],
    placement: Placement,
    starts: StartCounts,
    session: Session,
) -> None:
    """Place gangs in the domains that the counts chose, and one-task jobs by host class."""
    problem = counts.problem
    _place_gangs(counts, number, placement, starts)
    if isinstance(patterns, HostPatterns):
        _place_columns(counts, patterns, number, placement, starts)
    else:
        ClassPacking(counts, patterns, number, placement, starts, session).pack()
    for (c, o), n in sorted(starts.items(), key=lambda s: priority_class_of(problem, s[0])):
        choice = problem.classes[c].choices[o]
        for _ in range(n):
            puts = place_choice(placement, choice)
            if puts is None:
                break
            placement.start(c, o, puts)


def gangs_of(counts: AggregateModel, number: NDArray[np.int64], starts: StartCounts) -> list[Gang]:
    """Jobs of several tasks, one by one, as (class, choice, domain of each group that has one).

    Those bound to the innermost domains come first, large before small.
    """
    problem = counts.problem
    domains: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # by kind
    for i in np.flatnonzero(number[counts.u]):
        place = (int(counts.gangs.level[i]), int(counts.gangs.domain[i]))
        domains[int(counts.gangs.kind[i])] += [place] * int(number[counts.u[i]])
    work = []
    for (c, o), n in starts.items():
        choice = problem.classes[c].choices[o]
        for _ in range(0 if choice.is_single_task else n):
            inside: dict[int, tuple[int, int]] = {}
            for k, group in enumerate(choice.groups):
                if group in counts.gang_kind_of and domains[counts.gang_kind_of[group]]:
                    inside[k] = domains[counts.gang_kind_of[group]].pop()
            level = max((place[0] for place in inside.values()), default=WHOLE_CLUSTER)
            work.append((-level, -problem.demand_of(choice, -1), c, o, inside))
    work.sort(key=lambda w: w[:4])
    return [(c, o, inside) for _, _, c, o, inside in work]


def _place_gangs(
    counts: AggregateModel, number: NDArray[np.int64], placement: Placement, starts: StartCounts
) -> None:
    for c, o, inside in gangs_of(counts, number, starts):
        puts = place_choice(
            placement, counts.problem.classes[c].choices[o], domain_masks(counts, inside)
        )
        if puts is not None:
            placement.start(c, o, puts)
            starts[c, o] -= 1


def _place_columns(
    counts: AggregateModel,
    patterns: HostPatterns,
    number: NDArray[np.int64],
    placement: Placement,
    starts: StartCounts,
) -> None:
    """One-task jobs: each host that no gang took gets a pattern of its class, fullest first.

    A pattern may hold more tasks than are started, and tasks of gangs; those places stay empty.
    """
    waiting = single_jobs(counts.problem, starts)
    taken = {put.host for _, start in placement.started() for put in start.tasks}
    hosts: list[list[int]] = [[] for _ in range(len(counts.host_classes))]
    for host in np.flatnonzero(counts.host_classes.of_host >= 0)[::-1].tolist():
        if host not in taken:
            hosts[counts.host_classes.of_host[host]].append(host)
    for kind, cut, times in patterns.in_use(number):
        shapes = np.flatnonzero(cut).tolist()
        free = hosts[kind]
        for _ in range(times):
            if not free or not any(waiting[s] for s in shapes):
                break
            host = free.pop()
            for s in shapes:
                if not counts.problem.shape_hosts[s, host]:
                    continue  # hosts of a class may differ in who may be there by name
                for _ in range(min(int(cut[s]), len(waiting[s]))):
                    if not placement.pools.fits_host(s, host):
                        break
                    c, o = waiting[s].pop()
                    placement.start(c, o, [TaskPlacement(0, host, 1, placement.put(s, host))])
                    starts[c, o] -= 1


def domain_masks(
    counts: AggregateModel, inside: Mapping[int, tuple[int, int]]
) -> dict[int, NDArray[np.bool_]]:
    """Hosts of the domains that groups, by index, are to be in; none where that is anywhere."""
    domain = counts.problem.cluster.domain
    return {k: domain[level] == d for k, (level, d) in inside.items() if level != WHOLE_CLUSTER}
