"""Homes by simulated annealing: data follows the jobs, and prices stand for what is scarce.

A unit is some jobs of one workload that move together. One step takes a unit out and puts it back
where it costs least, with noise: the GiB of replicas that it would be the only reader of, overload,
and what the region's storage and links cannot take. Sometimes many readers of a group move
together, since a replica is made for its first reader and saved only with its last. The noise
falls, and the price of overload rises.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.heuristics.annealing_kernel import NOWHERE, State, put, sweep
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Draft
from placewright.formulations.session import Session

LARGE = 0.05
"""Jobs of a workload move one by one where one is more than this part of a usual cell."""

REMOTE_WORTH = 16.0
"""A GiB read from afar counts as so many copied."""

HOT, COLD = 4.0, 0.005
"""Noise at first and in the end, in GiB of a usual group."""

CHEAP, DEAR = 0.0001, 100.0
"""Price of overload at first and in the end, in GiB of usual groups per usual unit."""

FULL = 0.8
"""Share of what links take that copies may need: not all of it is where they could use it."""

SWEEPS = 700
"""Sweeps, at most: to anneal again and to cross both pays more than more of them."""

TOGETHER = 6
"""Moves of many readers of a group, per group and sweep."""


class Annealing:
    """Units and where they are."""

    def __init__(self, problem: Problem, draft: Draft, may_hold: Bools, seed: int) -> None:
        self.problem, self._may_hold = problem, may_hold
        self._random = np.random.default_rng(seed)
        self._state = started(problem, draft, may_hold)

    def run(self, session: Session, seconds: float) -> Draft:
        """Return the draft after so many seconds, or `SWEEPS` of all units if that is sooner."""
        size, asks = self.problem.size[self.problem.size > 0], self._state.asks
        usual = float(np.median(size)) if size.size else 1.0
        price = usual / max(1.0, float(np.median(asks))) if asks.size else 0.0
        until, number, done = session.remaining() - seconds, 0, 0.0
        while done < 1.0:
            sweep(
                self._state,
                self._random.permutation(asks.size),
                TOGETHER * self.problem.groups,
                usual * HOT * (COLD / HOT) ** done,
                price * CHEAP * (DEAR / CHEAP) ** done,
                self._random,
            )
            number += 1
            done = number / SWEEPS
            if not session.deterministic and seconds > 0:
                done = max(done, 1.0 - (session.remaining() - until) / seconds)
            elif session.expired(until):
                break
        return self.draft()

    def draft(self) -> Draft:
        """Return where everything is."""
        problem, state = self.problem, self._state
        jobs = np.zeros(problem.may.shape, dtype=np.int64)
        there = state.cell != NOWHERE
        cells = jobs.reshape(problem.workloads, -1)
        np.add.at(cells, (state.workload[there], state.cell[there]), state.jobs[there].astype(int))
        read = Draft(jobs, problem.now).read(problem) & self._may_hold
        unread = np.logical_not(read.any(axis=1))
        replicas = read | problem.fixed | (problem.now & unread[:, None])
        return Draft(jobs, replicas).trimmed(problem)


def started(problem: Problem, draft: Draft, may_hold: Bools) -> State:
    """Return every unit where it is in a draft, and data at most where it may be."""
    workload, jobs, cells = _units(problem, draft)
    regions = problem.regions
    apart = ~may_hold[problem.read_group]
    barred = np.zeros((problem.workloads, regions), dtype=np.bool_)
    np.logical_or.at(barred, problem.read_workload, apart & ~problem.read_remote[:, None])
    afar = np.zeros((problem.workloads, regions))
    np.add.at(afar, problem.read_workload, apart * problem.read_gib[:, None] * REMOTE_WORTH)
    first = np.searchsorted(problem.read_workload, np.arange(problem.workloads + 1))
    reads = (first[1:] - first[:-1])[workload]
    reader = np.repeat(np.arange(workload.size), reads)
    within = np.arange(reader.size) - np.repeat(np.cumsum(reads) - reads, reads)
    read = problem.read_group[first[workload[reader]] + within]
    unread = np.ones(problem.groups, dtype=np.bool_)
    unread[problem.read_group] = False
    stays = (problem.now & unread[:, None]).T.astype(np.int64) @ problem.size
    size = problem.size[:, None].astype(np.float64)
    budget = problem.wan.budget.astype(np.float64)
    state = State(
        workload=workload,
        jobs=jobs.astype(np.float64),
        asks=(jobs * problem.demand[workload]).astype(np.float64),
        first=first,
        groups=problem.read_group.copy(),
        may=problem.may & ~barred[:, :, None],
        afar=afar,
        first_at=np.searchsorted(np.sort(read), np.arange(problem.groups + 1)),
        at=reader[np.argsort(read, kind="stable")],
        supply=problem.supply.ravel().astype(np.float64),
        origin=np.where(problem.origin < 0, regions, problem.origin),
        need=np.where(may_hold, size, 0.0),
        copy=np.where(may_hold & ~problem.now, size, 0.0),
        cell=np.full(workload.size, NOWHERE),
        load=np.zeros(problem.supply.size),
        readers=np.zeros(problem.now.shape, dtype=np.int64),
        copies=np.zeros(problem.groups, dtype=np.int64),
        room=(problem.storage - stays).astype(np.float64),
        into=FULL * problem.incoming.astype(np.float64),
        out=np.append(FULL * problem.outgoing.astype(np.float64), np.inf),
        total=np.array([FULL * budget.sum()]),
        link=np.vstack([budget, np.full(regions, np.inf)]),
        costs=np.zeros(regions),
        moved=np.zeros_like(workload),
        before=np.zeros_like(workload),
    )
    for unit, cell in enumerate(cells.tolist()):
        put(state, unit, cell)
    return state


def _units(problem: Problem, draft: Draft) -> tuple[Ints, Ints, Ints]:
    """Cut workloads into units; return of each the workload, the jobs and the cell in a draft."""
    supply = problem.supply[problem.supply > 0]
    usual = float(np.median(supply)) if supply.size else 0.0
    at_once = np.maximum(1, (LARGE * usual // np.maximum(1, problem.demand)).astype(np.int64))
    cells = draft.jobs.reshape(problem.workloads, -1)
    homeless = problem.count - cells.sum(axis=1)
    jobs = np.column_stack([homeless, cells])
    w, cell = np.nonzero(jobs)
    number = -(-jobs[w, cell] // at_once[w])
    workload, cell = np.repeat(w, number), np.repeat(cell, number) - 1
    before = np.arange(workload.size) - np.repeat(np.cumsum(number) - number, number)
    left = jobs[workload, cell + 1] - before * at_once[workload]
    return workload, np.minimum(at_once[workload], left), cell
