"""The incumbent: the best solution whose transfers exist, and the repair of those that do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import count

import numpy as np

from placewright.array_types import Bools, Floats
from placewright.formulations.common.wan.arrays import NONE, UNLIMITED, Wan
from placewright.formulations.common.wan.routing import Transfers, never_out_of_time, schedule
from placewright.formulations.plan_messages import Candidate, DataPlan, Flow
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.greedy import (
    GreedyPlacement,
    drop_idle_replicas,
    exchange_homes,
    place_homeless_jobs,
    placement_order,
)
from placewright.formulations.replicas.heuristics.lns import LargeNeighbourhoodSearch
from placewright.formulations.replicas.models.mip import is_small
from placewright.formulations.replicas.problem.compile import forced_replicas
from placewright.formulations.replicas.problem.problem import Layout, Problem
from placewright.formulations.replicas.solution import Solution
from placewright.formulations.session import Session

# Transfer scheduling of a solution, and repair where links refuse a copy.


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


# The incumbent: the best solution whose transfers exist, and the copies that links refused.


class Incumbent:
    """The best solution so far, from which heuristics continue.

    `solution`: at first a greedy one, whose transfers are not known yet. `refused` (dataset
    classes, regions): copies that links refused beside those of earlier solutions.
    """

    def __init__(self, problem: Problem, session: Session) -> None:
        self.problem, self.session = problem, session
        self.solution = GreedyPlacement(problem).solution()
        self.refused: Bools = np.zeros_like(problem.current)

    @property
    def objective(self) -> tuple[int, int, int]:
        """The leading terms of the solution."""
        return self.solution.objective(self.problem)

    def accept(self, solution: Solution, source: str) -> Candidate:
        """Return a solution with transfers as a candidate; it becomes the incumbent if better."""
        problem = self.problem
        solution = drop_idle_replicas(problem, solution)
        grace = parameters.PARAMETERS.grace_s - min(0.0, self.session.before_deadline())
        late = partial(self.session.overdue, grace)
        solution, plan, refused = repair_transfers(problem, solution, self.refused, late)
        self.solution = min(solution, self.solution, key=lambda each: each.objective(problem))
        if not is_small(problem):
            # Without these a job must read more remotely; beside other copies they may do.
            left = replace(problem, may_hold=problem.may_hold & ~self.refused)
            refused &= ~forced_replicas(left)
        self.refused |= refused
        return Candidate({}, source, final=True, data=plan)

    def retry_refused_copies(self) -> None:
        """Refuse only copies that links cannot carry even alone."""
        self.refused = self._untransferable.copy()

    @cached_property
    def _untransferable(self) -> Bools:
        reserve = (1 - parameters.PARAMETERS.transfer_test_time_share) * self.session.remaining()
        return untransferable_copies(self.problem, lambda: self.session.expired(reserve))

    def search_from(
        self, solution: Solution, relaxed: Floats | None = None
    ) -> LargeNeighbourhoodSearch:
        """Return a search from a solution, without refused copies."""
        search = LargeNeighbourhoodSearch(self.problem, self.session, solution, relaxed)
        search.set_incumbent(solution, self.refused)
        return search

    def recombine(self, solution: Solution, seconds: float) -> Solution:
        """Return the better of a solution and the incumbent, recombined with the other one."""
        best, other = sorted(
            (self.solution, solution), key=lambda each: each.objective(self.problem)
        )
        search = self.search_from(best)
        search.recombine(other.replicas, seconds)
        return search.solution


# Large-neighbourhood search within the time, which reports an incumbent now and then.


def search_neighbourhoods(
    incumbent: Incumbent,
    relaxed: Floats | None,
    reserve: float,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Candidate]:
    """Yield better plans than the incumbent, seldom, since scheduling their transfers takes time.

    Ends when `reserve` seconds are left, or after an iteration once `stop` is true.
    `relaxed` (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """
    session, values = incumbent.session, parameters.PARAMETERS
    search = incumbent.search_from(incumbent.solution, relaxed)
    cost, reported, better = 0.0, time.monotonic(), False
    for number, found in enumerate(search.iterations(reserve)):
        better |= found and search.solution.objective(incumbent.problem) < incumbent.objective
        late = session.expired(reserve + values.last_plan_reserve_factor * cost)
        over = late or number >= values.max_neighbourhoods or stop()
        due = (
            not session.deterministic
            and time.monotonic() - reported > values.report_interval_factor * cost
        )
        if better and (over or due):
            began = time.monotonic()
            yield incumbent.accept(search.solution, "search")
            search.set_incumbent(incumbent.solution, incumbent.refused)
            reported, better = time.monotonic(), False
            cost = reported - began
        if over:
            break
    if better:
        yield incumbent.accept(search.solution, "search")
