"""EASY backfilling, written from its descriptions, on hosts with GPUs.

The queue is first come, first served. Its first job that does not fit gets a reservation when
enough is expected to be free; any later job starts if it ends by then or leaves enough.

References
----------
Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995. Mu'alem and Feitelson, "Utilization,
predictability, workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling",
IEEE TPDS 12, 2001, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from placewright.array_types import Ints

__all__ = ["Arrival", "Easy"]

MARGIN = 1
"""Seconds after now at which a job that overran is expected to end, at least."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job: tasks of some GPUs of one host each, when it comes, and how long it runs.

    `expected` is what a scheduler knows of `seconds`.
    """

    name: str
    tasks: int
    gpus: int
    at: int
    seconds: int
    expected: int


@dataclass(slots=True)
class _Run:
    job: Arrival
    started: int
    hosts: Ints  # tasks on each, (hosts,)

    def expected_end(self, now: int) -> int:
        end = self.started + self.job.expected
        return end if end > now else now + max(now - end, MARGIN)


class Easy:
    """The state of a cluster under EASY backfilling, or under a simpler rule beside it.

    Parameters
    ----------
    passing
        Which jobs may pass one that does not fit: those that do not delay its reservation (EASY),
        any that fits, or none (first come, first served).
    """

    unproven = 0

    def __init__(
        self, hosts: int, gpus: int, *, passing: Literal["no later", "any", "none"] = "no later"
    ) -> None:
        self._free = np.full(hosts, gpus, dtype=np.int64)
        self._passing = passing
        self._running: dict[str, _Run] = {}
        self._queue: list[Arrival] = []

    def step(self, now: int, ended: Sequence[str], arrived: Sequence[Arrival]) -> list[str]:
        """Return the jobs that start now."""
        for name in ended:
            run = self._running.pop(name)
            self._free += run.hosts * run.job.gpus
        self._queue += arrived
        started: list[str] = []
        shadow: tuple[int, Ints] | None = None  # of the first job: when, and what is left then
        for job in list(self._queue):
            places = _places(self._free, job)
            if places is None:
                if self._passing == "none":
                    break
                if shadow is None and self._passing == "no later":
                    shadow = self._shadow(now, job)
                continue
            if shadow is not None and now + job.expected > shadow[0]:
                left = shadow[1]
                places = _places(np.minimum(self._free, left), job)
                if places is None:
                    continue
                left -= places * job.gpus
            self._free -= places * job.gpus
            self._queue.remove(job)
            self._running[job.name] = _Run(job, now, places)
            started.append(job.name)
        return started

    def _shadow(self, now: int, job: Arrival) -> tuple[int, Ints] | None:
        """Return when a job is expected to fit, and what each host has left beside it then."""
        free = self._free.copy()
        ends = {name: run.expected_end(now) for name, run in self._running.items()}
        for at, names in groupby(sorted(ends, key=ends.__getitem__), key=ends.__getitem__):
            for run in map(self._running.__getitem__, names):
                free += run.hosts * run.job.gpus
            places = _places(free, job)
            if places is not None:
                return at, free - places * job.gpus
        return None


def _places(free: Ints, job: Arrival) -> Ints | None:
    """Return the tasks on each host by best fit, None if the job does not fit."""
    room = free // job.gpus
    if int(room.sum()) < job.tasks:
        return None
    order = np.argsort(np.where(room > 0, free, np.iinfo(np.int64).max), kind="stable")
    taken = np.clip(job.tasks - (np.cumsum(room[order]) - room[order]), 0, room[order])
    places = np.zeros_like(free)
    places[order] = taken
    return places
