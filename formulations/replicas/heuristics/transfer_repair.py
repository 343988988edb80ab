"""Transfer scheduling of a solution, and repair where links refuse a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.wan.arrays import NONE, UNLIMITED, Wan
from placewright.formulations.common.wan.scheduler import Transfers, never_out_of_time, schedule
from placewright.formulations.plan_messages import DataPlan, Flow
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.greedy import (
    GreedyPlacement,
    place_homeless_jobs,
    placement_order,
)
from placewright.formulations.replicas.heuristics.home_exchange import exchange_homes
from placewright.formulations.replicas.problem.problem import Layout, Problem
from placewright.formulations.replicas.solution import Solution


def repair_transfers(
    problem: Problem,
    solution: Solution,
    refused: Bools,
    late: Callable[[], bool] = never_out_of_time,
) -> tuple[Solution, DataPlan, Bools]:
    """Return a solution with transfers for all of its copies, its plan, and the refused copies.

    Refused copies (dataset classes, regions) become tabu, and their readers get other homes: in the
    first attempts with other copies, later only beside replicas that are left, so that it ends.
    Scheduled copies keep their flows in later attempts. Once `late` returns true, no other copies
    are made.
    """
    refused = refused.copy()
    known: tuple[Flow, ...] = ()
    for attempt in count():
        solution = place_homeless_jobs(problem, solution)
        layout = solution.layout(problem)
        transfers = schedule(problem.wan, *_requests(problem, layout), known, late)
        not_made = _not_made(problem, layout, transfers)
        if not not_made.any():
            break
        refused |= not_made & ~problem.current
        known = transfers.flows
        copies = (
            problem.may_hold
            & ~refused
            & (attempt < parameters.PARAMETERS.max_attempts_with_copies and not late())
        )
        solution = exchange_homes(problem, _without(problem, solution, not_made, copies))
    return solution, _plan(layout, transfers), refused


def is_transferable(wan: Wan, copies: Bools) -> bool:
    """Whether links carry these copies (datasets, regions) where storage does not matter."""
    roomy = replace(wan, storage=np.full_like(wan.storage, UNLIMITED))
    d, r = np.nonzero(copies)
    return not schedule(roomy, list(zip(d.tolist(), r.tolist(), strict=True)), []).refused


def untransferable_copies(problem: Problem, late: Callable[[], bool] = never_out_of_time) -> Bools:
    """Return copies (dataset classes, regions) that links cannot carry even alone.

    Only datasets larger than every single link into the region are tried. Storage is left out,
    since data in the region may be dropped first. It ends once `late` returns true.
    """
    wan = problem.wan
    large = wan.size[:, None] > wan.budget.max(axis=0)
    refused = np.zeros_like(problem.current)
    d, r = np.nonzero(large & (problem.may_hold & ~problem.current)[problem.dataset_class])
    for dataset, region in zip(d.tolist(), r.tolist(), strict=True):
        if late():
            break
        alone = np.zeros_like(large)
        alone[dataset, region] = True
        if not is_transferable(wan, alone):
            refused[problem.dataset_class[dataset], region] = True
    return refused


def _without(problem: Problem, solution: Solution, not_made: Bools, copies: Bools) -> Solution:
    """Return a solution without the refused copies; a class left without any stays where it was."""
    replicas = solution.replicas & ~(not_made & ~problem.current)
    # Nobody drops the last replica, and a drop that was not made is none.
    bare = ~replicas.any(axis=1) | (not_made & problem.current).any(axis=1)
    replicas[bare] |= problem.current[bare]
    changed = (replicas != solution.replicas).any(axis=1)
    moved = np.zeros(problem.job_classes, dtype=np.bool_)
    moved[problem.read_class[changed[problem.read_dataset_class]]] = True
    placing = GreedyPlacement(problem, replicas, copies)
    placing.keep(solution, np.flatnonzero(~moved))
    order = placement_order(problem)
    placing.place(order[moved[order]].tolist())
    return placing.solution().without_idle_copies(problem)


def _requests(
    problem: Problem, layout: Layout
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the copies, by descending GiB of reads that they save, and the drops."""
    wan = problem.wan
    region = layout.homes[wan.read_job, 0]
    there = region != NONE
    reads = np.zeros(layout.replicas.shape, dtype=np.int64)
    # A read that must be local decides whether a job runs at all.
    weight = np.where(wan.read_remote, 1, 10**3) * wan.read_gib
    np.add.at(reads, (wan.read_dataset[there], region[there]), weight[there])
    d, r = np.nonzero(layout.creates(wan))
    order = np.argsort(-reads[d, r], kind="stable")
    creates = list(zip(d[order].tolist(), r[order].tolist(), strict=True))
    d, r = np.nonzero(layout.drops(wan))
    return creates, list(zip(d.tolist(), r.tolist(), strict=True))


def _not_made(problem: Problem, layout: Layout, transfers: Transfers) -> Bools:
    """Return where a copy or a drop is not made (dataset classes, regions)."""
    not_made = layout.creates(problem.wan) | layout.drops(problem.wan)
    for made in (transfers.creates, transfers.drops):
        for dataset, region, _ in made:
            not_made[dataset, region] = False
    found = np.zeros_like(problem.current)
    d, r = np.nonzero(not_made)
    found[problem.dataset_class[d], r] = True
    return found


def _plan(layout: Layout, transfers: Transfers) -> DataPlan:
    return DataPlan(
        homes={j: (r, m) for j, (r, m) in enumerate(layout.homes.tolist()) if r != NONE},
        creates=transfers.creates,
        drops=transfers.drops,
        flows=transfers.flows,
    )
