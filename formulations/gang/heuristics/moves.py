"""Moves of jobs in a placement: which may move or stop, and a log to roll moves back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import use_of_pool
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    Choice,
    JobClass,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import NO_BUDGET_PRICES, BudgetPrices, QuotaKey
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.topology.units import WHOLE_GPU

# Movable jobs: one-task jobs of whole GPUs, by host, with the value lost if they stop.


_ClassFacts: TypeAlias = tuple[float, int, tuple[int, ...], int]
"""Value per GPU, GPUs, accounts and shape."""

Accounts: TypeAlias = frozenset[int]
"""Quotas and caps that are exceeded, so that jobs which count in one of them have to stop."""

ANY_ACCOUNT: Accounts = frozenset()
"""None is exceeded: all jobs may stop."""

TIE_BREAK = 1e-6
"""Fraction of the loss that decides between hosts of equal loss."""

PENDING = -1
"""Level of a job that starts in this round: a job of any rank may displace it."""


class MovableJob(NamedTuple):
    """A movable job, by the number of its placement; `gpus` are the whole GPUs it holds.

    `moved`: it runs, but not on the host where it ran before the round.
    """

    value_per_gpu: float
    gpus: int
    number: int
    job: int
    level: int
    moved: bool
    accounts: tuple[int, ...]
    shape: int


class MovableJobs:
    """Table of movable jobs by host, kept up to date as jobs are added and removed.

    Attributes
    ----------
    gpus_on_host, gpus_of_shape : int64 (hosts,), (shapes, hosts)
        Whole GPUs that movable jobs hold.
    """

    def __init__(self, problem: Problem, starts: Iterable[tuple[int, JobPlacement]]) -> None:
        self.problem = problem
        hosts = problem.cluster.num_hosts
        levels = 2 + max((running.level for running in problem.running.values()), default=PENDING)
        self.gpus_on_host = np.zeros(hosts, dtype=np.int64)
        self.gpus_of_shape = np.zeros((len(problem.shape_gpu), hosts), dtype=np.int64)
        # By level limit, of the jobs that may stop: GPUs; least value per GPU and per job.
        self._gpus_below = np.zeros((levels, hosts), dtype=np.int64)
        self._least_values = np.full((2, levels, hosts), np.inf)
        self._facts: dict[tuple[int, int], _ClassFacts | None] = {}
        self._on: defaultdict[int, dict[int, MovableJob]] = defaultdict(dict)
        known = [
            (start.tasks[0].host, mover)
            for number, start in starts
            if (mover := self._mover(number, start))
        ]
        for host, mover in known:
            self._on[host][mover.number] = mover
        where = np.array([host for host, _ in known], dtype=np.int64)
        row = np.array([_first_row(mover) for _, mover in known], dtype=np.int64)
        gpus = np.array([mover.gpus for _, mover in known], dtype=np.int64)
        np.add.at(self.gpus_on_host, where, gpus)
        np.add.at(
            self.gpus_of_shape, (np.array([m.shape for _, m in known], dtype=int), where), gpus
        )
        np.add.at(self._gpus_below, (row, where), gpus)
        for least, lost in zip(
            self._least_values,
            ([m.value_per_gpu for _, m in known], [m.value_per_gpu * m.gpus for _, m in known]),
            strict=True,
        ):
            np.minimum.at(least, (row, where), lost)
        # So far a row has the jobs of one limit; from here on those of all limits up to it.
        self._gpus_below.cumsum(axis=0, out=self._gpus_below)
        np.minimum.accumulate(self._least_values, axis=1, out=self._least_values)

    def add(self, number: int, start: JobPlacement) -> None:
        """Add a job if it may move."""
        mover = self._mover(number, start)
        if mover is not None:
            host, row = start.tasks[0].host, _first_row(mover)
            self._on[host][number] = mover
            self._add_gpus(host, mover, mover.gpus)
            mine = self._least_values[:, row:, host]
            np.minimum(mine, _least_values(mover)[:, None], out=mine)

    def remove(self, number: int, host: int) -> None:
        """Remove a job from a host, if it is in the table."""
        mover = self._on[host].pop(number, None)
        if mover is not None:
            self._add_gpus(host, mover, -mover.gpus)
            per_gpu, whole_job = self._least_values[:, _first_row(mover), host].tolist()
            if per_gpu == mover.value_per_gpu or whole_job == mover.value_per_gpu * mover.gpus:
                self._least_values[:, :, host] = self._least_values_on(host)

    def _least_values_on(self, host: int) -> tuple[list[float], list[float]]:
        """Return the least value per GPU and the least value on a host, by level limit."""
        per_gpu, whole_job = ([inf] * len(self._gpus_below) for _ in range(2))
        for mover in self._on[host].values():
            row = _first_row(mover)
            per_gpu[row] = min(per_gpu[row], mover.value_per_gpu)
            whole_job[row] = min(whole_job[row], mover.value_per_gpu * mover.gpus)
        return list(accumulate(per_gpu, min)), list(accumulate(whole_job, min))

    def _add_gpus(self, host: int, mover: MovableJob, gpus: int) -> None:
        self.gpus_on_host[host] += gpus
        self.gpus_of_shape[mover.shape, host] += gpus
        self._gpus_below[_first_row(mover) :, host] += gpus

    def _mover(self, number: int, start: JobPlacement) -> MovableJob | None:
        """Return a job as a movable one; None if it may not move."""
        key = start.job_class, start.choice
        if key not in self._facts:
            self._facts[key] = self._compute_facts(*key)
        facts = self._facts[key]
        if facts is None:
            return None
        pending = start.job == ANY_JOB
        level = PENDING if pending else self.problem.running[start.job].level
        moved = not (pending or start.tasks[0].stays)
        value_per_gpu, gpus, accounts, shape = facts
        return MovableJob(value_per_gpu, gpus, number, start.job, level, moved, accounts, shape)

    def _compute_facts(self, job_class: int, option: int) -> _ClassFacts | None:
        """Return what all jobs of a class with an option share; None if they may not move."""
        mine = self.problem.classes[job_class]
        choice = mine.choices[option]
        shape = choice.groups[0].shape
        gpus = int(self.problem.shape_gpu[shape]) // WHOLE_GPU
        return (
            (choice.value / gpus, gpus, mine.accounts, shape)
            if gpus and choice.is_single_task
            else None
        )

    def on_host(self, host: int) -> Iterable[MovableJob]:
        """Return the movable jobs of a host."""
        return self._on[host].values()

    def __iter__(self) -> Iterator[MovableJob]:
        """Yield all of them, host by host."""
        for movers in self._on.values():
            yield from movers.values()

    def preemptable(
        self, host: int, shape: int, level_limit: int, accounts: Accounts = ANY_ACCOUNT
    ) -> list[MovableJob]:
        """Return the jobs of a host that a task of a shape may preempt, least value per GPU first.

        Their level is below its rank and, unless they have moved, below the limit.
        """
        over, running = self.problem.over, self.problem.running
        return sorted(
            m
            for m in self._on[host].values()
            if (m.job == ANY_JOB or over(shape, running[m.job]))
            and (m.moved or m.level < level_limit)
            and not (accounts and accounts.isdisjoint(m.accounts))
        )

    def least_loss(self, lack: Ints, level_limit: Ints) -> Floats:
        """Return a lower bound (hosts,) on the value lost to free `lack` GPUs; inf if impossible.

        Jobs may stop whose level is below `level_limit` (hosts,), or that have moved.
        """
        row, host = np.minimum(level_limit, len(self._gpus_below) - 1), np.arange(len(lack))
        enough = self._gpus_below[row, host] >= lack
        found: Floats = np.full(len(lack), np.inf)
        found[enough] = 0.0
        some = np.flatnonzero(enough & (lack > 0))
        per_gpu, whole_job = self._least_values[:, row[some], some]
        # At least one job stops, with all its GPUs; ties go where more of these are left over.
        found[some] = np.maximum(lack[some] * per_gpu, whole_job) - TIE_BREAK * (
            whole_job - lack[some] * per_gpu
        )
        return found


def _least_values(mover: MovableJob) -> Floats:
    """Return the value of a job per GPU, and all of it."""
    return np.array((mover.value_per_gpu, mover.value_per_gpu * mover.gpus))


def _first_row(mover: MovableJob) -> int:
    """Return the least level limit at which a job may stop."""
    return 0 if mover.moved else mover.level + 1


# Moves of jobs in a placement, with a log to roll them back.


class LoggedMoves:
    """Moves of jobs in a placement, with a log to roll them back.

    Methods take the number that `Placement.start` gave a job. Rolling back a removal restarts the
    job under a new number: `current_number` returns it. `movable` is the table of jobs that may
    move.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.movable = MovableJobs(self.problem, placement.started())
        self._undo_log: list[Callable[[], object]] = []
        self._renumbered: dict[int, int] = {}

    @property
    def num_moves(self) -> int:
        """Moves since the last commit."""
        return len(self._undo_log)

    def gpus_of(self, shape: int) -> int:
        """Return the whole GPUs of a task."""
        return int(self.problem.shape_gpu[shape]) // WHOLE_GPU

    def shape_of(self, start: JobPlacement) -> int:
        """Return the shape of a job's first group."""
        return self.problem.classes[start.job_class].choices[start.choice].groups[0].shape

    def value_of(self, start: JobPlacement) -> int:
        """Return the value of a job."""
        return self.problem.classes[start.job_class].choices[start.choice].value

    def eligible_hosts(self, shape: int) -> Bools:
        """Return the hosts (hosts,) where a task may arrive if it fits."""
        rank = self.problem.shape_rank[shape]
        found: Bools = self.problem.shape_hosts[shape] & (self.placement.least_rank <= rank)
        return found

    def fits(self, shape: int, host: int, count: int) -> bool:
        """Whether `count` tasks of a shape fit a host as it is."""
        problem, placement = self.problem, self.placement
        enough = placement.whole[host] * WHOLE_GPU >= count * problem.shape_gpu[shape]
        enough &= (placement.free[host] >= count * problem.shape_demand[shape]).all()
        return bool(enough) and placement.pools.fits_host(shape, host, count)

    def insert(self, start: JobPlacement, host: int) -> None:
        """Insert a removed job on a host that it fits."""
        puts = [TaskPlacement(0, host, 1, self.placement.put(self.shape_of(start), host))]
        self._start(start.job_class, start.choice, puts, start.job)

    def start(self, c: int, o: int, hosts: Iterable[tuple[int, int]]) -> None:
        """Start a waiting job of one group on (host, number of tasks) pairs."""
        shape = self.problem.classes[c].choices[o].groups[0].shape
        puts = [
            TaskPlacement(0, host, count, self.placement.put(shape, host, count))
            for host, count in hosts
        ]
        self._start(c, o, puts, ANY_JOB)

    def remove(self, number: int) -> JobPlacement:
        """Remove a job from the placement and return it."""
        start = self._stop(number)
        self._undo_log.append(partial(self._undo_removal, number, start))
        return start

    def commit(self) -> None:
        """Commit all moves: clear the log."""
        self._undo_log = []

    def rollback(self, before: int = 0) -> None:
        """Undo moves, the last one first, until the log has `before` moves."""
        while len(self._undo_log) > before:
            self._undo_log.pop()()

    def current_number(self, number: int) -> int:
        """Return the current number of a job by any of its numbers."""
        while number in self._renumbered:
            number = self._renumbered[number]
        return number

    def get(self, number: int) -> JobPlacement:
        """Return a job by its number; KeyError if it has stopped."""
        start = self.placement.get(number)
        if start is None:
            raise KeyError(number)
        return start

    def _start(self, c: int, o: int, puts: Sequence[TaskPlacement], job: int) -> None:
        number = self.placement.start(c, o, puts, job)
        self.movable.add(number, JobPlacement(c, o, puts, job))
        self._undo_log.append(partial(self._undo_start, number))

    def _undo_start(self, number: int) -> None:
        self._stop(self.current_number(number))

    def _undo_removal(self, number: int, start: JobPlacement) -> None:
        self._renumbered[number] = self.placement.restart(start)
        self.movable.add(self._renumbered[number], start)

    def _stop(self, number: int) -> JobPlacement:
        start = self.get(number)
        self.placement.stop(number)
        self.movable.remove(number, start.tasks[0].host)
        return start


# Victim sets: sets of running jobs that may be preempted together, host by host.


QuotaPrices: TypeAlias = Mapping[QuotaKey, float]
"""What a unit of a quota or cap is worth."""
NO_QUOTA_PRICES: QuotaPrices = {}


def net_value(problem: Problem, job_class: JobClass, choice: Choice, prices: QuotaPrices) -> float:
    """Return what an option is worth above what it takes of quotas."""
    return choice.value - sum(
        price * problem.demand_of(choice, resource)
        for (owner, resource), price in prices.items()
        if owner in job_class.accounts
    )


@dataclass(frozen=True, eq=False, slots=True)
class VictimCandidates:
    """Running jobs in place that may stop, one row per job and host, by rising host.

    Attributes
    ----------
    gain : int64 (rows, 1 + resources)
        What the host has free once the job has stopped, whole GPUs first; last what the pools
        around it have.
    loss : float64 (rows,)
        Its value, what it uses of the disruption budget at its prices, and what stopping it costs
        as a fraction of one unit.
    """

    job: Ints
    host: Ints
    gain: Ints
    loss: NDArray[np.float64]
    level: Ints

    @classmethod
    def of(
        cls,
        placement: Placement,
        sizes: Ints,
        prices: QuotaPrices,
        budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    ) -> Self:
        """List the running jobs on hosts where tasks may arrive."""
        problem = placement.problem
        milli = [problem.demand_of(c.choices[0], -1) if c.running else 0 for c in problem.classes]
        value = [net_value(problem, c, c.choices[0], prices) for c in problem.classes]
        facts = [
            (value[r.job_class], r.preempt_cost + milli[r.job_class], placement.in_place(job))
            for job, r in problem.running.items()
        ]
        worth, cost, here = np.array(facts, dtype=np.float64).reshape(-1, 3).T
        loss = worth + cost / (1 + cost.sum())
        if problem.budget is not None and any(budget_prices):
            uses = [problem.budget.used([job], []) for job in problem.running]
            loss += np.array(uses, dtype=np.float64).reshape(-1, len(budget_prices)) @ budget_prices
        number = np.searchsorted(list(problem.running), problem.running_tasks[:, 0])
        tasks = problem.running_tasks[
            problem.open[problem.running_tasks[:, 2]] & (here[number] > 0)
        ]
        # By host, then by job; tasks of a job on one host are one row.
        key = tasks[:, 2] * (1 + tasks[:, 0].max(initial=0)) + tasks[:, 0]
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        gain = np.zeros((len(first), sizes.shape[1]), dtype=np.int64)
        np.add.at(gain, row, sizes[tasks[:, 3]])
        job, level, host, _ = tasks[first].T
        for k, pool in enumerate(problem.pools):
            gain[:, k - len(problem.pools)] = _held_of_pool(problem, pool, job, host)
        number = np.searchsorted(list(problem.running), job)
        return cls(job, host, gain, loss[number], level)

    def rows(self, which: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(
            self.job[which], self.host[which], self.gain[which], self.loss[which], self.level[which]
        )


def _held_of_pool(problem: Problem, pool: Pool, job: Ints, host: Ints) -> Ints:
    """Return what running jobs hold of the domain of a pool around a host, int64 (rows,)."""
    home, jobs = problem.running_placement_of, job.tolist()
    held = {j: use_of_pool(problem, pool, home[j]) for j in set(jobs)}
    pairs = zip(jobs, pool.domain[host].tolist(), strict=True)
    return np.array([held[j].get(domain, 0) for j, domain in pairs], dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class VictimSets:
    """One row per host and set of its jobs that stops.

    Attributes
    ----------
    capacity : int64 (rows, 1 + resources)
        What is free then, whole GPUs first; last what the victims give back of pools.
    level : int64 (rows,)
        Least rank that may come.
    stopped : int64 (rows,)
        Which of the jobs of the host, as bits.
    used : float64 (rows, 4)
        What that uses of the disruption budget.
    """

    host: Ints
    capacity: Ints
    loss: NDArray[np.float64]
    level: Ints
    stopped: Ints
    used: NDArray[np.float64]

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Return a table without rows."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            none, np.zeros((0, columns), dtype=np.int64), np.zeros(0), none, none, np.zeros((0, 4))
        )

    def rows(self, which: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(
            self.host[which],
            self.capacity[which],
            self.loss[which],
            self.level[which],
            self.stopped[which],
            self.used[which],
        )

    def merged(self, *others: Self) -> Self:
        """Return the rows of all, by rising host; within a host in their order."""
        tables = (self, *others)
        host = np.concatenate([t.host for t in tables])
        order = np.argsort(host, kind="stable")
        return type(self)(
            host[order],
            # Read column by column.
            np.asfortranarray(np.concatenate([t.capacity for t in tables])[order]),
            np.concatenate([t.loss for t in tables])[order],
            np.concatenate([t.level for t in tables])[order],
            np.concatenate([t.stopped for t in tables])[order],
            np.concatenate([t.used for t in tables])[order],
        )


def slice_of(rising: Ints, value: int) -> slice:
    """Where a value is in a rising array."""
    first, last = np.searchsorted(rising, [value, value + 1]).tolist()
    return slice(first, last)


def exceeds_enumeration(jobs: int) -> bool:
    """Whether a host has too many jobs to look at all sets of them."""
    return jobs > parameters.PARAMETERS.insertion.max_enumerated_jobs


def job_subsets(jobs: int) -> NDArray[np.bool_]:
    """All subsets of `jobs` jobs, or the first n of them for each n; bool (sets, jobs)."""
    if exceeds_enumeration(jobs):
        return np.tri(jobs + 1, jobs, -1, dtype=np.bool_)
    numbers = np.arange(1 << jobs, dtype=np.int64)
    return (numbers[:, None] >> np.arange(jobs, dtype=np.int64) & 1).astype(np.bool_)
