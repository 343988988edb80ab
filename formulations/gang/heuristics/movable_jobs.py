"""Jobs of one task with whole GPUs, tied to nobody: which hosts they are on, and what they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.base import WHOLE_GPU

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_Alike: TypeAlias = tuple[float, int, int, int]
"""Value per GPU, GPUs, tenant and shape."""

ANYBODY = -2
"""Instead of a tenant."""

TIE = 1e-6
"""Of what a host loses, what decides between equal ones."""

PENDING = -1
"""Instead of the level of a job that runs: anybody may displace it."""


class Mover(NamedTuple):
    """A job that may move, by the number of its start; `dear` is its value per GPU.

    `moved`: it runs, but not where it ran.
    """

    dear: float
    held: int
    number: int
    job: int
    level: int
    moved: bool
    tenant: int
    shape: int


class _Kind(NamedTuple):
    """What is alike in jobs of a class with an option, as a `Mover` has it."""

    dear: float
    held: int
    tenant: int
    shape: int


class Movers:
    """Who may move; `held` (hosts,) and `of_shape` (shapes, hosts) are the GPUs that they hold.

    `starts` are all jobs that hold something, by number.
    """

    def __init__(self, problem: Problem, starts: Iterable[tuple[int, JobPlacement]]) -> None:
        self.problem = problem
        hosts = problem.cluster.num_hosts
        levels = 2 + max((running.level for running in problem.running.values()), default=PENDING)
        self.held = np.zeros(hosts, dtype=np.int64)
        self.of_shape = np.zeros((len(problem.shape_gpu), hosts), dtype=np.int64)
        # By the least `top` for which they count: GPUs, the least value per GPU, the least value.
        self._held = np.zeros((levels, hosts), dtype=np.int64)
        self._least = np.full((2, levels, hosts), np.inf)
        self._alike: dict[tuple[int, int], _Alike | None] = {}
        self._on: defaultdict[int, dict[int, Mover]] = defaultdict(dict)
        known = [
            (start.tasks[0].host, mover)
            for number, start in starts
            if (mover := self._mover(number, start))
        ]
        for host, mover in known:
            self._on[host][mover.number] = mover
        where = np.array([host for host, _ in known], dtype=np.int64)
        row = np.array([_row(mover) for _, mover in known], dtype=np.int64)
        held = np.array([mover.held for _, mover in known], dtype=np.int64)
        np.add.at(self.held, where, held)
        np.add.at(self.of_shape, (np.array([m.shape for _, m in known], dtype=int), where), held)
        np.add.at(self._held, (row, where), held)
        for least, lost in zip(
            self._least,
            ([m.dear for _, m in known], [m.dear * m.held for _, m in known]),
            strict=True,
        ):
            np.minimum.at(least, (row, where), lost)
        # As of here of all rows up to one.
        self._held.cumsum(axis=0, out=self._held)
        np.minimum.accumulate(self._least, axis=1, out=self._least)

    def add(self, number: int, start: JobPlacement) -> None:
        """Note a job if it may move."""
        mover = self._mover(number, start)
        if mover is not None:
            host, row = start.tasks[0].host, _row(mover)
            self._on[host][number] = mover
            self._count(host, mover, mover.held)
            mine = self._least[:, row:, host]
            np.minimum(mine, _least(mover)[:, None], out=mine)

    def drop(self, number: int, host: int) -> None:
        """Forget a job on a host, if it was noted."""
        mover = self._on[host].pop(number, None)
        if mover is not None:
            self._count(host, mover, -mover.held)
            each, one = self._least[:, _row(mover), host].tolist()
            if each == mover.dear or one == mover.dear * mover.held:
                self._least[:, :, host] = self._least_on(host)

    def _least_on(self, host: int) -> tuple[list[float], list[float]]:
        """Return the least value per GPU on a host, and the least value, by `top`."""
        each, one = ([inf] * len(self._held) for _ in range(2))
        for mover in self._on[host].values():
            row = _row(mover)
            each[row] = min(each[row], mover.dear)
            one[row] = min(one[row], mover.dear * mover.held)
        return list(accumulate(each, min)), list(accumulate(one, min))

    def _count(self, host: int, mover: Mover, held: int) -> None:
        self.held[host] += held
        self.of_shape[mover.shape, host] += held
        self._held[_row(mover) :, host] += held

    def _mover(self, number: int, start: JobPlacement) -> Mover | None:
        """Return a job as one that may move, if so."""
        kind = start.job_class, start.choice
        if kind not in self._alike:
            self._alike[kind] = self._alike_in(*kind)
        alike = self._alike[kind]
        if alike is None:
            return None
        pending = start.job == ANY_JOB
        level = PENDING if pending else self.problem.running[start.job].level
        moved = not (pending or start.tasks[0].stays)
        dear, held, tenant, shape = alike
        return Mover(dear, held, number, start.job, level, moved, tenant, shape)

    def _alike_in(self, job_class: int, option: int) -> _Alike | None:
        """Return what is alike in jobs of a class with an option, None if they may not move."""
        mine = self.problem.classes[job_class]
        choice = mine.choices[option]
        shape = choice.groups[0].shape
        held = int(self.problem.shape_gpu[shape]) // WHOLE_GPU
        return (
            (choice.value / held, held, mine.tenant, shape)
            if held and choice.is_single_task
            else None
        )

    def on(self, host: int) -> Iterable[Mover]:
        """Return who may move from a host."""
        return self._on[host].values()

    def __iter__(self) -> Iterator[Mover]:
        """Yield all of them, host by host."""
        for movers in self._on.values():
            yield from movers.values()

    def below(self, host: int, rank: int, top: int, owner: int = ANYBODY) -> list[Mover]:
        """Return who is on a host of a level below a rank, of an owner; the cheapest first.

        Those that are where they ran have one below `top`, too.
        """
        return sorted(
            m
            for m in self._on[host].values()
            if m.level < rank and (m.moved or m.level < top) and owner in (ANYBODY, m.tenant)
        )

    def least_lost(self, lack: Ints, top: Ints) -> Floats:
        """Return what hosts lose at least that free so many GPUs more (hosts,); inf if they cannot.

        Only those stop whose level is below `top` (hosts,), or that have moved.
        """
        row, host = np.minimum(top, len(self._held) - 1), np.arange(len(lack))
        enough = self._held[row, host] >= lack
        found: Floats = np.full(len(lack), np.inf)
        found[enough] = 0.0
        some = np.flatnonzero(enough & (lack > 0))
        each, one = self._least[:, row[some], some]
        # Whoever stops does so with all its GPUs; of equal hosts where more of them are left over.
        found[some] = np.maximum(lack[some] * each, one) - TIE * (one - lack[some] * each)
        return found


def _least(mover: Mover) -> Floats:
    """Return the value of a job per GPU, and all of it."""
    return np.array((mover.dear, mover.dear * mover.held))


def _row(mover: Mover) -> int:
    """Return the least `top` for which a job counts."""
    return 0 if mover.moved else mover.level + 1
