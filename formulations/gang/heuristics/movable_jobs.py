"""Movable jobs: one-task jobs of whole GPUs, by host, with the value lost if they stop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU

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
