"""Local search over homes beside fixed replicas: relocations, swaps and ejections of single jobs.

Refused copies become known only when transfers are scheduled. Readers then take the best remaining
home one by one, and a job with alternatives may block one without. So a job moves, swaps with
another, or ejects one to where that costs least, as long as overload or remote reads fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.heuristics.greedy import readable_regions
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution

NEVER = 2**60
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
        self._least_reads = self._reads.min(axis=1, initial=NEVER)
        self._left = parameters.PARAMETERS.home_exchange_max_pairs

    def improve(self) -> bool:
        """Apply improving moves until none is left or the budget is spent; say if any was."""
        moved, helps = False, True
        while helps and self._left > 0:
            helps = False
            over = _overload(self._load, self._supply)
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
        reads[:, cell] = NEVER
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
        closed = back >= NEVER // 2
        closed[np.arange(len(at)), at] = closed[:, cell] = True
        change = np.where(closed, NEVER, change)
        least = change.min(axis=1, keepdims=True)
        onwards = np.where(change == least, back, NEVER).argmin(axis=1)
        rows = np.arange(len(at))
        back = np.where(least[:, 0] < NEVER, back[rows, onwards], NEVER)
        over = self._overload_change(cell, -demand) + self._overload_change(
            at, demand - self._demand[others]
        )
        over = over + np.where(least[:, 0] < NEVER, least[:, 0], 0)
        return self._best_pair(cell, mine, others, at, over, back, onwards)

    def _best_pair(
        self, cell: int, mine: Ints, others: Ints, at: Ints, over: Ints, back: Ints, onwards: Ints
    ) -> _Move | None:
        """Return the best of moves of two jobs.

        Parameters
        ----------
        over, back
            (mine, others) and (others,): change of overload, and of the second's remote reads.
        at, onwards
            (others,): the cell that the second leaves to the first, and where it goes then.
        """
        there = self._reads[mine][:, at] - self._reads[mine, cell, None]
        reads = np.where((there < NEVER // 2) & (back < NEVER // 2), there + back, NEVER)
        best = _argbest(over, reads)
        if best is None:
            return None
        i, k = best
        values = int(over[i, k]), int(reads[i, k])
        return _Move(*values, int(mine[i]), int(at[k]), int(others[k]), int(onwards[k]))

    def _overload_change(self, cells: int | slice | Ints, more: Ints) -> Ints:
        """Return the change of overload of cells if their demand grows by `more`."""
        load, supply = self._load[cells], self._supply[cells]
        change: Ints = _overload(load + more, supply) - _overload(load, supply)
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
    less = (over < 0) & (reads < NEVER // 2)
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


def _overload(load: Ints, supply: Ints) -> Ints:
    over: Ints = np.maximum(0, load - supply) - (-np.maximum(0, 5 * load - 6 * supply) // 5)
    return over


def _reads(problem: Problem, replicas: Bools) -> Ints:
    """Return the GiB of remote reads of a job in each cell, `NEVER` where it cannot be."""
    remote = np.zeros((problem.job_classes, problem.regions), dtype=np.int64)
    away = ~replicas[problem.read_dataset_class]
    np.add.at(remote, problem.read_class, away * problem.read_gib[:, None])
    may = problem.allowed_homes & readable_regions(problem, replicas)[:, :, None]
    reads: Ints = np.where(may, remote[:, :, None], NEVER)
    return reads.reshape(problem.job_classes, problem.supply.size)
