"""Greedy construction of homes, and local search over homes beside fixed replicas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.problem.problem import (
    Problem,
    Solution,
    imbalance_of,
    overload,
)

NEVER = np.iinfo(np.int64).max


class GreedyPlacement:
    """A partial solution to which job classes are added.

    `replicas` (dataset classes, regions): replicas after the plan; None for the current ones.
    `copies` (dataset classes, regions): copies that may be made in addition.
    """

    def __init__(
        self, problem: Problem, replicas: Bools | None = None, copies: Bools | None = None
    ) -> None:
        self.problem = problem
        self.jobs = np.zeros(problem.allowed_homes.shape, dtype=np.int64)
        self.replicas: Bools = (problem.current if replicas is None else replicas).copy()
        self.load = np.zeros_like(problem.supply)
        self._copies = problem.may_hold if copies is None else copies
        self._room = problem.storage - self.replicas.T.astype(np.int64) @ problem.size
        new = self.replicas & ~problem.current
        self._budget = problem.incoming - new.T.astype(np.int64) @ problem.size
        self._first = np.searchsorted(problem.read_class, np.arange(problem.job_classes + 1))

    def solution(self) -> Solution:
        """Return the solution so far."""
        return Solution(self.jobs.copy(), self.replicas.copy())

    def keep(self, solution: Solution, kept: Ints) -> None:
        """Take over the homes of some job classes; their replicas are here already."""
        self.jobs[kept] = solution.jobs[kept]
        self.load += np.tensordot(self.problem.demand[kept], solution.jobs[kept], axes=1)

    def place(self, job_classes: Iterable[int]) -> None:
        """Give homes to all jobs of some classes that have none, class by class in this order."""
        for w in job_classes:
            left = int(self.problem.count[w] - self.jobs[w].sum())
            while left and (number := self._place(w, left)):
                left -= number

    def _place(self, w: int, left: int) -> int:
        """Give a home to some jobs of a class, at most `left`, and return to how many."""
        problem, demand = self.problem, int(self.problem.demand[w])
        may, remote, missing = self._data(w)
        size = problem.size[problem.read_dataset_class[self._reads(w)]]
        copied = missing.T.astype(np.int64) @ size
        supply = problem.supply
        steps = overload(self.load + demand, supply) - overload(self.load, supply)
        allowed = problem.allowed_homes[w] & may[:, None]
        if not allowed.any():
            return 0
        heat = (self.load + demand) / np.maximum(supply, 1)
        shape = supply.shape
        order = np.lexsort(
            (
                heat.ravel(),
                np.broadcast_to(copied[:, None], shape).ravel(),
                np.broadcast_to(remote[:, None], shape).ravel(),
                steps.ravel(),
                ~allowed.ravel(),
            )
        )
        r, m = divmod(int(order[0]), shape[1])
        # As many more as cost no more than this one.
        load, here = int(self.load[r, m]), int(supply[r, m])
        edge = next((e for e in (here, here * 6 // 5) if load + demand <= e), None)
        number = left if edge is None else min(left, (edge - load) // max(1, demand))
        self._assign(w, r, m, max(1, number), missing[:, r])
        return max(1, number)

    def _reads(self, w: int) -> slice:
        return slice(int(self._first[w]), int(self._first[w + 1]))

    def _data(self, w: int) -> tuple[Bools, Ints, Bools]:
        """Return where a job class may be, its GiB of remote reads there, and what to copy.

        Of shapes (regions,), (regions,) and (reads, regions).
        """
        problem, mine = self.problem, self._reads(w)
        dataset_classes, gib = problem.read_dataset_class[mine], problem.read_gib[mine]
        may = np.ones(problem.regions, dtype=np.bool_)
        remote = np.zeros(problem.regions, dtype=np.int64)
        missing = np.zeros((len(dataset_classes), problem.regions), dtype=np.bool_)
        new = np.zeros(problem.regions, dtype=np.int64)
        must = ~problem.read_remote[mine]
        for i in np.lexsort((-gib, ~must)).tolist():
            p = int(dataset_classes[i])
            here, size = self.replicas[p], int(problem.size[p])
            fits = (new + size <= self._room) & (new + size <= self._budget)
            copy = ~here & self._copies[p] & fits
            missing[i] = copy
            new += np.where(copy, size, 0)
            remotely = ~here & ~copy
            may &= ~remotely if must[i] else ~remotely | problem.linked[here].any(axis=0)
            remote += np.where(remotely, gib[i], 0)
        return may, remote, missing

    def _assign(self, w: int, r: int, m: int, number: int, missing: Bools) -> None:
        problem = self.problem
        self.jobs[w, r, m] += number
        self.load[r, m] += number * problem.demand[w]
        dataset_classes = problem.read_dataset_class[self._reads(w)][missing]
        self.replicas[dataset_classes, r] = True
        size = int(problem.size[dataset_classes].sum())
        self._room[r] -= size
        self._budget[r] -= size


def placement_order(problem: Problem) -> Ints:
    """Return the job classes in the order in which the greedy places them.

    First jobs that are large beside the supply of a region, the largest first; then by GiB of data
    per milli-GPU, where classes with the same data share its size.
    """
    readers = np.bincount(problem.read_dataset_class, minlength=problem.dataset_classes)
    share = problem.size[problem.read_dataset_class] / np.maximum(
        1, readers[problem.read_dataset_class]
    )
    data = np.bincount(problem.read_class, weights=share, minlength=problem.job_classes)
    priority = data / np.maximum(1, problem.demand * problem.count)
    supply = np.sort(problem.supply[problem.supply > 0])
    large = problem.demand * 10 > (np.median(supply) if supply.size else 0)
    order: Ints = np.lexsort((-priority, np.where(large, -problem.demand, 0)))
    return order


def place_homeless_jobs(problem: Problem, solution: Solution) -> Solution:
    """Return a solution in which all jobs have homes that can have one beside these replicas.

    Homes from which some data cannot be read are given up first.
    """
    jobs = np.where(readable_regions(problem, solution.replicas)[:, :, None], solution.jobs, 0)
    homeless = jobs.sum(axis=(1, 2)) < problem.count
    if not homeless.any():
        return solution
    placing = GreedyPlacement(problem, solution.replicas, np.zeros_like(solution.replicas))
    placing.keep(Solution(jobs, solution.replicas), np.arange(problem.job_classes))
    order = placement_order(problem)
    placing.place(order[homeless[order]].tolist())
    return placing.solution()


def readable_regions(problem: Problem, replicas: Bools) -> Bools:
    """Return where job classes can read all their data (job classes, regions)."""
    over_links: Bools = replicas.astype(np.float64) @ problem.linked > 0
    p = problem.read_dataset_class
    reads = replicas[p] | (problem.read_remote[:, None] & over_links[p])
    found = np.ones((problem.job_classes, problem.regions), dtype=np.bool_)
    np.logical_and.at(found, problem.read_class, reads)
    return found


def greedy_solution(problem: Problem, *, copying: bool = True) -> Solution:
    """Return the greedy solution, with or without new replicas."""
    placing = GreedyPlacement(problem, copies=None if copying else np.zeros_like(problem.may_hold))
    placing.place(placement_order(problem).tolist())
    return placing.solution().without_idle_copies(problem)


# Local search over homes beside fixed replicas: relocations, swaps and ejections of single jobs.
#
# Refused copies become known only when transfers are scheduled. Readers then take the best
# remaining home one by one, and a job with alternatives may block one without. So a job moves,
# swaps with another, or ejects one to where that costs least, as long as overload or remote reads
# fall.


EXCLUDED = 2**60
"""GiB that a job reads remotely where it cannot be."""


class _Move(NamedTuple):
    """A job that moves to another cell, and maybe one that it ejects from there."""

    overload: int
    reads: int
    job_class: int
    target: int
    other: int = NONE
    onwards: int = NONE


def exchange_homes(problem: Problem, solution: Solution) -> Solution:
    """Return a solution with no more overload and remote reads, with the same replicas or fewer."""
    homes = _Homes(problem, solution)
    if not homes.improve():
        return solution
    return Solution(homes.jobs.reshape(solution.jobs.shape), solution.replicas).without_idle_copies(
        problem
    )


class _Homes:
    """The jobs of each class in each cell, a GPU model of a region (job classes, cells)."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.jobs = solution.jobs.reshape(problem.job_classes, problem.supply.size).copy()
        self._demand = problem.demand
        self._supply = problem.supply.ravel()
        self._load: Ints = self._demand @ self.jobs
        self._reads = _reads(problem, solution.replicas)
        self._least_reads = self._reads.min(axis=1, initial=EXCLUDED)
        self._left = parameters.PARAMETERS.home_exchange_max_pairs

    def improve(self) -> bool:
        """Apply improving moves until none is left or the budget is spent; say if any was."""
        moved, helps = False, True
        while helps and self._left > 0:
            helps = False
            over = overload(self._load, self._supply)
            for cell in np.argsort(-over, kind="stable").tolist():
                while self._left > 0 and (move := self._best(cell)) is not None:
                    self._apply(move, cell)
                    moved = helps = True
        return moved

    def _best(self, cell: int) -> _Move | None:
        """Return the best move out of a cell, None if none improves."""
        mine = np.flatnonzero(self.jobs[:, cell])
        saved = self._reads[mine, cell] - self._least_reads[mine]
        if self._load[cell] <= self._supply[cell]:
            mine, saved = mine[saved > 0], saved[saved > 0]
        if not mine.size:
            return None
        others, at = np.nonzero(self.jobs)
        others, at = others[at != cell], at[at != cell]
        mine = mine[np.argsort(-saved, kind="stable")][
            : max(1, parameters.PARAMETERS.home_exchange_batch_pairs // max(1, len(others)))
        ]
        self._left -= (len(mine) + len(others)) * len(self._supply) + 2 * len(mine) * len(others)
        moves = [self._best_relocation(cell, mine)]
        if others.size:
            moves += [
                self._best_swap(cell, mine, others, at),
                self._best_ejection(cell, mine, others, at),
            ]
        found = [move for move in moves if move is not None]
        return min(found, key=_worth, default=None)

    def _best_relocation(self, cell: int, mine: Ints) -> _Move | None:
        """Return the best move of one of these job classes to any other cell."""
        demand = self._demand[mine, None]
        over = self._overload_change(cell, -demand) + self._overload_change(slice(None), demand)
        reads = self._reads[mine] - self._reads[mine, cell, None]
        reads[:, cell] = EXCLUDED
        best = _argbest(over, reads)
        if best is None:
            return None
        i, target = best
        return _Move(int(over[i, target]), int(reads[i, target]), int(mine[i]), target)

    def _best_swap(self, cell: int, mine: Ints, others: Ints, at: Ints) -> _Move | None:
        """Return the best swap of one of these job classes with one elsewhere."""
        more = self._demand[mine, None] - self._demand[others]
        over = self._overload_change(cell, -more) + self._overload_change(at, more)
        back = self._reads[others, cell] - self._reads[others, at]
        return self._best_pair(cell, mine, others, at, over, back, np.full_like(at, cell))

    def _best_ejection(self, cell: int, mine: Ints, others: Ints, at: Ints) -> _Move | None:
        """Return the best move of one of these job classes that ejects another to a third cell."""
        demand = self._demand[mine, None]
        change = self._overload_change(slice(None), self._demand[others, None])
        back = self._reads[others] - self._reads[others, at, None]
        closed = back >= EXCLUDED // 2
        closed[np.arange(len(at)), at] = closed[:, cell] = True
        change = np.where(closed, EXCLUDED, change)
        least = change.min(axis=1, keepdims=True)
        onwards = np.where(change == least, back, EXCLUDED).argmin(axis=1)
        rows = np.arange(len(at))
        back = np.where(least[:, 0] < EXCLUDED, back[rows, onwards], EXCLUDED)
        over = self._overload_change(cell, -demand) + self._overload_change(
            at, demand - self._demand[others]
        )
        over = over + np.where(least[:, 0] < EXCLUDED, least[:, 0], 0)
        return self._best_pair(cell, mine, others, at, over, back, onwards)

    def _best_pair(
        self, cell: int, mine: Ints, others: Ints, at: Ints, over: Ints, back: Ints, onwards: Ints
    ) -> _Move | None:
        """Return the best of moves of two jobs.

        `over` and `back`: (mine, others) and (others,): change of overload, and of the second's
        remote reads. `at` and `onwards` (others,): the cell that the second leaves to the first,
        and where it goes then.
        """
        there = self._reads[mine][:, at] - self._reads[mine, cell, None]
        reads = np.where((there < EXCLUDED // 2) & (back < EXCLUDED // 2), there + back, EXCLUDED)
        best = _argbest(over, reads)
        if best is None:
            return None
        i, k = best
        values = int(over[i, k]), int(reads[i, k])
        return _Move(*values, int(mine[i]), int(at[k]), int(others[k]), int(onwards[k]))

    def _overload_change(self, cells: int | slice | Ints, more: Ints) -> Ints:
        """Return the change of overload of cells if their demand grows by `more`."""
        load, supply = self._load[cells], self._supply[cells]
        change: Ints = overload(load + more, supply) - overload(load, supply)
        return change

    def _apply(self, move: _Move, cell: int) -> None:
        self._shift(move.job_class, cell, move.target)
        if move.other != NONE:
            self._shift(move.other, move.target, move.onwards)

    def _shift(self, job_class: int, cell: int, target: int) -> None:
        self.jobs[job_class, cell] -= 1
        self.jobs[job_class, target] += 1
        self._load[cell] -= self._demand[job_class]
        self._load[target] += self._demand[job_class]


def _argbest(over: Ints, reads: Ints) -> tuple[int, int] | None:
    """Return the index of the best improving entry of two tables, None if there is none."""
    less = (over < 0) & (reads < EXCLUDED // 2)
    if less.any():
        worth = np.where(less, reads / np.minimum(over, -1) * -1.0, np.inf)
        best = int(worth.argmin())
    else:
        gain = np.where(over == 0, reads, 0)
        best = int(gain.argmin())
        if gain.ravel()[best] >= 0:
            return None
    i, k = divmod(best, over.shape[1])
    return i, k


def _worth(move: _Move) -> tuple[bool, float]:
    """Return the key by which the best move is least: GiB per milli-GPU saved, then GiB."""
    less = move.overload < 0
    return not less, move.reads / -move.overload if less else move.reads


def _reads(problem: Problem, replicas: Bools) -> Ints:
    """Return the GiB of remote reads of a job in each cell, `EXCLUDED` where it cannot be."""
    remote = np.zeros((problem.job_classes, problem.regions), dtype=np.int64)
    away = ~replicas[problem.read_dataset_class]
    np.add.at(remote, problem.read_class, away * problem.read_gib[:, None])
    may = problem.allowed_homes & readable_regions(problem, replicas)[:, :, None]
    reads: Ints = np.where(may, remote[:, :, None], EXCLUDED)
    return reads.reshape(problem.job_classes, problem.supply.size)


def drop_idle_replicas(problem: Problem, solution: Solution) -> Solution:
    """Return a solution without idle replicas whose drop lowers `imbalance`, the largest first.

    A replica is idle if another one is complete or under way, and no job reads it in its region or
    reads its dataset class remotely.
    """
    replicas = solution.replicas.copy()
    jobs = solution.jobs.sum(axis=2)[problem.read_class]
    near = np.where(replicas[problem.read_dataset_class], jobs, 0).sum(axis=1)
    far = np.zeros(problem.dataset_classes, dtype=np.bool_)
    far[problem.read_dataset_class[near < problem.count[problem.read_class]]] = True
    idle = (
        replicas & problem.current & ~problem.fixed & ~solution.local_reads(problem) & ~far[:, None]
    )
    used = replicas.T.astype(np.int64) @ problem.size
    best = imbalance_of(used, problem.storage)
    p, r = np.nonzero(idle)
    order = np.argsort(-problem.size[p], kind="stable")
    for dataset_class, region in zip(p[order].tolist(), r[order].tolist(), strict=True):
        if replicas[dataset_class].sum() < 2:
            continue
        used[region] -= problem.size[dataset_class]
        after = imbalance_of(used, problem.storage)
        if after < best:
            best = after
            replicas[dataset_class, region] = False
        else:
            used[region] += problem.size[dataset_class]
    return replace(solution, replicas=replicas)
