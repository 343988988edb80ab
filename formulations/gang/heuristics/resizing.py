"""Running jobs resize: sizes by the counts of the aggregate model, then places close to home."""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.search import Search, Steps
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_classes import host_classes
from placewright.formulations.gang.models.aggregate.model import build_aggregate_model
from placewright.formulations.gang.models.aggregate.solve import (
    option_reduced_costs,
    search_core,
    tasks_per_host,
)
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.greedy import place_near, upgrade_options
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, NO_LEVEL, Choice
from placewright.formulations.gang.problem.limits import OPTION_SUMS
from placewright.formulations.plan_messages import HOLD_SLACK, Bound
from placewright.formulations.session import Session
from placewright.solver import Outcome
from placewright.topology.units import WHOLE_GPU

# Who changes its size pays its restart anyhow, so all of them are taken out, and come again with
# the jobs that start, the largest first: whole hosts are still free together then. Each goes to its
# own hosts as far as they have room, then to its own domain, then anywhere, if need be where small
# jobs of an unchanged size make room for it; else it gets the next smaller size that fits. Then
# jobs grow with what is left.
#
# To shrink and grow in place first would leave free GPUs scattered, a few on each host.


def resize_by_counts(search: Search) -> Steps:
    """Yield a plan with the sizes that the aggregate model by sums finds best."""
    problem = search.problem
    empty = Placement(problem, cleared=True)
    capacity = tasks_per_host(empty)
    counts = build_aggregate_model(problem, host_classes(problem, capacity), capacity, empty.whole)
    patterns = GpuPatterns(counts) if len(counts.parts) else None
    values: Floats | None = None
    holds: list[tuple[str, int]] = []
    for term in takewhile(lambda term: term in OPTION_SUMS, problem.terms):
        held = search.proven(term)
        if held is None:
            outcome = _searched(search.session, counts, term)
            if outcome is None or outcome.values is None or outcome.objective is None:
                break
            if patterns is None and outcome.bound is not None:
                yield Bound(term, problem.round_bound(term, outcome.bound), tuple(holds))
            values, held = outcome.values, round(outcome.objective)
        counts.model.hold(term, held, HOLD_SLACK)
        holds.append((term, held))
    if values is not None:
        placement = Placement(problem)
        number = np.rint(values[counts.y]).astype(np.int64)
        if _place(placement, counts, number, search.session):
            upgrade_options(placement, running=True)
            yield from search.report(placement, "resizing")


def _searched(session: Session, counts: AggregateModel, term: str) -> Outcome | None:
    """Search a term of the counts, of a large model among columns that its relaxation leaves."""
    arrays, row = counts.model.arrays(term), counts.option_row[counts.y_class]
    share = parameters.PARAMETERS.models.relaxation_share
    relaxed = session.optimise(counts.model.arrays(term, relax=True), share=share)
    reduced = option_reduced_costs(arrays, relaxed, counts.y, row)
    return search_core(session, arrays, reduced, parameters.PARAMETERS.models.sizes_gap_rel)


def _place(placement: Placement, counts: AggregateModel, number: Ints, session: Session) -> bool:
    """Place what starts and resizes with the options that counts give it.

    Returns whether there was time for all of them; else some of those that run have no place yet.
    """
    problem = placement.problem
    of_class: list[Counter[int]] = [Counter() for _ in problem.classes]
    for c, o, n in zip(counts.y_class, counts.y_choice, number, strict=True):
        of_class[c][int(o)] += int(n)
    work: list[_Work] = []
    for c, (job_class, asked) in enumerate(zip(problem.classes, of_class, strict=True)):
        jobs = list(job_class.jobs) if job_class.running else [ANY_JOB] * asked.total()
        changed = [o for o, n in asked.items() for _ in range(n) if o or not job_class.running]
        # Of equal running jobs the last ones change.
        for job, o in zip(reversed(jobs), changed, strict=False):
            work.append(_work(placement, job, c, o))
            if job != ANY_JOB:
                placement.stop(placement.start_of(job))
    heapify(work)
    kept = _Kept(placement)
    with placement.unranked():
        while work and not session.expired():
            *_, job, c, o = heappop(work)
            for moved in _start(placement, kept, job, c, o):
                heappush(work, _work(placement, moved, problem.running[moved].job_class, 0))
    return not work


_Work: TypeAlias = tuple[bool, int, int, int, int, int]
"""Whether a job is free to go, minus the milli-GPU and value of a choice, job, class and choice."""


def _work(placement: Placement, job: int, c: int, o: int) -> _Work:
    choice, budget = placement.problem.classes[c].choices[o], placement.problem.budget
    free = budget is None or not budget.is_pinned(job)
    return free, -placement.problem.demand_of(choice, -1), -choice.value, job, c, o


def _start(placement: Placement, kept: _Kept, job: int, c: int, o: int) -> list[int]:
    """Start a job with an option, or with the next smaller one that fits; return who makes room."""
    problem, job_class = placement.problem, placement.problem.classes[c]
    size = [problem.demand_of(choice, -1) for choice in job_class.choices]
    smaller = [k for k, asked in enumerate(size) if asked < size[o]]
    for k in [o, *sorted(smaller, key=lambda k: -size[k])]:
        choice = job_class.choices[k]
        if placement.quota_excess(job_class.accounts, choice):
            continue
        if job != ANY_JOB and not k and placement.fits_in_place(job):
            placement.restart(problem.running_placement_of[job])
            return []
        puts, moved = place_near(placement, choice, job), list[int]()
        if puts is None:
            moved = kept.make_room(choice)
            puts = place_near(placement, choice, job) if moved else None
        if puts is not None:
            number = placement.start(c, k, puts, job)
            if job == ANY_JOB or placement.may_resize(job):
                return moved
            placement.stop(number)
        for other in moved:
            placement.restart(problem.running_placement_of[other])
    return []


class _Kept:
    """Running jobs of one task of whole GPUs that keep their size: they may make room for others.

    They come to another host, which costs a migration, and no progress. Not under a disruption
    budget, which may not allow it.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement, problem = placement, placement.problem
        self._on: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for start in problem.running_placements if problem.budget is None else ():
            choice = placement.choice_of(start)
            gpus = problem.demand_of(choice, -1) // WHOLE_GPU
            if choice.is_single_task and gpus and placement.in_place(start.job):
                self._on[start.tasks[0].host].append((gpus, start.job))
        most = max((gpus for jobs in self._on.values() for gpus, _ in jobs), default=0)
        # (GPUs of a task, hosts): How many such jobs run there
        self._number = np.zeros((most + 1, problem.cluster.num_hosts), dtype=np.int64)
        for host, jobs in self._on.items():
            for gpus, _ in jobs:
                self._number[gpus, host] += 1

    def make_room(self, choice: Choice) -> list[int]:
        """Stop the jobs of fewest GPUs without which the tasks of an option fit; return them.

        None are stopped where that is not enough, and for options of several or tied groups.
        """
        placement, problem, group = self._placement, self._placement.problem, choice.groups[0]
        each = int(problem.shape_gpu[group.shape]) // WHOLE_GPU
        if len(choice.groups) > 1 or choice.is_tied or not each:
            return []
        fits = placement.fits(group.shape)
        able = np.flatnonzero(problem.shape_hosts[group.shape])
        cost = np.full(len(fits), np.inf)
        cost[able] = np.where(fits[able] > 0, 0.0, self._cost(each)[able])
        domain = np.zeros(len(fits), dtype=np.int64)
        if group.required != NO_LEVEL:
            domain = problem.cluster.domain[group.required].astype(np.int64)
        best, least = list[int](), np.inf
        for d in np.unique(domain[able]).tolist():
            hosts = able[(domain[able] == d) & np.isfinite(cost[able])]
            hosts = hosts[np.argsort(cost[hosts], kind="stable")]
            enough = int(np.searchsorted(np.cumsum(np.maximum(fits[hosts], 1)), group.count)) + 1
            if enough <= len(hosts) and cost[hosts[:enough]].sum() < least:
                best, least = hosts[:enough].tolist(), cost[hosts[:enough]].sum()
        moved = [one for h in best if not fits[h] for one in self._cheapest(h, each)]
        for gpus, job in moved:
            host = problem.running[job].places[0][2]
            self._on[host].remove((gpus, job))
            self._number[gpus, host] -= 1
            placement.stop(placement.start_of(job))
        return [job for _, job in moved]

    def _cost(self, gpus: int) -> Floats:
        """Return the GPUs of the jobs that `_cheapest` finds on each host, infinite for none."""
        lacking = gpus - self._placement.whole
        short, cost = lacking > 0, np.zeros(len(lacking))
        for size, number in enumerate(self._number[:gpus]):
            if size and number.any():
                leave = np.minimum(number, -(-lacking.clip(min=0) // size)) * size
                lacking, cost = lacking - leave, cost + leave
        return np.where(short & (lacking <= 0), cost, np.inf)

    def _cheapest(self, host: int, gpus: int) -> list[tuple[int, int]]:
        """Return jobs smaller than a task without which a host has so many free GPUs, or []."""
        lacking, found = gpus - int(self._placement.whole[host]), list[tuple[int, int]]()
        for one in sorted(self._on.get(host, ())):
            if lacking > 0 and one[0] < gpus:
                found.append(one)
                lacking -= one[0]
        return found if lacking <= 0 else []
