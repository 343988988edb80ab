"""Homes one workload after the other, each where it overloads, reads from afar and copies least."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.formulations.common.wan.arrays import Bools, Ints
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Draft

NEVER = np.iinfo(np.int64).max


class Placing:
    """A draft that grows.

    Parameters
    ----------
    replicas
        (groups, regions): those that are there in the end; None for all that are there now.
    copies
        (groups, regions): copies that may be made in addition.
    """

    def __init__(
        self, problem: Problem, replicas: Bools | None = None, copies: Bools | None = None
    ) -> None:
        self.problem = problem
        self.jobs = np.zeros(problem.may.shape, dtype=np.int64)
        self.replicas: Bools = (problem.now if replicas is None else replicas).copy()
        self.load = np.zeros_like(problem.supply)
        self._copies = problem.may_hold if copies is None else copies
        self._room = problem.storage - self.replicas.T.astype(np.int64) @ problem.size
        new = self.replicas & ~problem.now
        self._budget = problem.incoming - new.T.astype(np.int64) @ problem.size
        self._first = np.searchsorted(problem.read_workload, np.arange(problem.workloads + 1))

    def draft(self) -> Draft:
        """Return the draft as it is now."""
        return Draft(self.jobs.copy(), self.replicas.copy())

    def keep(self, draft: Draft, kept: Ints) -> None:
        """Take over the homes of some workloads; their replicas are here already."""
        self.jobs[kept] = draft.jobs[kept]
        self.load += np.tensordot(self.problem.demand[kept], draft.jobs[kept], axes=1)

    def place(self, workloads: Iterable[int]) -> None:
        """Give homes to all jobs of some workloads that have none, in this order."""
        for w in workloads:
            left = int(self.problem.count[w] - self.jobs[w].sum())
            while left and (number := self._place(w, left)):
                left -= number

    def _place(self, w: int, left: int) -> int:
        """Give a home to up to so many jobs of a workload, and return to how many."""
        problem, demand = self.problem, int(self.problem.demand[w])
        may, remote, missing = self._data(w)
        size = problem.size[problem.read_group[self._reads(w)]]
        copied = missing.T.astype(np.int64) @ size
        supply = problem.supply
        steps = self._marginal(self.load + demand) - self._marginal(self.load)
        allowed = problem.may[w] & may[:, None]
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
        self._settle(w, r, m, max(1, number), missing[:, r])
        return max(1, number)

    def _reads(self, w: int) -> slice:
        return slice(int(self._first[w]), int(self._first[w + 1]))

    def _marginal(self, load: Ints) -> Ints:
        supply = self.problem.supply
        cost: Ints = np.maximum(0, load - supply) + np.maximum(0, load - supply * 6 // 5)
        return cost

    def _data(self, w: int) -> tuple[Bools, Ints, Bools]:
        """Return where a workload may be, the GiB that it reads there from afar, and what to copy.

        Of shapes (regions,), (regions,) and (reads, regions).
        """
        problem, mine = self.problem, self._reads(w)
        groups, gib = problem.read_group[mine], problem.read_gib[mine]
        may = np.ones(problem.regions, dtype=np.bool_)
        remote = np.zeros(problem.regions, dtype=np.int64)
        missing = np.zeros((len(groups), problem.regions), dtype=np.bool_)
        new = np.zeros(problem.regions, dtype=np.int64)
        must = ~problem.read_remote[mine]
        for i in np.lexsort((-gib, ~must)).tolist():
            p = int(groups[i])
            here, size = self.replicas[p], int(problem.size[p])
            fits = (new + size <= self._room) & (new + size <= self._budget)
            copy = ~here & self._copies[p] & fits
            missing[i] = copy
            new += np.where(copy, size, 0)
            afar = ~here & ~copy
            may &= ~afar if must[i] else ~afar | problem.linked[here].any(axis=0)
            remote += np.where(afar, gib[i], 0)
        return may, remote, missing

    def _settle(self, w: int, r: int, m: int, number: int, missing: Bools) -> None:
        problem = self.problem
        self.jobs[w, r, m] += number
        self.load[r, m] += number * problem.demand[w]
        groups = problem.read_group[self._reads(w)][missing]
        self.replicas[groups, r] = True
        size = int(problem.size[groups].sum())
        self._room[r] -= size
        self._budget[r] -= size


def usual_order(problem: Problem) -> Ints:
    """Return the workloads, those that are dear to move first.

    Dear is much data, shared by few other readers, for little demand; but jobs that are large
    beside what regions have come before all others.
    """
    readers = np.bincount(problem.read_group, minlength=problem.groups)
    share = problem.size[problem.read_group] / np.maximum(1, readers[problem.read_group])
    data = np.bincount(problem.read_workload, weights=share, minlength=problem.workloads)
    dear = data / np.maximum(1, problem.demand * problem.count)
    supply = np.sort(problem.supply[problem.supply > 0])
    large = problem.demand * 10 > (np.median(supply) if supply.size else 0)
    order: Ints = np.lexsort((-dear, np.where(large, -problem.demand, 0)))
    return order


def housed(problem: Problem, draft: Draft) -> Draft:
    """Return a draft in which all jobs have homes that can have one beside these replicas.

    Homes from which some data cannot be read are given up.
    """
    jobs = np.where(readable(problem, draft.replicas)[:, :, None], draft.jobs, 0)
    homeless = jobs.sum(axis=(1, 2)) < problem.count
    if not homeless.any():
        return draft
    placing = Placing(problem, draft.replicas, np.zeros_like(draft.replicas))
    placing.keep(Draft(jobs, draft.replicas), np.arange(problem.workloads))
    order = usual_order(problem)
    placing.place(order[homeless[order]].tolist())
    return placing.draft()


def readable(problem: Problem, replicas: Bools) -> Bools:
    """Return where workloads can read all their data, there or from afar (workloads, regions)."""
    over_links: Bools = replicas.astype(np.float64) @ problem.linked > 0
    p = problem.read_group
    reads = replicas[p] | (problem.read_remote[:, None] & over_links[p])
    found = np.ones((problem.workloads, problem.regions), dtype=np.bool_)
    np.logical_and.at(found, problem.read_workload, reads)
    return found


def greedy(problem: Problem, *, copying: bool = True) -> Draft:
    """Return a draft, with new replicas or without any."""
    placing = Placing(problem, copies=None if copying else np.zeros_like(problem.may_hold))
    placing.place(usual_order(problem).tolist())
    return placing.draft().trimmed(problem)
