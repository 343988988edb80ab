"""Jobs of one task with whole GPUs, tied to nobody: which hosts they are on, and what they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.jobs import ANY, Start
from placewright.formulations.gang.problem import Problem
from placewright.instances.documents import WHOLE_GPU

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ANYBODY = -2
"""Instead of a tenant."""

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


class Movers:
    """Who may move; `held` (hosts,) and `of_shape` (shapes, hosts) are the GPUs that they hold."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        hosts = problem.cluster.num_hosts
        levels = 2 + max((running.level for running in problem.running.values()), default=PENDING)
        self.held = np.zeros(hosts, dtype=np.int64)
        self.of_shape = np.zeros((len(problem.shape_gpu), hosts), dtype=np.int64)
        self._of_level = np.zeros((levels, hosts), dtype=np.int64)
        self._least = np.full((levels, hosts), np.inf)
        self._on: defaultdict[int, dict[int, Mover]] = defaultdict(dict)

    def add(self, number: int, start: Start) -> None:
        """Note a job if it may move."""
        job_class = self.problem.classes[start.job_class]
        choice = job_class.choices[start.choice]
        shape = choice.groups[0].shape
        held = int(self.problem.shape_gpu[shape]) // WHOLE_GPU
        if not held or not choice.single:
            return
        host = start.puts[0].host
        level = PENDING if start.job == ANY else self.problem.running[start.job].level
        moved = start.job != ANY and not start.in_place
        dear, tenant = choice.value / held, job_class.tenant
        mover = Mover(dear, held, number, start.job, level, moved, tenant, shape)
        self._on[host][number] = mover
        self._count(host, mover, held)
        row = _row(mover)
        self._least[row, host] = min(self._least[row, host], dear)

    def drop(self, number: int, host: int) -> None:
        """Forget a job on a host, if it was noted."""
        mover = self._on[host].pop(number, None)
        if mover is not None:
            self._count(host, mover, -mover.held)
            row = _row(mover)
            others = (m.dear for m in self._on[host].values() if _row(m) == row)
            self._least[row, host] = min(others, default=np.inf)

    def _count(self, host: int, mover: Mover, held: int) -> None:
        self.held[host] += held
        self.of_shape[mover.shape, host] += held
        self._of_level[_row(mover), host] += held

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
        row, host = np.minimum(top, len(self._least) - 1), np.arange(len(lack))
        enough = self._of_level.cumsum(axis=0)[row, host] >= lack
        least = np.minimum.accumulate(self._least, axis=0)[row, host]
        found: Floats = np.full(len(lack), np.inf)
        found[enough] = 0.0
        some = enough & (lack > 0)
        found[some] = lack[some] * least[some]
        return found


def _row(mover: Mover) -> int:
    """Return the least `top` for which a job counts."""
    return 0 if mover.moved else mover.level + 1
