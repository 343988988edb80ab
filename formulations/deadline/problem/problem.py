"""What admission decides about, as arrays: ways to promise a job, and what each lease has.

Time is cut into leases of equal length; lease 0 is the one that begins now. A job with a promise
holds all it asks, or nothing, in each lease.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CELLS = 1 << 20
"""Numbers that are reckoned with at once where all together would be as many as the leases of all
jobs."""

MOST_CELLS = 20_000_000
"""Numbers of an array of rows, loads or kinds by ways or leases: 160 MB. Bounds do without more."""

NONE = -1
"""The way of a job without a promise."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Jobs that ask for a promise, and the ways to give them one: an option and a deadline each.

    Parameters
    ----------
    capacity
        (rows, horizon): what each row has in each lease, milli-GPU. A row is a set of GPU models,
        or what a tenant's quota leaves.
    loss
        (jobs,): value of the promise that a job has already; 0 for one without.
    job, need, first, end, value
        (ways,): the way's job; leases that it needs; the first lease that it can use, and the one
        after the last, so that it needs `need` of `end - first`; what it is worth. Ways of one job
        lie together, and jobs in order.
    demand
        (ways, rows): what the way asks of each row in each of its leases.
    """

    capacity: Ints
    loss: Ints
    job: Ints
    need: Ints
    first: Ints
    end: Ints
    value: Ints
    demand: Ints

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.loss)

    @property
    def ways(self) -> int:
        """The number of ways."""
        return len(self.job)

    @property
    def horizon(self) -> int:
        """The number of leases."""
        return int(self.capacity.shape[1])

    @property
    def lost(self) -> Ints:
        """What each way loses of its job's promise (ways,)."""
        lost: Ints = np.maximum(0, self.loss[self.job] - self.value)
        return lost

    def only(self, ways: Ints) -> Problem:
        """Return the problem with these ways only, in their order."""
        return replace(
            self,
            job=self.job[ways],
            need=self.need[ways],
            first=self.first[ways],
            end=self.end[ways],
            value=self.value[ways],
            demand=self.demand[ways],
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """A way per job, and the leases in which it runs.

    Parameters
    ----------
    way
        (jobs,): the way of each job, or `NONE`.
    runs
        (jobs, horizon): whether the job runs in the lease; exactly `need` of them, inside
        `first .. end - 1`.
    """

    way: Ints
    runs: Bools

    def admitted(self, problem: Problem) -> int:
        """Value of all promises given."""
        return int(problem.value[self.way[self.way != NONE]].sum())

    def broken(self, problem: Problem) -> int:
        """Loss of the promises that jobs have already."""
        lost = problem.loss.copy()
        has = self.way != NONE
        lost[has] = problem.lost[self.way[has]]
        return int(lost.sum())

    def used(self, problem: Problem) -> Ints:
        """Use of each row in each lease (rows, horizon)."""
        has = np.flatnonzero(self.way != NONE)
        return use_of(problem.demand[self.way[has]], self.runs[has])

    def fits(self, problem: Problem) -> bool:
        """Whether every job runs as its way says, within all rows."""
        has = np.flatnonzero(self.way != NONE)
        ways, leases = self.way[has], np.arange(problem.horizon)
        inside = (problem.first[ways, None] <= leases) & (leases < problem.end[ways, None])
        runs = self.runs[has]
        return bool(
            (problem.job[ways] == has).all()
            and not (runs & ~inside).any()
            and (runs.sum(axis=1) == problem.need[ways]).all()
            and not np.delete(self.runs, has, axis=0).any()
            and (self.used(problem) <= problem.capacity).all()
        )


def use_of(demand: Ints, runs: Bools) -> Ints:
    """Return the use of each row in each lease (rows, horizon).

    Parameters
    ----------
    demand
        (number,) by rows: what each asks in a lease.
    runs
        (number, horizon): where each runs.
    """
    used = np.zeros((demand.shape[1], runs.shape[1]), dtype=np.int64)
    for part in parts_of(len(runs), runs.shape[1]):
        used += demand[part].T @ runs[part].astype(np.int64)
    return used


def parts_of(number: int, each: int) -> Iterator[slice]:
    """Cut a number of things, of so many cells each, into parts of about a million cells."""
    step = max(1, CELLS // max(1, each))
    for first in range(0, number, step):
        yield slice(first, first + step)


def kinds_of(demand: Ints) -> tuple[Ints, Ints]:
    """Return what ways may ask of all rows (kinds, rows), and the kind of each way.

    Kinds are in lexicographic order, as `np.unique` has them, which takes ten times as long.
    """
    order = np.lexsort(demand.T[::-1]) if demand.size else np.arange(len(demand))
    new = np.ones(len(order), dtype=bool)
    for part in parts_of(len(order) - 1, demand.shape[1]):
        before, after = demand[order[:-1][part]], demand[order[1:][part]]
        new[1:][part] = (before != after).any(axis=1)
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(new) - 1
    return demand[order[new]], kind
