"""From a draft to a plan whose copies can be carried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, UNLIMITED, Bools, Wan
from placewright.formulations.common.wan.scheduler import Transfers, never_out_of_time, schedule
from placewright.formulations.replicas.heuristics.greedy import Placing, housed, usual_order
from placewright.formulations.replicas.heuristics.home_exchange import evened
from placewright.formulations.replicas.problem.problem import Layout, Problem
from placewright.formulations.replicas.solution import Draft
from placewright.formulations.session import DataPlan, Flow

ANEW = 6
"""Attempts in which those whose copy is refused may have others made."""


def carry(
    problem: Problem, draft: Draft, refused: Bools, late: Callable[[], bool] = never_out_of_time
) -> tuple[Draft, DataPlan, Bools]:
    """Return a draft of which every copy is carried, its plan, and what was refused on the way.

    What the links refuse is not copied (groups, regions), and who was to read it there finds a home
    elsewhere: first with other copies than those refused so far, later among the replicas that are
    left. Then each attempt copies less, so there is an end. Copies that are carried keep their ways
    in all later attempts. Once it is `late` no other copies are made.
    """
    refused = refused.copy()
    known: tuple[Flow, ...] = ()
    for attempt in count():
        draft = housed(problem, draft)
        layout = draft.layout(problem)
        transfers = schedule(problem.wan, *_wishes(problem, layout), known, late)
        lost = _lost(problem, layout, transfers)
        if not lost.any():
            break
        refused |= lost & ~problem.now
        known = transfers.flows
        copies = problem.may_hold & ~refused & (attempt < ANEW and not late())
        draft = evened(problem, _without(problem, draft, lost, copies))
    return draft, _plan(layout, transfers), refused


def carried(wan: Wan, copies: Bools) -> bool:
    """Whether links carry copies (datasets, regions), as if room were made for all of them."""
    roomy = replace(wan, storage=np.full_like(wan.storage, UNLIMITED))
    d, r = np.nonzero(copies)
    return not schedule(roomy, list(zip(d.tolist(), r.tolist(), strict=True)), []).refused


def too_large(problem: Problem, late: Callable[[], bool] = never_out_of_time) -> Bools:
    """Return the copies (groups, regions) that links cannot carry even alone, as far as it is easy.

    Only data is tried that is more than every single link into the region can take. What lies in
    the region may be dropped before, so storage says nothing here. It ends once it is `late`.
    """
    wan = problem.wan
    large = wan.size[:, None] > wan.budget.max(axis=0)
    refused = np.zeros_like(problem.now)
    d, r = np.nonzero(large & (problem.may_hold & ~problem.now)[problem.group])
    for dataset, region in zip(d.tolist(), r.tolist(), strict=True):
        if late():
            break
        alone = np.zeros_like(large)
        alone[dataset, region] = True
        if not carried(wan, alone):
            refused[problem.group[dataset], region] = True
    return refused


def _without(problem: Problem, draft: Draft, lost: Bools, copies: Bools) -> Draft:
    """Return a draft without some copies; a group of which none is left stays where it was."""
    replicas = draft.replicas & ~(lost & ~problem.now)
    # Nobody drops the last replica, and a drop that was not made is none.
    bare = ~replicas.any(axis=1) | (lost & problem.now).any(axis=1)
    replicas[bare] |= problem.now[bare]
    changed = (replicas != draft.replicas).any(axis=1)
    moved = np.zeros(problem.workloads, dtype=np.bool_)
    moved[problem.read_workload[changed[problem.read_group]]] = True
    placing = Placing(problem, replicas, copies)
    placing.keep(draft, np.flatnonzero(~moved))
    order = usual_order(problem)
    placing.place(order[moved[order]].tolist())
    return placing.draft().trimmed(problem)


def _wishes(
    problem: Problem, layout: Layout
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the copies, the one that saves most reads first, and the drops."""
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


def _lost(problem: Problem, layout: Layout, transfers: Transfers) -> Bools:
    """Return the groups and regions with a copy or a drop that is not made (groups, regions)."""
    lost = layout.creates(problem.wan) | layout.drops(problem.wan)
    for made in (transfers.creates, transfers.drops):
        for dataset, region, _ in made:
            lost[dataset, region] = False
    found = np.zeros_like(problem.now)
    d, r = np.nonzero(lost)
    found[problem.group[d], r] = True
    return found


def _plan(layout: Layout, transfers: Transfers) -> DataPlan:
    return DataPlan(
        homes={j: (r, m) for j, (r, m) in enumerate(layout.homes.tolist()) if r != NONE},
        creates=transfers.creates,
        drops=transfers.drops,
        flows=transfers.flows,
    )
