"""Greedy construction: job classes in turn, each where it adds least to the leading terms."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution

NEVER = np.iinfo(np.int64).max


class GreedyPlacement:
    """A partial solution to which job classes are added.

    Parameters
    ----------
    replicas
        (dataset classes, regions): replicas after the plan; None for the current ones.
    copies
        (dataset classes, regions): copies that may be made in addition.
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
        steps = self._overload_at(self.load + demand) - self._overload_at(self.load)
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

    def _overload_at(self, load: Ints) -> Ints:
        supply = self.problem.supply
        cost: Ints = np.maximum(0, load - supply) + np.maximum(0, load - supply * 6 // 5)
        return cost

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
